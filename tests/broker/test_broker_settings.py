"""A broker says what its properties say, but for what is secret, and does not speak for another one."""

from pathlib import Path

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigResource,
    DescribeConfigs,
)
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE, hosting
from tests.broker.fake_controller import play


def test_brokers_answer_for_themselves_between_topics(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_retention_ms=7_000) as on:
            resources = (
                ConfigResource(BROKER_RESOURCE, str(HERE), ("log.retention.ms", "num.partitions", "x")),
                ConfigResource(TOPIC_RESOURCE, TOPIC),
                ConfigResource(BROKER_RESOURCE, ""),
                ConfigResource(BROKER_RESOURCE, "2"),
                ConfigResource(BROKER_RESOURCE, "n" * 30_000),
                ConfigResource(TOPIC_RESOURCE, "other"),
            )
            results = (await on.call(DESCRIBE_CONFIGS, DescribeConfigs(resources))).results
            assert [each.name for each in results] == [each.name for each in resources]
            assert [each.error_code for each in results] == [0, 0, 0, *[ErrorCode.INVALID_REQUEST] * 2, 0]
            settings = {each.name: (each.value, each.source) for each in results[0].configs}
            assert settings == {"log.retention.ms": ("7000", 4), "num.partitions": ("1", 5)}
            assert all(each.read_only for each in results[0].configs)
            asked = on.controller.asked[DESCRIBE_CONFIGS.key][-1].resources
            assert {each.resource_type for each in asked} == {TOPIC_RESOURCE}

    play(story)


def test_what_is_secret_has_no_value(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            found = {each.name: each for each in on.broker._data.own_settings.settings}
            secret = {name for name, each in found.items() if each.sensitive}
            assert secret >= {"ssl.keystore.key", "ssl.key.password"}
            assert {found[name].value for name in secret} == {None}
            assert found["log.dirs"].value == str(tmp_path)
            assert list(found) == sorted(found)

    play(story)
