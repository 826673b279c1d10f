"""Settings of topics are changed by IncrementalAlterConfigs and AlterConfigs, each resource on its own."""

import uuid

import pytest

from fencepost.controller.config_changes import (
    CHANGES_PER_PART_MAX,
    CHANGES_PER_REQUEST_MAX,
    RESOURCES_PER_REQUEST_MAX,
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ConfigsAltered,
    ResourceChanges,
    alteration_parts,
    decide_alter,
    require_count,
)
from fencepost.controller.errors import ErrorCode, PolicyViolation, UnsupportedVersion
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import NewTopic, configs_digest, find
from fencepost.controller.view import Overlay
from fencepost.records.levels import CHANGED_TOPICS
from fencepost.records.schema import ConfigRecord, FeatureLevelRecord
from tests.controller.topic_worlds import world
from tests.together import table

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER = 2, 4
BEFORE = (("retention.ms", "5"), ("segment.bytes", "1048576"))


def stage(*, level: int = CHANGED_TOPICS) -> Overlay:
    view = world(NewTopic("orders", 1, 1, configs=BEFORE), NewTopic("plain", 1, 1))
    replay_record(view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=level))
    return view


def alter(
    view: Overlay, *resources: ResourceChanges, validate_only: bool = False, replaces_all: bool = False
) -> tuple[ConfigsAltered, ...]:
    request = AlterConfigs(resources, validate_only, replaces_all)
    decision = decide_alter(view, request, require_count(request))
    for record in decision.records:
        replay_record(view, record)
    return decision.response.resources


def configs(view: Overlay, name: str = "orders") -> dict[str, str]:
    topic = find(view, name)
    assert topic is not None
    return dict(topic.configs)


def orders(*changes: ConfigChange) -> ResourceChanges:
    return ResourceChanges(TOPIC, "orders", changes)


CHANGED = [
    pytest.param((ConfigChange("retention.ms", "7"),), {"retention.ms": "7"}, id="another-value"),
    pytest.param((ConfigChange("retention.ms", " 7 "),), {"retention.ms": "7"}, id="spaces-around-it"),
    pytest.param((ConfigChange("flush.messages", "1"),), {"flush.messages": "1"}, id="one-more"),
    pytest.param((ConfigChange("retention.ms", "5"),), {}, id="the-same-value"),
    pytest.param((ConfigChange("retention.ms", None, DELETE),), {"retention.ms": None}, id="deleted"),
    pytest.param((ConfigChange("flush.messages", "9", DELETE),), {}, id="deleted-that-is-not-set"),
    pytest.param(
        (ConfigChange("cleanup.policy", "delete", APPEND),), {"cleanup.policy": "delete"}, id="append"
    ),
    pytest.param((), {}, id="nothing"),
]


@pytest.mark.parametrize(("changes", "wanted"), CHANGED)
def test_a_setting_becomes_what_was_wanted(
    changes: tuple[ConfigChange, ...], wanted: dict[str, str | None]
) -> None:
    view = stage()
    assert alter(view, orders(*changes)) == (ConfigsAltered(TOPIC, "orders"),)
    expected: dict[str, str | None] = {**dict(BEFORE), **wanted}
    assert configs(view) == {name: value for name, value in expected.items() if value is not None}


def test_the_records_are_those_of_what_changes_in_the_order_of_names() -> None:
    request = AlterConfigs(
        (orders(ConfigChange("segment.bytes", None, DELETE), ConfigChange("flush.messages", "3")),)
    )
    records = decide_alter(stage(), request, frozenset()).records
    assert records == tuple(
        ConfigRecord(resource_type=TOPIC, resource_name="orders", name=name, value=value)
        for name, value in (("flush.messages", "3"), ("segment.bytes", None))
    )


def test_all_settings_at_once_remove_those_that_are_not_named() -> None:
    view = stage()
    alter(view, orders(ConfigChange("retention.ms", "8")), replaces_all=True)
    assert configs(view) == {"retention.ms": "8"}
    alter(view, orders(), replaces_all=True)
    assert configs(view) == {}


