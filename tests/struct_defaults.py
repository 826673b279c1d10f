"""The defaults of all messages, rows and settings in a package: what one means that does not say more.

A row of an earlier version, and a message of an earlier version of the protocol, lack a field: a default is
part of the format. A table in the tests of each folder has them, so that none changes unseen.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

Defaults: TypeAlias = dict[str, dict[str, float | bool]]
"""By file and class, then by field: those that are numbers, ids, or true or false."""


def defaults_in(package: ModuleType) -> Defaults:
    """Of each class with named fields that the package's own files define."""
    found: Defaults = {}
    for _, file, is_package in pkgutil.iter_modules(package.__path__):
        if is_package:
            continue
        module = importlib.import_module(f"{package.__name__}.{file}")
        for name, each in vars(module).items():
            if inspect.isclass(each) and each.__module__ == module.__name__:
                numbers = {
                    field: default if isinstance(default, bool | float) else int(default)
                    for field, default in _defaults(each)
                    if isinstance(default, int | float | UUID)
                }
                if numbers:
                    found[f"{file}.{name}"] = numbers
    return found


def _defaults(each: type[Any]) -> Iterator[tuple[str, Any]]:
    if issubclass(each, msgspec.Struct):
        yield from ((field.name, field.default) for field in msgspec.structs.fields(each))
    elif dataclasses.is_dataclass(each):
        yield from ((field.name, field.default) for field in dataclasses.fields(each))
    else:
        yield from getattr(each, "_field_defaults", {}).items()
