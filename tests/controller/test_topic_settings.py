"""Settings of a topic: their bounds, and which one is in force."""

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import (
    SETTINGS,
    SOURCE_DEFAULT,
    SOURCE_PROPERTIES,
    SOURCE_TOPIC,
    in_force,
)
from fencepost.controller.topics import NewTopic, find
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
    ("cleanup.policy", "delete", "compact,delete"),
    ("compression.type", "producer", "zstd"),
    ("retention.ms", " 7 ", "7 ms"),
    ("retention.ms", "0", "\u0667"),
    ("retention.ms", "1" * 19, "1" * 5000),
    ("retention.ms", "1", "--1"),
    ("retention.ms", "1", ""),
]


@pytest.mark.parametrize(("name", "good", "bad"), BOUNDS)
def test_a_setting_has_bounds(name: str, good: str, bad: str) -> None:
    view = world()
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


def test_what_is_in_force_says_where_it_comes_from() -> None:
    found = {
        each.name: (each.value, each.source)
        for each in in_force((("retention.ms", "5"),), (("retention.ms", "6"), ("segment.bytes", "99")))
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
