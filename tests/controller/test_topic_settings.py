"""Settings of a topic: their bounds, and which one is in force."""

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import (
    OF_COMPACTION,
    SETTINGS,
    SOURCE_DEFAULT,
    SOURCE_PROPERTIES,
    SOURCE_TOPIC,
    in_force,
    with_properties,
)
from fencepost.controller.topics import NewTopic, find
from fencepost.records.levels import COMPACTED_TOPICS
from tests.controller.topic_worlds import LENIENT, create, world

BOUNDS = [
    ("retention.ms", "-1", "-2"),
    ("retention.bytes", str(2**63 - 1), str(2**63)),
    ("segment.bytes", "14", "13"),
    ("segment.bytes", str(2**31 - 1), str(2**31)),
    ("max.message.bytes", "0", "-1"),
    ("flush.messages", "1", "0"),
    ("min.insync.replicas", "1", "0"),
    ("message.timestamp.type", "LogAppendTime", "logappendtime"),
    ("cleanup.policy", "delete", "evict"),
    ("cleanup.policy", "compact,delete", "compact,evict"),
    ("cleanup.policy", "delete, compact", "compact,compact"),
    ("cleanup.policy", "compact", ""),
    ("delete.retention.ms", "0", "-1"),
    ("min.compaction.lag.ms", "0", "-1"),
    ("max.compaction.lag.ms", "1", "0"),
    ("min.cleanable.dirty.ratio", "0", "1.01"),
    ("min.cleanable.dirty.ratio", "1.0", "nan"),
    ("min.cleanable.dirty.ratio", "0.25", "."),
    ("segment.ms", "1", "0"),
    ("compression.type", "producer", "brotli"),
    ("compression.type", "zstd", "none"),
    ("retention.ms", " 7 ", "7 ms"),
    ("retention.ms", "0", "\u0667"),
    ("retention.ms", "1" * 19, "1" * 5000),
    ("retention.ms", "1", "--1"),
    ("retention.ms", "1", ""),
]


@pytest.mark.parametrize(("name", "good", "bad"), BOUNDS)
def test_a_setting_has_bounds(name: str, good: str, bad: str) -> None:
    view = world(log_level=COMPACTED_TOPICS)
    kept, refused = create(
        view,
        NewTopic("kept", 1, 1, configs=((name, good),)),
        NewTopic("refused", 1, 1, configs=((name, bad),)),
    )
    assert kept.error_code == ErrorCode.NONE
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    found = find(view, "kept")
    assert found is not None
    assert found.configs == ((name, good.strip()),)


def test_compaction_lags_agree() -> None:
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    kept, refused = create(
        world(log_level=COMPACTED_TOPICS),
        NewTopic("kept", 1, 1, configs=((least, "5"), (most, "5"))),
        NewTopic("refused", 1, 1, configs=((least, "6"), (most, "5"))),
    )
    assert kept.error_code == ErrorCode.NONE
    assert refused.error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "delete,compact"),
        ("compression.type", "zstd"),
        *((name, "1") for name in sorted(OF_COMPACTION)),
    ],
)
def test_below_its_log_level_nothing_of_compaction_is_set(name: str, value: str) -> None:
    for level, code in ((COMPACTED_TOPICS - 1, ErrorCode.INVALID_CONFIG), (COMPACTED_TOPICS, ErrorCode.NONE)):
        view = world(log_level=level)
        (answer,) = create(view, NewTopic("new", 1, 1, configs=((name, value),)))
        assert answer.error_code == code
        assert code == ErrorCode.NONE or "--log-level 8" in (answer.error_message or "")


def test_what_is_in_force_says_where_it_comes_from() -> None:
    found = {
        each.name: (each.value, each.source)
        for each in in_force(
            (("retention.ms", "5"),),
            with_properties((), (("log.retention.ms", "6"), ("log.segment.bytes", "99"))),
        )
    }
    assert list(found) == sorted(SETTINGS)
    assert found["retention.ms"] == ("5", SOURCE_TOPIC)
    assert found["segment.bytes"] == ("99", SOURCE_PROPERTIES)
    assert found["cleanup.policy"] == ("delete", SOURCE_DEFAULT)


def test_who_is_given_one_replica_has_one_in_sync() -> None:
    view = world()
    wanted = (("min.insync.replicas", "2"), ("retention.ms", "9"))
    create(
        view,
        NewTopic("reduced", 1, 3, configs=wanted),
        NewTopic("asked", 1, 1, configs=wanted),
        rules=LENIENT,
    )
    reduced, asked = find(view, "reduced"), find(view, "asked")
    assert reduced is not None
    assert asked is not None
    assert reduced.configs == (("min.insync.replicas", "1"), ("retention.ms", "9"))
    assert asked.configs == wanted
