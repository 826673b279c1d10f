"""The settings that a topic may have: which are known, what they may be, what is in force.

A setting that this project cannot honour is refused, not kept and ignored: who sets it relies on it.
Source   Kafka LogConfig, TopicConfig.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fencepost.controller.errors import InvalidConfig
from fencepost.controller.topics import TopicConfig

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 20  # -2^63, and one

SOURCE_TOPIC: Final = 1  # Kafka ConfigSource DYNAMIC_TOPIC_CONFIG
SOURCE_PROPERTIES: Final = 4  # STATIC_BROKER_CONFIG
SOURCE_DEFAULT: Final = 5  # DEFAULT_CONFIG

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Setting(NamedTuple):
    """One setting of a topic. ``accepts`` sees text without spaces around it."""

    default: str
    expected: str
    accepts: Callable[[str], bool]


def _number(default: int, first: int, last: int) -> Setting:
    def accepts(text: str) -> bool:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(text) <= NUMBER_CHARACTERS_MAX):
            return False
        return first <= int(text) <= last

    return Setting(str(default), f"a whole number from {first} to {last}", accepts)


def _word(*words: str) -> Setting:
    return Setting(words[0], " or ".join(words), lambda text: text in words)


SETTINGS: Final[Mapping[str, Setting]] = {
    "cleanup.policy": _word("delete"),
    "compression.type": _word("producer"),
    "flush.messages": _number(INT64_MAX, 1, INT64_MAX),
    "max.message.bytes": _number(1_048_588, 0, INT32_MAX),
    "message.timestamp.type": _word("CreateTime", "LogAppendTime"),
    MIN_INSYNC_REPLICAS: _number(1, 1, INT32_MAX),
    "retention.bytes": _number(-1, -1, INT64_MAX),
    "retention.ms": _number(604_800_000, -1, INT64_MAX),
    "segment.bytes": _number(1024**3, 14, INT32_MAX),
}
"""Every setting by its name, in the order of names."""


def checked(configs: tuple[tuple[str, str | None], ...]) -> tuple[tuple[str, str], ...]:
    """The settings as they are kept: ordered by name, the last of a name counts. Raises InvalidConfig."""
    kept: dict[str, str] = {}
    for name, value in configs:
        setting = SETTINGS.get(name)
        if setting is None:
            raise InvalidConfig(f"unknown topic setting {name[:200]}{_nearest(name)}")
        if value is None:
            raise InvalidConfig(f"{name}: expected {setting.expected}; got null")
        text = value.strip()
        if not setting.accepts(text):
            raise InvalidConfig(f"{name}: expected {setting.expected}; got {value[:200]!r}")
        kept[name] = text
    return tuple(sorted(kept.items()))


def in_force(
    configs: tuple[tuple[str, str], ...], properties: tuple[tuple[str, str], ...]
) -> tuple[TopicConfig, ...]:
    """Every setting of a topic: its own, else the node's properties' (if they say so), else the default."""
    own, of_node = dict(configs), dict(properties)
    found = []
    for name, setting in SETTINGS.items():
        if name in own:
            found.append(TopicConfig(name, own[name], SOURCE_TOPIC))
        elif of_node.get(name, setting.default) != setting.default:
            found.append(TopicConfig(name, of_node[name], SOURCE_PROPERTIES))
        else:
            found.append(TopicConfig(name, setting.default, SOURCE_DEFAULT))
    return tuple(found)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name[:200], SETTINGS, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(SETTINGS)}"
