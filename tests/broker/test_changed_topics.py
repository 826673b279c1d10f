"""A broker takes changed settings of a topic when Metadata shows another digest of them, and only then."""

from pathlib import Path
from typing import Final

from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log_settings import with_topic_settings
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import SETTINGS, SOURCE_TOPIC
from fencepost.controller.topics import NewTopic, TopicConfig
from fencepost.records.levels import SETTINGS_OF_BROKERS
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigs,
    DescribeConfigsAnswer,
)
from tests.broker.data_stage import HERE, hosting
from tests.broker.fake_controller import play
from tests.controller.topic_worlds import create, world
from tests.together import table

OF_KAFKA: Final = {
    "cleanup.policy": "compact", "compression.gzip.level": "5", "compression.lz4.level": "5",
    "compression.type": "zstd", "compression.zstd.level": "5", "delete.retention.ms": "1",
    "file.delete.delay.ms": "1", "flush.messages": "1", "flush.ms": "1",
    "follower.replication.throttled.replicas": "*", "index.interval.bytes": "1",
    "leader.replication.throttled.replicas": "*", "local.retention.bytes": "1", "local.retention.ms": "1",
    "max.compaction.lag.ms": "1", "max.message.bytes": "1", "message.timestamp.after.max.ms": "1",
    "message.timestamp.before.max.ms": "1", "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.1", "min.compaction.lag.ms": "1", "min.insync.replicas": "1",
    "preallocate": "true", "remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "true", "retention.bytes": "1", "retention.ms": "1",
    "segment.bytes": "2000000", "segment.index.bytes": "4", "segment.jitter.ms": "1", "segment.ms": "1",
    "unclean.leader.election.enable": "true",
}  # fmt: skip
"""Every topic setting of Kafka 4.1, with a value that is not its default."""

NEED_NOTHING: Final = {"min.insync.replicas"}  # the one replica of a partition is in sync


@table(("name", "value"), tuple(OF_KAFKA.items()))
def test_a_setting_of_kafkas_is_obeyed_or_refused_by_name(name: str, value: str) -> None:
    (answer,) = create(world(log_level=SETTINGS_OF_BROKERS), NewTopic("new", 1, 1, configs=((name, value),)))
    if SETTINGS[name].is_fixed:
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert name in (answer.error_message or "")
        return
    assert answer.error_code == ErrorCode.NONE
    changed = with_topic_settings(LogConfig(), (TopicConfig(name, value, SOURCE_TOPIC),))
    assert (changed != LogConfig()) == (name not in NEED_NOTHING)


def test_every_setting_of_kafkas_is_known_and_no_other() -> None:
    assert SETTINGS.keys() == OF_KAFKA.keys()


def test_settings_are_read_anew_when_their_digest_is_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert await on.broker._data.topics.refresh()
            (partition,) = on.broker._data._partitions
            topics, asked = on.broker._data.topics, on.controller.asked[DESCRIBE_CONFIGS.key]
            default = partition.log.config.message_bytes_max
            before = len(asked)
            for sizes in ((100, 100), (200, 200), (default, default)):
                is_set = sizes[0] != default
                on.controller.settings = {"max.message.bytes": str(sizes[0])} if is_set else {}
                found = []
                for _ in range(2):
                    assert await topics.refresh()
                    found.append(partition.log.config.message_bytes_max)
                assert tuple(found) == sizes
            assert len(asked) == before + 3

    play(story)


def test_what_was_set_for_a_moment_is_not_kept(tmp_path: Path) -> None:
    """It was there just when the broker read the settings, and not when it read of their digest."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert await on.broker._data.topics.refresh()
            (partition,) = on.broker._data._partitions
            lasting = {"retention.ms": "5000"}
            answers: list[dict[str, str]] = []

            def meanwhile(request: DescribeConfigs, _context: object) -> DescribeConfigsAnswer:
                on.controller.settings = lasting if answers else {"retention.ms": "1"}
                answers.append(on.controller.settings)
                answer = on.controller._describe_configs(request)
                on.controller.settings = lasting
                return answer

            on.controller.script(DESCRIBE_CONFIGS, *[meanwhile] * 3)
            on.controller.settings = lasting
            for _ in range(2):  # beside those that heartbeats cause
                assert await on.broker._data.topics.refresh()
            assert answers == [{"retention.ms": "1"}, lasting]
            assert partition.log.config.retention_ms == 5_000

    play(story)
