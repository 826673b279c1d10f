"""What ``produce`` and ``consume`` share: ``KEY=VALUE`` options, and how their values are read."""

from collections.abc import Mapping, Sequence

import click


def pairs(context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Reads a repeated ``KEY=VALUE``. The value may be empty, and hold a ``=``."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {value!r}", context, option)
        found[key] = rest
    return found


def require_known(given: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """``known`` (key to default) with what was given. Raises click.BadParameter, which names the keys."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise click.BadParameter(f"--property: {', '.join(unknown)} not known; known are {', '.join(known)}")
    return {**known, **given}


def is_true(value: str) -> bool:
    """As Kafka's console tools read a boolean property."""
    return value.strip().lower() == "true"


def unescaped(value: str) -> str:
    r"""A separator as typed: ``\t`` and ``\n`` mean what they say."""
    return value.replace("\\t", "\t").replace("\\n", "\n")
