"""What is installed: one package and its metadata, out of a wheel out of an sdist, with types for its users.

Installed   with pip into an environment that has the libraries and not this checkout. pip fetches nothing.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import pytest

import fencepost
from tests.harness.command import here
from tests.modules import FOLDERS, LOADED_TWICE
from tests.testing import tutorial

ROOT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, TOOL = CONFIGURATION["project"], CONFIGURATION["tool"]
SECONDS_MAX = 220  # below what pytest gives a test (faulthandler_timeout)
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"

FOREIGN = """
from fencepost.records.types import BrokerId
from fencepost.settings.config import NodeConfig

def use(config: NodeConfig) -> str:
    reveal_type(BrokerId(1))
    reveal_type(config.is_controller)
    return config.is_controller
"""


EXAMPLE = """
import json, subprocess, sys
from pathlib import Path

def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

def test_an_example_and_a_command(fencepost):
    topic = fencepost.topic("topic")
    said = output(sys.executable, "example.py", fencepost.bootstrap, topic, "0")
    assert said.splitlines() == ["0: committed", "1: committed"]
    command = (Path(sys.executable).with_name("fencepost"), "transactions", "list", "--format", "json")
    listed = json.loads(output(*command, "--bootstrap-server", fencepost.bootstrap))["transactions"]
    assert f"{topic}-writer" in [each["transactional_id"] for each in listed]
"""


def run(*command: str | Path, cwd: Path) -> str:
    ended = started(*command, cwd=cwd)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def started(*command: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Without this one's environment of Python."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def built(kind: str, source: Path, to: Path) -> Path:
    """The sdist or wheel of a source, by the build backend that pyproject.toml names."""
    to.mkdir(exist_ok=True)
    return to / run(sys.executable, "-c", BUILD, f"build_{kind}", to, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a clean copy of the checkout: what git knows, links as links."""
    copy = tmp_path_factory.mktemp("checkout")
    names = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, names.split("\0")):
        if os.path.lexists(ROOT / name):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (copy / name).symlink_to((ROOT / name).readlink())
            else:
                (copy / name).write_bytes((ROOT / name).read_bytes())
    return built("sdist", copy, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the sdist alone."""
    unpacked = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return built("wheel", source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel; libraries come from this one, after its own."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, wheel, cwd=home)
    (folder,) = home.glob("lib/python*/site-packages")
    (folder / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.mark.slow
def test_the_wheel_has_one_package_with_every_module_and_nothing_else(wheel: Path) -> None:
    information = f"fencepost-{fencepost.__version__}.dist-info"
    names = members(wheel)
    assert {name.partition("/")[0] for name in names} == {"fencepost", information}
    modules = {
        f"fencepost/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    }
    own = {"fencepost/__init__.py", "fencepost/py.typed", "fencepost/bench/TransactionLoad.java"}
    assert {name for name in names if name.startswith("fencepost/")} == modules | own


@pytest.mark.slow
def test_the_sdist_has_no_second_copy_of_a_module(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
        assert not [member.name for member in archive.getmembers() if member.issym() or member.islnk()]
    assert not tops & {*FOLDERS, "tests"}
    assert "fencepost" in tops


@pytest.mark.slow
def test_installed_it_runs_under_one_name(installed: Path, tmp_path: Path) -> None:
    home = installed.parents[1]
    assert run(installed.parent / "fencepost", "--version", cwd=tmp_path).split()[-1] == fencepost.__version__
    assert "Usage: fencepost" in run(installed.parent / "fencepost", "--help", cwd=tmp_path)
    look = f"""
import importlib.util, fencepost.cli.main, fencepost.records.batch
{LOADED_TWICE}
print(fencepost.__file__, fencepost.records.batch.__file__, loaded_twice())
print([each for each in {FOLDERS} if importlib.util.find_spec(each)])
"""
    files, found = run(installed, "-c", look, cwd=tmp_path).splitlines()
    package, module, twice = files.split()
    assert Path(package).is_relative_to(home)
    assert Path(module).is_relative_to(home)
    assert (twice, found) == ("{}", "[]")


@pytest.mark.slow
def test_installed_the_tutorial_passes_and_its_bugs_are_named(installed: Path, tmp_path: Path) -> None:
    """In an empty folder, as a reader of docs/tutorial.md; an example and a command beside it."""
    shutil.copy(ROOT / "examples" / "recover_from_timeouts.py", tmp_path / "example.py")
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    tutorial.write_files(tmp_path)
    ended = started(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    said = ended.stdout + ended.stderr
    assert "3 failed, 2 passed" in said, said
    for bug, cause in tutorial.CAUSES.items():
        report = tutorial.report_of(ended.stdout, f"test_{bug}.py")
        assert re.search(f" fencepost: cause -+ {cause}", report), said
    assert re.search(tutorial.FENCED, tutorial.report_of(ended.stdout, "test_id_reused.py")), said


@pytest.mark.slow
def test_a_project_that_uses_it_is_checked_against_its_types(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed), "foreign.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    said = [re.sub(r"^foreign.py:", "", line) for line in ended.stdout.splitlines()]
    assert said == [
        '6: note: Revealed type is "fencepost.records.types.BrokerId"',
        '7: note: Revealed type is "bool"',
        '8: error: Incompatible return value type (got "bool", expected "str")  [return-value]',
        "Found 1 error in 1 file (checked 1 source file)",
    ], ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_metadata_say_what_the_project_file_says(wheel: Path) -> None:
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == (PROJECT["name"], fencepost.__version__)
    assert said.get_all("Classifier") == PROJECT["classifiers"]
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_the_version_has_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is red the environment is of another version: ``make`` installs this one."""
    assert version("fencepost") == fencepost.__version__
    assert here(capsys, "--version").stdout == f"fencepost, version {fencepost.__version__}\n"


def test_classifiers_say_what_is_tried() -> None:
    """Each is held to something: a new one needs a line here."""
    assert set(PROJECT["classifiers"]) == {
        "Development Status :: 3 - Alpha",  # as long as the version begins with 0
        "Operating System :: POSIX :: Linux",  # /proc is read
        "Programming Language :: Python :: 3 :: Only",
        f"Programming Language :: Python :: {TOOL['mypy']['python_version']}",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    }
    assert fencepost.__version__.startswith("0.")
    assert sys.platform == "linux"
    assert PROJECT["requires-python"] == f">={TOOL['mypy']['python_version']}"
    assert (ROOT / "fencepost" / "py.typed").read_bytes() == b""