REFUSED = [
    (orders(ConfigChange("retention.ms", "-2")), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("retention.hours", "2")), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("", "2")), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("flush.messages", "1"), ConfigChange("x", "1")), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("retention.ms", "1", APPEND)), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("retention.hours", "1", SUBTRACT)), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("cleanup.policy", "delete", SUBTRACT)), ErrorCode.INVALID_CONFIG),
    (orders(ConfigChange("retention.ms", None)), ErrorCode.INVALID_REQUEST),
    (orders(ConfigChange("cleanup.policy", None, APPEND)), ErrorCode.INVALID_REQUEST),
    (orders(ConfigChange("retention.ms", "1", 4)), ErrorCode.INVALID_REQUEST),
    (orders(ConfigChange("retention.ms", "1", -1)), ErrorCode.INVALID_REQUEST),
    (orders(*[ConfigChange("retention.ms", "1")] * 2), ErrorCode.INVALID_REQUEST),
    (ResourceChanges(TOPIC, "", ()), ErrorCode.INVALID_REQUEST),
    (ResourceChanges(TOPIC, "none", ()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (ResourceChanges(TOPIC, "no/name", ()), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ResourceChanges(TOPIC, "n" * 30_000, ()), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ResourceChanges(TOPIC, "\u00e4", ()), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ResourceChanges(TOPIC, "__consumer_offsets", ()), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ResourceChanges(BROKER, "1", (ConfigChange("log.retention.ms", "1"),)), ErrorCode.UNSUPPORTED_VERSION),
    (ResourceChanges(BROKER, "", ()), ErrorCode.UNSUPPORTED_VERSION),
    (ResourceChanges(8, "1", ()), ErrorCode.INVALID_REQUEST),
    (ResourceChanges(-128, "orders", ()), ErrorCode.INVALID_REQUEST),
]


@table(("resource", "code"), REFUSED)
def test_a_resource_that_is_refused_is_as_it_was_and_others_are_changed(
    resource: ResourceChanges, code: ErrorCode
) -> None:
    view = stage()
    plain = ResourceChanges(TOPIC, "plain", (ConfigChange("retention.ms", "1"),))
    refused, changed = alter(view, resource, plain)
    assert (refused.resource_type, refused.name, refused.error_code) == (
        resource.resource_type,
        resource.name,
        code,
    )
    assert refused.error_message
    assert changed.error_code == ErrorCode.NONE
    assert configs(view) == dict(BEFORE)
    assert configs(view, "plain") == {"retention.ms": "1"}


def test_what_is_only_validated_is_not_written() -> None:
    view = stage()
    good, bad = (
        alter(view, orders(ConfigChange("retention.ms", text)), validate_only=True)[0] for text in ("7", "x")
    )
    assert (good.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    assert configs(view) == dict(BEFORE)


def test_a_resource_that_is_there_twice_is_refused_each_time() -> None:
    view = stage()
    answers = alter(
        view, orders(ConfigChange("retention.ms", "1")), orders(ConfigChange("retention.ms", "2"))
    )
    assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert configs(view) == dict(BEFORE)


def test_below_its_log_level_nothing_is_changed() -> None:
    with pytest.raises(UnsupportedVersion, match=r"needs log level 7, the cluster has 6: .* --log-level 7"):
        alter(stage(level=CHANGED_TOPICS - 1), orders())


def test_a_request_has_limits() -> None:
    one = ResourceChanges(TOPIC, "orders", ())
    require_count(AlterConfigs((one,) * RESOURCES_PER_REQUEST_MAX))
    with pytest.raises(PolicyViolation, match="1001 resources"):
        require_count(AlterConfigs((one,) * (RESOURCES_PER_REQUEST_MAX + 1)))
    most = (ConfigChange("retention.ms", "1"),) * CHANGES_PER_REQUEST_MAX
    require_count(AlterConfigs((orders(*most),)))
    with pytest.raises(PolicyViolation, match="2501 settings"):
        require_count(AlterConfigs((orders(*most), orders(*most[:1]))))


def test_a_request_is_decided_in_parts() -> None:
    change = (ConfigChange("retention.ms", "1"),)
    resources = tuple(ResourceChanges(TOPIC, str(number), change) for number in range(300))
    parts = alteration_parts(AlterConfigs(resources, validate_only=True))
    assert tuple(each for part in parts for each in part.resources) == resources
    assert {part.validate_only for part in parts} == {True}
    assert [len(part.resources) for part in parts] == [CHANGES_PER_PART_MAX // 2] * 2 + [50]
    assert len(alteration_parts(AlterConfigs(()))) == 1
    assert len(alteration_parts(AlterConfigs(resources, replaces_all=True))) > len(parts)


def test_the_digest_is_another_for_other_settings() -> None:
    apart = (
        (),
        (("a", "b"),),
        (("a", "b,c"),),
        (("a", "b"), ("c", "")),
        (("a", "b', ('c', '"),),
    )
    digests = [configs_digest(each) for each in apart]
    assert digests[0] == 0
    assert len(set(digests)) == len(digests)
    assert all(-(2**63) <= each < 2**63 for each in digests)
    assert configs_digest((("a", str(uuid.UUID(int=1))),)) != 0
