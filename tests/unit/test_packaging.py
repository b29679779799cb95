"""The root of the repository is the package: what is built holds all of it."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import skiplane

ROOT = Path(__file__).resolve().parents[2]
# One worker builds for all tests of this file; building takes seconds.
pytestmark = pytest.mark.xdist_group("packaging")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # The wheel is built from the sdist, so it proves the sdist complete as well.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """Make an environment that has the dependencies but not Skiplane.

    A path file lends it this environment's packages, so nothing is downloaded;
    path files that lie in a lent folder are not followed, among them the one of
    the editable install.
    """
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    purelib = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
    )
    Path(purelib.strip(), "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python: Path, *what: str | Path) -> None:
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    quiet = ("--quiet", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    run(*pip, *options, *quiet, *what, cwd=python.parent)


def where(python: Path) -> Path:
    code = "import skiplane, skiplane.cli, skiplane.schema; print(skiplane.__file__)"
    return Path(run(python, "-c", code, cwd=python.parent).strip()).parent


def package_files() -> set[str]:
    """List what must be in the wheel, from what Git knows and would add."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()
    existing = [Path(name) for name in listed if (ROOT / name).is_file()]
    packages = {path.parts[0] for path in existing if path.parts[1:] == ("__init__.py",)}
    return {
        f"skiplane/{path}"
        for path in existing
        if path.parts[0] in packages or (path.suffix == ".py" and len(path.parts) == 1)
    } | {"skiplane/py.typed"}


def test_link_maps_the_root_to_the_import_name():
    link = ROOT / ".ns" / "skiplane"
    assert link.is_symlink()
    assert os.readlink(link) == ".."


def test_tests_run_against_this_tree():
    assert Path(str(skiplane.__file__)).resolve().parent == ROOT


def test_wheel_holds_every_file_of_the_package(built: Path):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside == package_files()
    assert any(name.endswith(".sql") for name in inside)
    assert any(name.startswith("skiplane/migrations/versions/") for name in inside)


def test_sdist_holds_the_package_its_tests_and_its_licence(built: Path):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert inside >= {name.removeprefix("skiplane/") for name in package_files()}
    assert inside >= {"LICENSE", "Makefile", "tests/unit/test_packaging.py"}


def test_wheel_runs_where_nothing_else_is_installed(built: Path, fresh: Path):
    install(fresh, next(built.glob("*.whl")))
    assert ROOT not in where(fresh).parents
    command = fresh.with_name("skiplane")
    assert "Usage: skiplane" in run(command, "--help", cwd=fresh.parent)
    assert skiplane.__version__ in run(command, "--version", cwd=fresh.parent)


def test_editable_install_maps_to_the_tree(fresh: Path):
    install(fresh, "--editable", ROOT)
    assert where(fresh).resolve() == ROOT
