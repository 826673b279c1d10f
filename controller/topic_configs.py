"""The settings that a topic may have: which are known, what they may be, what is in force.

A setting that this project cannot honour is refused, not kept and ignored: who sets it relies on it. Of
Kafka's topic settings each is here: one that would change nothing has the one value that says what is done.
Defaults  a topic that does not set one has its broker's: what is set for this broker while it runs, then for
          all brokers, then in the properties of the node, then Kafka's default.
Source    Kafka LogConfig, TopicConfig, ServerTopicConfigSynonyms, ConfigHelper.createTopicConfigEntry.
"""

import difflib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from fencepost.controller.errors import InvalidConfig
from fencepost.controller.topics import ConfigSynonym, TopicConfig
from fencepost.records.levels import COMPACTED_TOPICS, SETTINGS_OF_BROKERS

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 20  # -2^63, and one

SOURCE_TOPIC: Final = 1  # Kafka ConfigSource DYNAMIC_TOPIC_CONFIG
SOURCE_BROKER: Final = 2  # DYNAMIC_BROKER_CONFIG
SOURCE_BROKERS: Final = 3  # DYNAMIC_DEFAULT_BROKER_CONFIG
SOURCE_PROPERTIES: Final = 4  # STATIC_BROKER_CONFIG
SOURCE_DEFAULT: Final = 5  # DEFAULT_CONFIG

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPRESSION_TYPE: Final = "compression.type"
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG: Final = "max.compaction.lag.ms"

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7  # Kafka ConfigType


class Setting(NamedTuple):
    """One setting of a topic. ``accepts`` sees text without spaces around it.

    kind        Kafka's ConfigType.
    of_broker   the broker's setting that is its default; "" if none is.
    is_fixed    its one value says what is done here, whatever is set.
    """

    default: str
    expected: str
    accepts: Callable[[str], bool]
    kind: int
    of_broker: str = ""
    is_fixed: bool = False


def _number(default: int, first: int, last: int, of_broker: str = "") -> Setting:
    """A whole number in these bounds."""

    def accepts(text: str) -> bool:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(text) <= NUMBER_CHARACTERS_MAX):
            return False
        return first <= int(text) <= last

    kind = INT if last == INT32_MAX else LONG
    return Setting(str(default), f"a whole number from {first} to {last}", accepts, kind, of_broker)


def _level(default: int, first: int, last: int, of_broker: str, *, beside: int | None = None) -> Setting:
    """Of a codec. ``beside``: one more number that is accepted."""
    within = _number(default, first, last)
    other = "" if beside is None else f" or {beside}"
    return Setting(
        str(default),
        f"{within.expected}{other}",
        lambda text: within.accepts(text) or text == str(beside),
        INT,
        of_broker,
    )


def _word(*words: str, of_broker: str) -> Setting:
    return Setting(words[0], " or ".join(words), lambda text: text in words, STRING, of_broker)


def _only(value: str, kind: int, reason: str, of_broker: str = "") -> Setting:
    """A setting of Kafka's of which one value is true here."""
    return Setting(value, f"{value!r}: {reason}", lambda text: text == value, kind, of_broker, is_fixed=True)


def _words(default: str, *words: str, of_broker: str) -> Setting:
    """A list with commas of some of the words, each once."""

    def accepts(text: str) -> bool:
        listed = [each.strip() for each in text.split(",")]
        return set(listed) <= set(words) and len(listed) == len(set(listed))

    return Setting(default, f"one or more of {', '.join(words)}", accepts, LIST, of_broker)


def _share(default: float, of_broker: str) -> Setting:
    def accepts(text: str) -> bool:
        digits = text.replace(".", "", 1)
        plain = digits.isascii() and digits.isdigit() and len(text) <= NUMBER_CHARACTERS_MAX
        return plain and float(text) <= 1

    return Setting(str(default), "a number from 0 to 1", accepts, DOUBLE, of_broker)


_NO_TIERS: Final = "there is no remote storage"
_ONE_REPLICA: Final = "a partition has one replica"

