"""The settings that a topic may have: which are known, what they may be, what is in force.

A setting that this project cannot honour is refused, not kept and ignored: who sets it relies on it.
Source   Kafka LogConfig, TopicConfig.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fencepost.controller.errors import InvalidConfig
from fencepost.controller.topics import TopicConfig
from fencepost.records.levels import COMPACTED_TOPICS

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 20  # -2^63, and one

SOURCE_TOPIC: Final = 1  # Kafka ConfigSource DYNAMIC_TOPIC_CONFIG
SOURCE_PROPERTIES: Final = 4  # STATIC_BROKER_CONFIG
SOURCE_DEFAULT: Final = 5  # DEFAULT_CONFIG

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPRESSION_TYPE: Final = "compression.type"
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG: Final = "max.compaction.lag.ms"


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


def _words(default: str, *words: str) -> Setting:
    """A list with commas of some of the words, each once."""

    def accepts(text: str) -> bool:
        listed = [each.strip() for each in text.split(",")]
        return set(listed) <= set(words) and len(listed) == len(set(listed))

    return Setting(default, f"one or more of {', '.join(words)}", accepts)


def _share(default: float) -> Setting:
    def accepts(text: str) -> bool:
        digits = text.replace(".", "", 1)
        plain = digits.isascii() and digits.isdigit() and len(text) <= NUMBER_CHARACTERS_MAX
        return plain and float(text) <= 1

    return Setting(str(default), "a number from 0 to 1", accepts)


SETTINGS: Final[Mapping[str, Setting]] = {
    CLEANUP_POLICY: _words("delete", "delete", "compact"),
    COMPRESSION_TYPE: _word("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "delete.retention.ms": _number(86_400_000, 0, INT64_MAX),
    "flush.messages": _number(INT64_MAX, 1, INT64_MAX),
    MAX_COMPACTION_LAG: _number(INT64_MAX, 1, INT64_MAX),
    "max.message.bytes": _number(1_048_588, 0, INT32_MAX),
    "message.timestamp.type": _word("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _share(0.5),
    MIN_COMPACTION_LAG: _number(0, 0, INT64_MAX),
    MIN_INSYNC_REPLICAS: _number(1, 1, INT32_MAX),
    "retention.bytes": _number(-1, -1, INT64_MAX),
    "retention.ms": _number(604_800_000, -1, INT64_MAX),
    "segment.bytes": _number(1024**3, 14, INT32_MAX),
    "segment.ms": _number(604_800_000, 1, INT64_MAX),
}
"""Every setting by its name, in the order of names."""


OF_COMPACTION: Final = frozenset({
    "delete.retention.ms", MAX_COMPACTION_LAG, "min.cleanable.dirty.ratio", MIN_COMPACTION_LAG, "segment.ms",
})  # fmt: skip
"""Settings that every broker obeys from log level COMPACTED_TOPICS on, as it does the policy ``compact``."""


def checked(configs: tuple[tuple[str, str | None], ...], log_level: int) -> tuple[tuple[str, str], ...]:
    """The settings as they are kept: ordered by name, the last of a name counts.

    log_level   in force: a broker of an older version may be there.
    Raises      InvalidConfig.
    """
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
        if log_level < COMPACTED_TOPICS and (
            name in OF_COMPACTION
            or (name == CLEANUP_POLICY and "compact" in text)
            or (name == COMPRESSION_TYPE and text != SETTINGS[name].default)
        ):
            raise InvalidConfig(
                f"{name}={text} needs log level {COMPACTED_TOPICS}, the cluster has {log_level}: upgrade "
                f"every node, then run `fencepost features upgrade --log-level {COMPACTED_TOPICS}`"
            )
        kept[name] = text
    lags = [int(kept.get(name, SETTINGS[name].default)) for name in (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG)]
    if lags[0] > lags[1]:
        raise InvalidConfig(
            f"{MIN_COMPACTION_LAG} is {lags[0]}, expected at most {MAX_COMPACTION_LAG}, which is {lags[1]}"
        )
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
