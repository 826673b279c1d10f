"""A broker says what its properties say, but for what is secret, and does not speak for another one."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import SOURCE_BROKER, SOURCE_BROKERS
from fencepost.controller.topics import TOPIC_RESOURCE, ConfigSynonym, TopicConfig
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigResource,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import HERE, hosting, produced
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import stage


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
            assert [each.name for each in results[0].configs if each.read_only] == ["num.partitions"]
            asked = on.controller.asked[DESCRIBE_CONFIGS.key][-1].resources
            assert {each.resource_type for each in asked} == {TOPIC_RESOURCE}

    play(story)


def test_what_is_secret_has_no_value(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            row = on.broker._data.own_settings.describe(ConfigResource(BROKER_RESOURCE, str(HERE)))
            found = {each.name: each for each in row.configs}
            secret = {name for name, each in found.items() if each.sensitive}
            assert secret >= {"ssl.keystore.key", "ssl.key.password"}
            assert {found[name].value for name in secret} == {None}
            assert found["log.dirs"].value == str(tmp_path)
            assert list(found) == sorted(found)

    play(story)


def changed(*settings: tuple[str, str, int]) -> tuple[TopicConfig, ...]:
    return tuple(
        TopicConfig(name, value, source, synonyms=(ConfigSynonym(name, value, source),))
        for name, value, source in settings
    )


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def test_what_is_set_while_a_broker_runs_is_obeyed_with_the_next_heartbeat(tmp_path: Path) -> None:
    """By the logs of topics that set nothing themselves; a topic's own setting counts first."""

    async def story() -> None:
        async with hosting(tmp_path, HERE, log_retention_ms=7_000) as on:
            await produced(on, produce(batch(b"a")))
            (partition,) = on.broker._data._partitions
            assert partition.log.config.retention_ms == 7_000

            def between_heartbeats(request: DescribeConfigs, _context: object) -> DescribeConfigsAnswer:
                settings = on.broker._data.own_settings
                settings.heartbeat_answered(settings._announced)
                return on.controller._describe_configs(request)

            on.controller.script(DESCRIBE_CONFIGS, between_heartbeats)
            on.controller.broker_settings = changed(
                ("log.retention.ms", "50", SOURCE_BROKER), ("message.max.bytes", "200", SOURCE_BROKERS)
            )
            await until(lambda: partition.log.config.retention_ms == 50)
            (row,) = await produced(on, produce(batch(b"b" * 300)))
            assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE
            requests = on.controller.asked[DESCRIBE_CONFIGS.key]
            own = [each for each in requests if each.resources[0].resource_type == BROKER_RESOURCE]
            once = DescribeConfigs((ConfigResource(BROKER_RESOURCE, "1"),), with_synonyms=True)
            assert own == [once], "a heartbeat was answered meanwhile, and had nothing new"
            on.controller.settings = {"retention.ms": "60"}
            assert await on.broker._data.topics.refresh()
            on.controller.broker_settings = ()
            await until(lambda: partition.log.config.message_bytes_max > 200)
            assert partition.log.config.retention_ms == 60
            names = [each["settings"] for each in on.events("broker_settings_changed")]
            assert names == [{"log.retention.ms": "50", "message.max.bytes": "200"}, {}]

    play(story)


def test_synonyms_say_all_that_a_setting_could_have_been(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_retention_ms=7_000) as on:
            own, every = (ConfigSynonym("log.retention.ms", *each) for each in (("5", 2), ("6", 3)))
            row = TopicConfig("log.retention.ms", "5", SOURCE_BROKER, synonyms=(own, every))
            on.controller.broker_settings = (row,)
            settings = on.broker._data.own_settings
            await until(lambda: bool(settings._changed))
            wanted = ("log.retention.ms", "retention.ms")
            resources = (
                ConfigResource(BROKER_RESOURCE, str(HERE), wanted),
                ConfigResource(BROKER_RESOURCE, "", wanted),
                ConfigResource(TOPIC_RESOURCE, TOPIC, wanted),
            )
            for with_synonyms in (True, False):
                request = DescribeConfigs(resources, with_synonyms=with_synonyms)
                of_one, of_all, of_topic = (await on.call(DESCRIBE_CONFIGS, request)).results
                found = [each.configs[0] for each in (of_one, of_all, of_topic)]
                assert [(each.value, each.source, each.read_only) for each in found] == [
                    ("5", SOURCE_BROKER, False),
                    ("6", SOURCE_BROKERS, False),
                    ("5", SOURCE_BROKER, False),
                ]
                sources = [[each.source for each in row.synonyms] for row in found]
                assert sources == ([[2, 3, 4, 5], [3], [2, 3, 4, 5]] if with_synonyms else [[], [], []])

    play(story)


