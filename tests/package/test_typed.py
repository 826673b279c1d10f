"""In quorum, coordinator and node each hand-over says its types: no Any, object or callable of anything."""

import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package.vague import vague
from tests.together import table

ROOT = Path(__file__).parents[2]
FOLDERS = ("quorum", "coordinator", "node")

ALLOWED: tuple[str, ...] = ()
"""Exceptions, as ``vague`` says them, each with its reason beside it."""

ALLOWED_MAX = 5


def imported(folder: str) -> Iterator[Path]:
    """The files of a folder's modules, each of them imported."""
    package = importlib.import_module(f"fencepost.{folder}")
    for module in pkgutil.iter_modules(package.__path__):
        file = importlib.import_module(f"fencepost.{folder}.{module.name}").__file__
        assert file is not None
        yield Path(file)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_signature_says_what_it_takes_and_returns(folder: str) -> None:
    found = [each for path in imported(folder) for each in vague(path)]
    assert [each for each in found if each not in ALLOWED] == []


def test_exceptions_are_few() -> None:
    assert len(ALLOWED) <= ALLOWED_MAX


def test_mypy_refuses_any_in_these_folders() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    (refusing,) = [each["module"] for each in mypy["overrides"] if each.get("disallow_any_explicit")]
    assert refusing == [f"fencepost.{folder}.*" for folder in FOLDERS]
    others = [module for each in mypy["overrides"] for module in each["module"] if each["module"] != refusing]
    assert not [module for module in others if module.startswith(tuple(each[:-2] for each in refusing))]


@table(
    ("text", "complaints"),
    [
        pytest.param("def f(call: Callable[[int], None]) -> None: ...", [], id="callable-of-an-int"),
        pytest.param("def f(call: Callable[[], None]) -> None: ...", [], id="callable-of-nothing"),
        pytest.param("MARK = object()", [], id="an-object-made"),
        pytest.param("def f(call: Callable[..., None]) -> None: ...", ["Callable[..., ]"], id="of-anything"),
        pytest.param("def f(call: Callable) -> None: ...", ["Callable"], id="bare"),
        pytest.param("def f(*, call: int | Callable) -> None: ...", ["Callable"], id="bare-in-a-union"),
        pytest.param("Call = Callable[..., None]", ["Callable[..., ]"], id="of-anything-by-name"),
        pytest.param("def f(it: object) -> None: ...", ["object"], id="object-taken"),
        pytest.param("async def f() -> list[object]: ...", ["object"], id="object-returned"),
        pytest.param("def f(*them: Any, **by_name: Any) -> None: ...", ["Any", "Any"], id="any-many"),
        pytest.param("class C:\n    x: dict[str, Any]", ["Any"], id="any-in-a-field"),
        pytest.param("def f(it: 'Future[Any]') -> 'object': ...", ["Any", "object"], id="in-quotes"),
        pytest.param("def f(it: typing.Any) -> None: ...", ["Any of a module"], id="of-a-module"),
        pytest.param("x = 1  # type: ignore[explicit-any]", ["ignores explicit-any"], id="ignored"),
    ],
)
def test_what_says_nothing_is_named(tmp_path: Path, text: str, complaints: list[str]) -> None:
    path = tmp_path / "m.py"
    path.write_text(text)
    assert sorted(each.split(": ", 1)[1] for each in vague(path)) == sorted(complaints)
