"""Every API that wire knows, for tests that hold for all of them: each ``Api`` of each module wire/k*.py."""

import importlib
import pkgutil
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

import fencepost.wire
from fencepost.wire.dispatch import Api


def _every_api() -> tuple[Api[Any, Any], ...]:
    names = [
        name
        for _, name, _ in pkgutil.iter_modules(fencepost.wire.__path__)
        if name[0] == "k" and name[1].isdigit()
    ]
    modules = [importlib.import_module(f"fencepost.wire.{name}") for name in names]
    found = {
        value.key: value for module in modules for value in vars(module).values() if isinstance(value, Api)
    }
    return tuple(found[key] for key in sorted(found))


EVERY_API: tuple[Api[Any, Any], ...] = _every_api()
PRIVATE_KEY_MIN = 20_000
KAFKA_APIS = tuple(api for api in EVERY_API if api.key < PRIVATE_KEY_MIN)  # kio has a schema of these


def kios_request(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_request_schema(key, version))(body, 0)


def kios_response(key: int, version: int, body: bytes) -> tuple[Any, int]:
    """What kio reads in the body, and how many bytes of it."""
    return entity_reader(load_response_schema(key, version))(body, 0)
