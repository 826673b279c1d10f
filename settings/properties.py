"""A node's configuration from a Kafka-style properties file, read strictly.

Strict      an unknown key is an error that suggests the nearest; a key given twice is an error; a value
            out of range is an error that names key, value and what is expected.
Inverse     ``parse_properties(config.render(), path) == config`` for every config (test_config.py).
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.config_values import Kind, ensure
from fencepost.settings.overrides import PREFIX, Override, parse_prefixed

VALUE_CHARACTERS_MAX: Final = 64 * 1024


class Pair(NamedTuple):
    """A setting's text; ``where`` it is, for errors."""

    where: str
    key: str
    value: str


def parse_properties(text: str, path: Path) -> NodeConfig:
    """Read a properties file: ``key=value`` lines; blank lines and lines from ``#`` or ``!`` are skipped.

    ``path`` is named in errors, and relative paths in the file are taken from its folder.
    Raises ConfigError.
    """
    return config_of(_pairs(text, path), str(path), path.parent)


def _pairs(text: str, path: Path) -> Iterator[Pair]:
    for line_number, line in logical_lines(text):
        if not line.strip() or line.strip()[0] in "#!":
            continue
        where = f"{path}: line {line_number}"
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise ConfigError(f"{where}: expected key=value, got {line.strip()[:200]!r}")
        yield Pair(where, key, value)


def config_of(pairs: Iterable[Pair], name: str, folder: Path) -> NodeConfig:
    """A configuration from settings in any order; relative paths are taken from ``folder``.

    ``name`` is named in errors that are about several of them. Raises ConfigError.
    """
    settings = {each.metadata["key"]: each for each in fields(NodeConfig)}
    values: dict[str, Any] = {}
    overrides: list[Override] = []
    for where, key, value in pairs:
        if key.startswith(PREFIX):
            own = _override(where, key, value, settings, folder)
            if any(own[:3] == each[:3] for each in overrides):
                raise ConfigError(f"{where}: {key} is given twice")
            overrides.append(own)
            continue
        if key not in settings:
            raise ConfigError(f"{where}: unknown key {key}{_nearest(key, tuple(settings))}")
        setting = settings[key]
        if setting.name in values:
            raise ConfigError(f"{where}: {key} is given twice")
        values[setting.name] = parse_value(setting.metadata["kind"], value, f"{where}: {key}", folder)
    missing = [key for key, each in settings.items() if each.default is MISSING and each.name not in values]
    if missing:
        raise ConfigError(f"{name}: missing {', '.join(missing)}")
    try:
        return NodeConfig(**values, overrides=tuple(overrides))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _override(
    where: str, key: str, value: str, settings: Mapping[str, "Field[Any]"], folder: Path
) -> Override:
    try:
        listener, mechanism, setting = parse_prefixed(key)
    except ValueError as error:
        raise ConfigError(f"{where}: unknown key {key}: {error}") from None
    found = parse_value(settings[setting].metadata["kind"], value, f"{where}: {key}", folder)
    return Override(listener, mechanism, settings[setting].name, found)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, line): one that ends with a backslash goes on in the next, as in Java."""
    begun, first = "", 0
    for line_number, line in enumerate(text.splitlines(), start=1):
        first = first or line_number
        begun += line.lstrip() if begun else line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun, first = "", 0
    if begun:
        yield first, begun


def parse_value(kind: Kind, text: str, where: str, folder: Path) -> Any:
    """One setting's value; a relative path is taken from ``folder``. Raises ConfigError, with ``where``."""
    try:
        ensure(len(text) <= VALUE_CHARACTERS_MAX)
        value = kind.parse(text)
    except ValueError:
        came = "" if kind.is_secret else f"; got {text[:200]!r}"
        raise ConfigError(f"{where}: expected {kind.expected}{came}") from None
    if isinstance(value, tuple):
        return tuple([_from(folder, each) for each in value])
    return _from(folder, value)


def _from(folder: Path, value: Any) -> Any:
    return folder.absolute() / value if isinstance(value, Path) else value


def _nearest(key: str, keys: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(keys)}"
