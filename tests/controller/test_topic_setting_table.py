"""Every setting of a topic: default, bounds, type and the broker's setting behind it are Kafka's."""

import re

import pytest

from fencepost.controller.errors import InvalidConfig
from fencepost.controller.topic_configs import (
    SETTINGS,
    SOURCE_BROKER,
    SOURCE_BROKERS,
    SOURCE_DEFAULT,
    SOURCE_PROPERTIES,
    SOURCE_TOPIC,
    checked,
)
from fencepost.records.levels import COMPACTED_TOPICS, SETTINGS_OF_BROKERS
from tests.together import table

KAFKAS = [
    ("cleanup.policy", "delete", "one or more of delete, compact", 7, "log.cleanup.policy"),
    ("compression.gzip.level", "-1", "a whole number from 1 to 9 or -1", 3, "compression.gzip.level"),
    ("compression.lz4.level", "9", "a whole number from 1 to 17", 3, "compression.lz4.level"),
    (
        "compression.type",
        "producer",
        "producer or uncompressed or gzip or snappy or lz4 or zstd",
        2,
        "compression.type",
    ),
    ("compression.zstd.level", "3", "a whole number from -131072 to 22", 3, "compression.zstd.level"),
    (
        "delete.retention.ms",
        "86400000",
        "a whole number from 0 to INT64",
        5,
        "log.cleaner.delete.retention.ms",
    ),
    ("file.delete.delay.ms", "0", "'0'", 5, "log.segment.delete.delay.ms"),
    (
        "flush.messages",
        "9223372036854775807",
        "a whole number from 1 to INT64",
        5,
        "log.flush.interval.messages",
    ),
    ("flush.ms", "9223372036854775807", "'INT64'", 5, "log.flush.interval.ms"),
    ("follower.replication.throttled.replicas", "", "''", 7, ""),
    ("index.interval.bytes", "4096", "a whole number from 0 to INT32", 3, "log.index.interval.bytes"),
    ("leader.replication.throttled.replicas", "", "''", 7, ""),
    ("local.retention.bytes", "-2", "'-2'", 5, "log.local.retention.bytes"),
    ("local.retention.ms", "-2", "'-2'", 5, "log.local.retention.ms"),
    (
        "max.compaction.lag.ms",
        "9223372036854775807",
        "a whole number from 1 to INT64",
        5,
        "log.cleaner.max.compaction.lag.ms",
    ),
    ("max.message.bytes", "1048588", "a whole number from 0 to INT32", 3, "message.max.bytes"),
    (
        "message.timestamp.after.max.ms",
        "3600000",
        "a whole number from 0 to INT64",
        5,
        "log.message.timestamp.after.max.ms",
    ),
    (
        "message.timestamp.before.max.ms",
        "9223372036854775807",
        "a whole number from 0 to INT64",
        5,
        "log.message.timestamp.before.max.ms",
    ),
    ("message.timestamp.type", "CreateTime", "CreateTime or LogAppendTime", 2, "log.message.timestamp.type"),
    ("min.cleanable.dirty.ratio", "0.5", "a number from 0 to 1", 6, "log.cleaner.min.cleanable.ratio"),
    ("min.compaction.lag.ms", "0", "a whole number from 0 to INT64", 5, "log.cleaner.min.compaction.lag.ms"),
    ("min.insync.replicas", "1", "a whole number from 1 to INT32", 3, "min.insync.replicas"),
    ("preallocate", "false", "'false'", 1, "log.preallocate"),
    ("remote.log.copy.disable", "false", "'false'", 1, ""),
    ("remote.log.delete.on.disable", "false", "'false'", 1, ""),
    ("remote.storage.enable", "false", "'false'", 1, ""),
    ("retention.bytes", "-1", "a whole number from -1 to INT64", 5, "log.retention.bytes"),
    ("retention.ms", "604800000", "a whole number from -1 to INT64", 5, "log.retention.ms"),
    ("segment.bytes", "1073741824", "a whole number from 14 to INT32", 3, "log.segment.bytes"),
    ("segment.index.bytes", "10485760", "a whole number from 4 to INT32", 3, "log.index.size.max.bytes"),
    ("segment.jitter.ms", "0", "a whole number from 0 to INT64", 5, "log.roll.jitter.ms"),
    ("segment.ms", "604800000", "a whole number from 1 to INT64", 5, "log.roll.ms"),
    ("unclean.leader.election.enable", "false", "'false'", 1, "unclean.leader.election.enable"),
]
"""Name, default, what it may be, Kafka's ConfigDef.Type by its number on the wire, the broker's setting."""