SETTINGS: Final[Mapping[str, Setting]] = {
    CLEANUP_POLICY: _words("delete", "delete", "compact", of_broker="log.cleanup.policy"),
    "compression.gzip.level": _level(-1, 1, 9, "compression.gzip.level", beside=-1),
    "compression.lz4.level": _level(9, 1, 17, "compression.lz4.level"),
    COMPRESSION_TYPE: _word(
        "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", of_broker="compression.type"
    ),
    "compression.zstd.level": _level(3, -131_072, 22, "compression.zstd.level"),
    "delete.retention.ms": _number(86_400_000, 0, INT64_MAX, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _only(
        "0", LONG, "files of deleted segments go at once", "log.segment.delete.delay.ms"
    ),
    "flush.messages": _number(INT64_MAX, 1, INT64_MAX, "log.flush.interval.messages"),
    "flush.ms": _only(
        str(INT64_MAX), LONG, "logs are flushed by flush.messages, not by time", "log.flush.interval.ms"
    ),
    "follower.replication.throttled.replicas": _only("", LIST, _ONE_REPLICA),
    "index.interval.bytes": _number(4_096, 0, INT32_MAX, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _only("", LIST, _ONE_REPLICA),
    "local.retention.bytes": _only("-2", LONG, _NO_TIERS, "log.local.retention.bytes"),
    "local.retention.ms": _only("-2", LONG, _NO_TIERS, "log.local.retention.ms"),
    MAX_COMPACTION_LAG: _number(INT64_MAX, 1, INT64_MAX, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _number(1_048_588, 0, INT32_MAX, "message.max.bytes"),
    "message.timestamp.after.max.ms": _number(3_600_000, 0, INT64_MAX, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _number(
        INT64_MAX, 0, INT64_MAX, "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.type": _word("CreateTime", "LogAppendTime", of_broker="log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _share(0.5, "log.cleaner.min.cleanable.ratio"),
    MIN_COMPACTION_LAG: _number(0, 0, INT64_MAX, "log.cleaner.min.compaction.lag.ms"),
    MIN_INSYNC_REPLICAS: _number(1, 1, INT32_MAX, "min.insync.replicas"),
    "preallocate": _only("false", BOOLEAN, "segments grow as they are written", "log.preallocate"),
    "remote.log.copy.disable": _only("false", BOOLEAN, _NO_TIERS),
    "remote.log.delete.on.disable": _only("false", BOOLEAN, _NO_TIERS),
    "remote.storage.enable": _only("false", BOOLEAN, _NO_TIERS),
    "retention.bytes": _number(-1, -1, INT64_MAX, "log.retention.bytes"),
    "retention.ms": _number(604_800_000, -1, INT64_MAX, "log.retention.ms"),
    "segment.bytes": _number(1024**3, 14, INT32_MAX, "log.segment.bytes"),
    "segment.index.bytes": _number(10_485_760, 4, INT32_MAX, "log.index.size.max.bytes"),
    "segment.jitter.ms": _number(0, 0, INT64_MAX, "log.roll.jitter.ms"),
    "segment.ms": _number(604_800_000, 1, INT64_MAX, "log.roll.ms"),
    "unclean.leader.election.enable": _only("false", BOOLEAN, _ONE_REPLICA, "unclean.leader.election.enable"),
}
"""Every setting by its name, in the order of names."""


OF_COMPACTION: Final = frozenset({
    "delete.retention.ms", MAX_COMPACTION_LAG, "min.cleanable.dirty.ratio", MIN_COMPACTION_LAG, "segment.ms",
})  # fmt: skip
"""Settings that every broker obeys from log level COMPACTED_TOPICS on, as it does the policy ``compact``."""

OBEYED_LAST: Final = frozenset({
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "index.interval.bytes",
    "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "segment.index.bytes",
    "segment.jitter.ms",
})  # fmt: skip
"""Settings that every broker obeys from log level SETTINGS_OF_BROKERS on."""

NodeDefaults: TypeAlias = tuple[tuple[str, tuple[ConfigSynonym, ...]], ...]
"""What is set for a broker, each setting once, by its name: what counts first is first."""


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
        needed = _needed_level(name, text)
        if log_level < needed:
            raise InvalidConfig(
                f"{name}={text} needs log level {needed}, the cluster has {log_level}: upgrade every node, "
                f"then run `fencepost features upgrade --log-level {needed}`"
            )
        kept[name] = text
    lags = [int(kept.get(name, SETTINGS[name].default)) for name in (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG)]
    if lags[0] > lags[1]:
        raise InvalidConfig(
            f"{MIN_COMPACTION_LAG} is {lags[0]}, expected at most {MAX_COMPACTION_LAG}, which is {lags[1]}"
        )
    return tuple(sorted(kept.items()))


@lru_cache(maxsize=1_000)  # most topics have the settings of some others
def in_force(configs: tuple[tuple[str, str], ...], node: NodeDefaults) -> tuple[TopicConfig, ...]:
    """Every setting of a topic, in the order of names, with all that it could have been."""
    own, of_node = dict(configs), dict(node)
    found = []
    for name, setting in SETTINGS.items():
        synonyms: list[ConfigSynonym] = []
        if name in own:
            synonyms.append(ConfigSynonym(name, own[name], SOURCE_TOPIC))
        if setting.of_broker:
            synonyms += of_node.get(setting.of_broker, ())
            synonyms.append(ConfigSynonym(setting.of_broker, setting.default, SOURCE_DEFAULT))
        value, source = (
            (synonyms[0].value, synonyms[0].source) if synonyms else (setting.default, SOURCE_DEFAULT)
        )
        found.append(TopicConfig(name, value, source, synonyms=tuple(synonyms), kind=setting.kind))
    return tuple(found)


@lru_cache(maxsize=100)
def with_properties(changed: NodeDefaults, properties: tuple[tuple[str, str], ...]) -> NodeDefaults:
    """``changed``, which counts first, and what the properties of a node say that is not the default."""
    found = dict(changed)
    for name, value in properties:
        if value != DEFAULTS_OF_BROKERS.get(name):
            found[name] = (*found.get(name, ()), ConfigSynonym(name, value, SOURCE_PROPERTIES))
    return tuple(sorted(found.items()))


DEFAULTS_OF_BROKERS: Final = {each.of_broker: each.default for each in SETTINGS.values() if each.of_broker}


def _needed_level(name: str, text: str) -> int:
    """From which log level on every broker obeys the setting."""
    if name in OBEYED_LAST:
        return SETTINGS_OF_BROKERS
    if (
        name in OF_COMPACTION
        or (name == CLEANUP_POLICY and "compact" in text)
        or (name == COMPRESSION_TYPE and text != SETTINGS[name].default)
    ):
        return COMPACTED_TOPICS
    return 0


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name[:200], SETTINGS, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(SETTINGS)}"
