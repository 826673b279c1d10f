"""The import contracts of pyproject.toml: what is a circle, and which library has a home."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.modules import FOLDERS
from tests.together import table

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60
IMPORT = "from fencepost.{0} import X\n"
IMPORT_FOR_A_TYPE = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fencepost.{0} import X\n"
IMPORT_WHEN_CALLED = "def f():\n    from fencepost.{0} import X\n"

IMPORTS: Final = (  # the importer, how it imports, what
    ("sound.a", IMPORT, "sound.b"),
    ("sound.a", IMPORT, "sound.folder.x"),
    ("sound.folder.y", IMPORT, "sound.b"),
    ("plain.a", IMPORT, "plain.b"),
    ("plain.b", IMPORT, "plain.a"),
    ("for_a_type.a", IMPORT, "for_a_type.b"),
    ("for_a_type.b", IMPORT_FOR_A_TYPE, "for_a_type.a"),
    ("when_called.a", IMPORT, "when_called.b"),
    ("when_called.b", IMPORT_WHEN_CALLED, "when_called.a"),
    ("three.a", IMPORT, "three.b"),
    ("three.b", IMPORT, "three.c"),
    ("three.c", IMPORT, "three.a"),
    ("around.a", IMPORT, "around.folder.x"),
    ("around.folder.y", IMPORT, "around.a"),
    ("inside.folder.x", IMPORT, "inside.folder.y"),
    ("inside.folder.y", IMPORT, "inside.folder.x"),
    ("one.a", IMPORT, "other.a"),
    ("other.b", IMPORT, "one.b"),
)
CIRCLES: Final = {  # the folder among whose files and folders each is
    "fencepost.plain",
    "fencepost.for_a_type",
    "fencepost.when_called",
    "fencepost.three",
    "fencepost.around",
    "fencepost.inside.folder",
    "fencepost",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The folders in which lint-imports finds a circle."""
    folder = tmp_path_factory.mktemp("circles")
    package = folder / "fencepost"
    for importer, statement, imported in IMPORTS:
        for module in (importer, imported):
            path = package / (module.replace(".", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(statement.format(imported) if module == importer else "")
    for each in (package, *package.rglob("*/")):
        (each / "__init__.py").touch()
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--contract", "no-circles"]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert "Contracts: 0 kept, 1 broken." in ended.stdout, ended.stdout + ended.stderr
    return set(re.findall(r"No cycles are allowed in ([\w.]+)\.\n", ended.stdout))


@pytest.mark.parametrize("folder", sorted(CIRCLES))
def test_a_circle_is_refused(refused: set[str], folder: str) -> None:
    assert folder in refused


def test_what_has_no_circle_is_not(refused: set[str]) -> None:
    assert refused <= CIRCLES


WITHOUT_A_HOME: Final = {
    "crc32c": "one function, in place of the standard library's zlib.crc32",
    "msgspec": "structs and their codec, as the standard library's dataclasses and json",
    "structlog": "the log, as the standard library's logging",
}


def imported(folder: Path) -> set[str]:
    """Modules that files below ``folder`` import, ours and the standard library's left out."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module)
    ours = {"fencepost", *sys.stdlib_module_names}
    return {name for name in found if name.partition(".")[0] not in ours}


def test_every_library_has_a_home_or_a_reason() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (homes,) = (each for each in settings["contracts"] if each.get("id") == "homes")
    libraries = {name.partition(".")[0] for folder in FOLDERS for name in imported(ROOT / folder)}
    assert libraries - WITHOUT_A_HOME.keys() <= set(homes["forbidden_modules"])
    assert libraries >= WITHOUT_A_HOME.keys()


def test_records_know_how_kafka_serializes_and_none_of_its_messages() -> None:
    kio = {name for name in imported(ROOT / "records") if name.startswith("kio.")}
    assert {".".join(name.split(".")[:2]) for name in kio} == {"kio.serial", "kio.static"}


@table(
    ("text", "modules"),
    [
        pytest.param("import a.b\nfrom c.d import e", {"a.b", "c.d"}, id="at-the-top"),
        pytest.param("def f():\n    import a", {"a"}, id="in-a-function"),
        pytest.param(
            "import os, fencepost.wire\nfrom . import a", set(), id="ours-and-the-standard-librarys"
        ),
    ],
)
def test_what_a_file_imports(tmp_path: Path, text: str, modules: set[str]) -> None:
    (tmp_path / "a.py").write_text(text)
    assert imported(tmp_path) == modules
