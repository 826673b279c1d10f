"""The registry of API keys: every API that fencepost uses, private ones included.

Registered   by its module: each module of wire/ whose name is k, an API key, and a name has exactly one Api
             of that key. There is no second list. A listener serves registered APIs only; what ApiVersions
             says is what the listener serves.
Made of it   the tables of docs/api-keys.md, and what tests know as every API: schema tests, fuzzing, largest
             requests. An API without its row, its place in the page or its endpoint fails a fast test.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final

import fencepost.wire
from fencepost.records.invariant import InvariantViolation
from fencepost.wire.dispatch import Api
from fencepost.wire.schema import Message

_MODULE: Final = re.compile(r"k(\d{2,})_[a-z][a-z_]*")


_MODULES: Final[dict[int, ModuleType]] = {}
"""By API key."""


def _registered() -> dict[int, Api[Any, Any]]:
    """All APIs by ascending key, found in this folder's modules."""
    found: dict[int, Api[Any, Any]] = {}
    for module in pkgutil.iter_modules(fencepost.wire.__path__):
        named = _MODULE.fullmatch(module.name)
        if named is None:
            continue
        key = int(named[1])
        imported = importlib.import_module(f"fencepost.wire.{module.name}")
        contents = vars(imported).values()
        own = [each for each in contents if isinstance(each, Api) and each.key == key]
        if len(own) != 1 or key in found:
            raise InvariantViolation(
                f"wire/{module.name}.py has {len(own)} APIs of key {key}; expected one, in one module"
            )
        found[key] = own[0]
        _MODULES[key] = imported
    return {key: found[key] for key in sorted(found)}


APIS: Final[Mapping[int, Api[Any, Any]]] = _registered()
"""By API key, ascending."""


def messages() -> Iterator[tuple[Api[Any, Any], Message]]:
    """Every message that is read or written as kio describes it, with its API."""
    for key, api in APIS.items():
        yield from ((api, each) for each in vars(_MODULES[key]).values() if isinstance(each, Message))


def load_newest() -> None:
    """Import what describes the newest version of each message, which fencepost's own nodes speak: 0.1 s.

    For a node to call before it serves. Another version is imported with its first message.
    """
    for api, message in messages():
        message.load(api.versions[-1])


def require_registered(apis: Iterable[Api[Any, Any]]) -> None:
    """Raises InvariantViolation for an API whose key and name are not those of a module of wire/."""
    for api in apis:
        known = APIS.get(api.key)
        if known is None or known.name != api.name:
            raise InvariantViolation(
                f"API {api.name} ({api.key}) is not registered; expected it in a wire/k{api.key:02}_*.py"
            )