def test_the_settings_are_these() -> None:
    found = [
        (name, each.default, _short(each.expected.partition(":")[0]), each.kind, each.of_broker)
        for name, each in SETTINGS.items()
    ]
    assert found == KAFKAS
    assert [name for name, each in SETTINGS.items() if each.is_fixed] == [
        name for name, _, expected, _, _ in KAFKAS if expected.startswith("'")
    ]


def _short(text: str) -> str:
    return text.replace(str(2**63 - 1), "INT64").replace(str(2**31 - 1), "INT32")


@table("name", [name for name, each in SETTINGS.items() if "a whole number" in each.expected])
def test_a_number_is_accepted_at_its_bounds_and_none_beyond(name: str) -> None:
    setting = SETTINGS[name]
    first, last = (int(each) for each in re.findall(r"-?\d+", setting.expected)[:2])
    beside = {-1} if setting.expected.endswith(" or -1") else set()
    for number in (first - 1, first, first + 1, last - 1, last, last + 1, -1, -2):
        assert setting.accepts(str(number)) == (first <= number <= last or number in beside), number
    assert setting.accepts(setting.default)


@table("name", list(SETTINGS))
def test_a_default_is_accepted_and_nonsense_is_not(name: str) -> None:
    setting = SETTINGS[name]
    assert setting.accepts(setting.default)
    for text in ("?", "1 2", "0x1", "+1", "-", "1" * 21, "\u0661", "1e3"):
        assert not setting.accepts(text), text
    if setting.is_fixed:
        assert not setting.accepts("1")


@table(
    ("text", "is_accepted"),
    [("0", True), ("1", True), ("1.0", True), (".5", True), ("0.1" + "1" * 17, True),
     ("0.1" + "1" * 18, False), ("1.01", False), ("-0", False), ("0.1.1", False), ("", False),
     ("nan", False)],
)  # fmt: skip
def test_a_share_is_a_number_from_0_to_1(text: str, is_accepted: bool) -> None:
    assert SETTINGS["min.cleanable.dirty.ratio"].accepts(text) == is_accepted


def test_numbers_have_so_many_characters() -> None:
    assert checked((("retention.ms", "0" * 20),), 0) == (("retention.ms", "0" * 20),)
    with pytest.raises(InvalidConfig):
        checked((("retention.ms", "0" * 21),), 0)


def test_sources_are_kafkas() -> None:
    sources = (SOURCE_TOPIC, SOURCE_BROKER, SOURCE_BROKERS, SOURCE_PROPERTIES, SOURCE_DEFAULT)
    assert sources == (1, 2, 3, 4, 5)


@table(
    ("name", "value", "level"),
    [
        ("retention.ms", "5", 0),
        ("cleanup.policy", "delete", 0),
        ("cleanup.policy", "compact", COMPACTED_TOPICS),
        ("cleanup.policy", "delete,compact", COMPACTED_TOPICS),
        ("compression.type", "producer", 0),
        ("compression.type", "gzip", COMPACTED_TOPICS),
        ("segment.ms", "5", COMPACTED_TOPICS),
        ("min.compaction.lag.ms", "5", COMPACTED_TOPICS),
        ("segment.index.bytes", "5", SETTINGS_OF_BROKERS),
        ("compression.gzip.level", "5", SETTINGS_OF_BROKERS),
    ],
)
def test_a_setting_is_taken_from_its_log_level_on(name: str, value: str, level: int) -> None:
    assert checked(((name, value),), level) == ((name, value),)
    if level:
        with pytest.raises(InvalidConfig, match=f"needs log level {level}, the cluster has {level - 1}"):
            checked(((name, value),), level - 1)


@table(
    ("name", "says"),
    [
        ("retention.mss", "did you mean retention.ms?"),
        ("zzz", "known are cleanup.policy, compression.gzip.level"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(name: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(says)):
        checked(((name, "1"),), 0)


def test_the_last_of_a_name_counts_and_null_is_refused() -> None:
    assert checked((("segment.bytes", "15"), ("retention.ms", "5"), ("segment.bytes", " 16 ")), 0) == (
        ("retention.ms", "5"),
        ("segment.bytes", "16"),
    )
    with pytest.raises(InvalidConfig, match="got null"):
        checked((("segment.bytes", None),), 0)
