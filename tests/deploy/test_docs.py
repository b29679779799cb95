"""What docs/deployment.md says to type exists, and so do the files, roles and settings it names."""

import re
import shlex
from collections.abc import Iterator

import click
import psycopg
import pytest

from skiplane.cli import load_command
from skiplane.config import SETTINGS, env_name
from skiplane.schema.embedded import EmbeddedServer
from skiplane.schema.install.roles import ROLES
from skiplane.tests.support.databases import server_folder

from .manifests import DEPLOY, ROOT, SYSTEMD, compose, env_file, kubernetes
from .test_running import RIGHTS

DOCS = ROOT / "docs"
PAGES = ("deployment.md", "scaling.md")
TEXT = (DOCS / "deployment.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", TEXT, re.M | re.S))


def commands() -> Iterator[list[str]]:
    """Give the arguments of each ``skiplane`` that is to be typed, wherever it is to run."""
    for line in SHELL.splitlines():
        words = shlex.split(line.split(" > ")[0])
        if "psql" in words:
            continue
        if words[:3] == ["docker", "compose", "run"]:
            # The image's entry point is skiplane.
            yield words[words.index("web") + 1 :]
        elif "skiplane" in words and words[0] in ("skiplane", "docker"):
            yield words[words.index("skiplane") + 1 :]
        elif "--" in words:
            yield words[words.index("--") + 2 :]


def server_settings(heading: str) -> list[str]:
    """Give the names in the first column of the table below a heading."""
    part = TEXT.split(f"\n### {heading}\n")[1].split("\n#")[0]
    cells = re.findall(r"^\| (`.*?) \|", part, re.M)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("arguments", [*commands()], ids=" ".join)
def test_commands_are_understood(arguments: list[str]):
    name, *rest = arguments
    command = load_command(name)
    while isinstance(command, click.Group):
        name, rest = rest[0], rest[1:]
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    command.make_context(name, rest)


def test_some_commands_are_there():
    assert {arguments[0] for arguments in commands()} >= {"migrate", "doctor", "keys", "submit"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (DOCS / path) if path else DOCS / page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def test_files_that_are_named_exist():
    named = set(re.findall(r"\b(?:deploy|bench|examples)/[\w./@-]*\w", TEXT))
    assert named
    made_by_the_reader = {"deploy/secrets", "deploy/skiplane-web"}
    for name in named:
        assert (ROOT / name).exists() or name.startswith(tuple(made_by_the_reader)), name
    for folder in (path for path in DEPLOY.iterdir() if path.is_dir() and path.name != "secrets"):
        assert f"deploy/{folder.name}" in TEXT or folder.name in ("prometheus", "grafana")


def test_settings_that_are_named_exist():
    known = {env_name(setting) for setting in SETTINGS} | set(env_file(DEPLOY / "compose.env"))
    assert set(re.findall(r"\bSKIPLANE_[A-Z_]+\b", TEXT)) <= known


def test_roles_units_and_objects_that_are_named_exist():
    assert set(re.findall(r"`(skiplane_\w+)`", TEXT)) == set(ROLES)
    for deployment, group in RIGHTS.items():
        command = deployment.replace("-", " ")
        assert re.search(rf"^\| [^|]*`{command}`[^|]*\| `{group}`", TEXT, re.M), deployment
    units = {path.name.split(".")[0].rstrip("@") for path in SYSTEMD.iterdir()}
    objects = {kind["metadata"]["name"] for kind in kubernetes()}
    secrets = {"skiplane-database", "skiplane-reader-key"}
    folders = {"skiplane-tasks"}
    named = set(re.findall(r"\bskiplane-[a-z]+(?:-[a-z]+)*\b", TEXT))
    assert named <= units | objects | secrets | folders


def test_server_settings_that_are_recommended_exist(conn: psycopg.Connection[tuple[object, ...]]):
    known = {row[0] for row in conn.execute("select name from pg_settings")}
    recommended = server_settings("PostgreSQL") + server_settings("Citus")
    assert len(recommended) > 15
    assert {name for name in recommended if not name.startswith("citus.")} <= known


def test_settings_that_stand_in_the_way_have_these_defaults(
    conn: psycopg.Connection[tuple[object, ...]],
):
    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    part = page.split("\n### Settings that stand in the way\n")[1].split("\n#")[0]
    found: dict[str, str] = {}
    for names, values in re.findall(r"^\| (`.*?) \| ([\d,and ]+) \|", part, re.M):
        numbers = [value.replace(",", "") for value in values.split(" and ")]
        found |= dict(zip(re.findall(r"`(\w+)`", names), numbers, strict=True))
    assert len(found) == 4
    sources = "".join(path.read_text() for path in (ROOT / "schema" / "functions").glob("*.sql"))
    rows = conn.execute("select name, value #>> '{}' from skiplane.setting").fetchall()
    stored = {str(name): value for name, value in rows}
    for name, number in found.items():
        code = f"_setting_number('{name}', {number})"
        assert stored.get(name) == number or code in sources, name


@pytest.mark.parametrize("page", PAGES)
def test_statements_run(page: str, dsn: str):
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [
        b for b in re.findall(r"^```sql\n(.*?)^```", text, re.M | re.S) if "database" not in b
    ]
    assert blocks
    # As the owner of the schema, who need not be more.
    with psycopg.connect(dsn, autocommit=True) as owner:
        for block in blocks:
            assert owner.execute(block.encode()).rowcount == 1


def test_a_server_starts_with_the_settings_of_compose(
    conn: psycopg.Connection[tuple[object, ...]],
):
    said = compose()["services"]["coordinator"]["command"][1:]
    settings = dict(option.removeprefix("--").split("=", 1) for option in said)
    assert settings.pop("shared_preload_libraries").split(",")[0] == "citus"
    plain = {name: value for name, value in settings.items() if "." not in name}
    # The server of the tests may be built without what those of the image have.
    known = conn.execute("select enumvals from pg_settings where name = 'wal_compression'")
    row = known.fetchone()
    assert row is not None
    if plain["wal_compression"] not in str(row[0]):
        plain["wal_compression"] = "pglz"
    with server_folder() as folder, EmbeddedServer(folder, settings=plain) as server:
        dsn = server.dsn("postgres")
        with psycopg.connect(dsn, autocommit=True) as conn:
            for name, value in plain.items():
                told = conn.execute("select current_setting(%s)", [name]).fetchone()
                assert told == (value,), name