def test_a_newer_controllers_settings_are_passed_over_and_named(tmp_path: Path) -> None:
    """Neither obeyed nor described: settings and values of a later day, and what cannot change here yet."""

    async def story() -> None:
        async with hosting(tmp_path, HERE, partitions_default=3) as on:
            policies = (("log.cleanup.policy", "archive", 2), ("log.cleanup.policy", "compact", 3))
            policy = tuple(ConfigSynonym(*each) for each in policies)
            on.controller.broker_settings = (
                TopicConfig("log.cleanup.policy", "archive", SOURCE_BROKER, synonyms=policy),
                *changed(("log.of.tomorrow", "1", SOURCE_BROKERS), ("num.partitions", "9", SOURCE_BROKER)),
            )
            settings = on.broker._data.own_settings
            await until(lambda: bool(settings._changed))
            resources = tuple(ConfigResource(BROKER_RESOURCE, name) for name in (str(HERE), ""))
            for_it, for_all = (await on.call(DESCRIBE_CONFIGS, DescribeConfigs(resources))).results
            found = {each.name: each.value for each in for_it.configs}
            assert (found["log.cleanup.policy"], found["num.partitions"]) == ("compact", "3")
            assert "log.of.tomorrow" not in found
            assert [(each.name, each.value) for each in for_all.configs] == [policies[1][:2]]
            (named,) = on.events("broker_settings_not_obeyed")
            assert named["unknown_here"] == ["log.cleanup.policy", "log.of.tomorrow", "num.partitions"]

    play(story)


def test_nothing_is_taken_before_it_is_known_what_is_set_for_the_broker(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        controller.broker_settings = changed(("log.retention.ms", "50", SOURCE_BROKER))
        controller.script(DESCRIBE_CONFIGS, *[refused_for_brokers] * 1_000)
        async with stage(controller, tmp_path) as on:
            await on.broker.ready()
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            controller.scripts[DESCRIBE_CONFIGS.key].clear()
            await until(lambda: bool(on.broker._data._partitions._settings.is_complete))
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NONE

    play(story)


def test_what_was_set_for_a_moment_is_not_kept(tmp_path: Path) -> None:
    """It was there just when the broker read its settings, and not in the heartbeats before and after."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            (partition,) = on.broker._data._partitions
            lasting = changed(("log.retention.ms", "5000", SOURCE_BROKER))
            shortly = changed(("log.retention.ms", "1", SOURCE_BROKER))

            def meanwhile(request: DescribeConfigs, _context: object) -> DescribeConfigsAnswer:
                on.controller.broker_settings = shortly
                answer = on.controller._describe_configs(request)
                on.controller.broker_settings = lasting
                return answer

            on.controller.script(DESCRIBE_CONFIGS, meanwhile)
            on.controller.broker_settings = lasting
            await until(lambda: partition.log.config.retention_ms == 5_000)
            taken = [each["settings"]["log.retention.ms"] for each in on.events("broker_settings_changed")]
            assert taken == ["1", "5000"]

    play(story)


def refused_for_brokers(request: DescribeConfigs, _context: object) -> DescribeConfigsAnswer:
    return DescribeConfigsAnswer(
        tuple(
            ConfigsDescribed(
                each.resource_type,
                each.name,
                (),
                ErrorCode.BROKER_ID_NOT_REGISTERED
                if each.resource_type == BROKER_RESOURCE
                else ErrorCode.NONE,
            )
            for each in request.resources
        )
    )
