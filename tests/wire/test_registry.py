"""The registry of API keys: what is registered, and the page and the tests that are made of it."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fencepost.wire
from fencepost.records.invariant import InvariantViolation
from fencepost.wire import registry
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.k18_api_versions import advertise
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import OWN_KEYS, Listener
from fencepost.wire.registry import APIS
from tests.wire.every_api import EVERY_API
from tests.wire.sample_messages import SAMPLES
from tests.wire.stage import blocks_service, capturing_log

PAGE = Path(__file__).parents[2] / "docs" / "api-keys.md"
KIB, MIB = 1024, 1024 * 1024


def modules() -> list[ModuleType]:
    """Every module of wire/, found without the registry's rule for names."""
    found = pkgutil.iter_modules(fencepost.wire.__path__)
    return [importlib.import_module(f"fencepost.wire.{each.name}") for each in found]


def test_every_api_of_every_module_of_wire_is_registered() -> None:
    found = {
        value.key: value for module in modules() for value in vars(module).values() if isinstance(value, Api)
    }
    assert found == dict(APIS)
    assert list(APIS) == sorted(APIS)


def test_every_api_has_a_sample_of_its_messages() -> None:
    assert sorted(SAMPLES) == list(APIS)


def test_every_api_is_served_on_a_listener() -> None:
    for api in EVERY_API:
        assert set(api.listeners) <= {BROKER, CONTROLLER}, api.name
        assert len(set(api.listeners)) == len(api.listeners) > 0, api.name
    assert all(set(APIS[key].listeners) == {BROKER, CONTROLLER} for key in OWN_KEYS)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"key": 30_000, "name": "New"}, id="a-new-key"),
        pytest.param({"key": 66}, id="a-key-of-another"),
    ],
)
def test_what_is_not_registered_is_not_served(changes: dict[str, Any]) -> None:
    stranger = dataclasses.replace(ALLOCATE_PRODUCER_IDS, **changes)
    (_, endpoint) = blocks_service()[ALLOCATE_PRODUCER_IDS.key]
    with pytest.raises(InvariantViolation, match=f"{stranger.name} \\({stranger.key}\\) is not registered"):
        Listener({stranger.key: (stranger, endpoint)}, name="X", log=capturing_log()[0])


@pytest.mark.parametrize(
    ("contents", "count"),
    [
        pytest.param({}, 0, id="no-api"),
        pytest.param({"A": ALLOCATE_PRODUCER_IDS}, 0, id="another-key"),
        pytest.param(
            {each: dataclasses.replace(ALLOCATE_PRODUCER_IDS, key=68) for each in "AB"}, 2, id="two-apis"
        ),
    ],
)
def test_a_module_has_the_one_api_that_its_name_says(
    monkeypatch: pytest.MonkeyPatch, contents: dict[str, Any], count: int
) -> None:
    module = ModuleType("fencepost.wire.k68_new")
    vars(module).update(contents)
    monkeypatch.setitem(importlib.sys.modules, module.__name__, module)  # type: ignore[attr-defined]
    monkeypatch.setattr(pkgutil, "iter_modules", lambda _path: [pkgutil.ModuleInfo(None, "k68_new", False)])  # type: ignore[arg-type]
    with pytest.raises(InvariantViolation, match=f"k68_new.py has {count} APIs of key 68"):
        registry._registered()


def test_api_versions_says_every_registered_api() -> None:
    ranges = advertise(EVERY_API)
    assert [(each.api_key, each.min_version, each.max_version) for each in ranges] == [
        (key, api.versions[0], api.versions[-1]) for key, api in APIS.items()
    ]


def test_the_page_has_the_table_that_the_registry_makes() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert rows[: len(APIS) + 1] == list(table(EVERY_API))


def table(apis: Iterable[Api[Any, Any]]) -> Iterable[str]:
    """The page's first table, without the line under its head."""
    yield "| key | API | versions | broker listener | controller listener | bytes of a request |"
    for api in apis:
        listeners = ["yes" if each in api.listeners else "-" for each in (BROKER, CONTROLLER)]
        size = in_units(api.request_bytes_max)
        first = max(api.versions[0], api.served_from)
        versions = f"{first}" if first == api.versions[-1] else f"{first} to {api.versions[-1]}"
        yield f"| {api.key} | {api.name} | {versions} | {' | '.join(listeners)} | {size} |"


def in_units(size: int) -> str:
    """As the page says it."""
    return f"{size // MIB} MiB" if size % MIB == 0 else f"{size // KIB} KiB"
