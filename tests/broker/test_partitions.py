"""Partitions are made, recovered, deleted and lost as the metadata and the disk say."""

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log import segment_sums
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import TopicConfig
from fencepost.snapshots.checksums import SUFFIX
from fencepost.snapshots.clean_shutdown import CLEAN_SHUTDOWN_FILE
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsAnswer
from fencepost.wire.limited_log import LINES_MAX
from tests.broker.batches import TOPIC, batch, fetch, from_producer, marker, produce
from tests.broker.data_stage import HERE, ended, fetched, hosting, open_transaction, produced, values
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, config_for


def test_logs_are_recovered_before_the_broker_registers(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            for start in range(2):
                on = Stage(controller, config_for(controller, tmp_path))
                await on.broker.start()
                await on.broker.ready()
                partition = on.broker._data._partitions.find(TOPIC, 0)
                assert start == 0 or partition is not None
                await produced(on, produce(from_producer(b"x", sequence=start)))
                row = await fetched(on, fetch(0))
                assert row.high_watermark == start + 1
                await on.broker.stop()

    play(story)


def test_a_clean_end_is_recorded_until_logs_are_opened_again(tmp_path: Path) -> None:
    file = tmp_path / CLEAN_SHUTDOWN_FILE

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            for start, ending in enumerate(("clean", "clean again", "a log is lost")):
                on = Stage(controller, config_for(controller, tmp_path))
                await on.broker.start()
                await on.broker.ready()
                await produced(on, produce(from_producer(b"x", sequence=start)))
                assert not file.exists(), ending
                partitions = on.broker._data._partitions
                if ending == "a log is lost":
                    (partition,) = partitions
                    partitions.fail(partition, OSError("no such device"), doing="write")
                await on.broker.stop()
                assert file.exists() == (ending != "a log is lost")
                assert not file.exists() or json.loads(file.read_bytes()) == {"version": 0, "brokerEpoch": -1}

    play(story)


def test_no_end_is_recorded_where_a_log_was_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"x")))
            monkeypatch.setattr(PartitionLog, "close", failing)

    def failing(_log: PartitionLog) -> None:
        raise OSError("no space left on device")

    play(story)
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


def test_a_deleted_topic_goes_and_a_new_one_of_its_name_is_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"old")))
            del on.controller.topics[TOPIC]
            await on.broker._data.topics.refresh()
            assert not list(tmp_path.glob(f"{TOPIC}-*"))
            on.controller.add_topic(TOPIC, HERE)
            await produced(on, produce(batch(b"new")))
            assert values(await fetched(on, fetch(0))) == [(0, b"new")]

    play(story)


def test_checksums_that_cannot_be_saved_are_said_and_harm_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the flush that did not save them, and by the end; each time once, and the partition is served."""

    def fails(segment: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(segment.with_suffix(SUFFIX)))

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"x")))
            (partition,) = on.broker._data._partitions
            with monkeypatch.context() as patch:
                patch.setattr(segment_sums, "save_sums", fails)
                for count in (1, 2):
                    partition.log._request_snapshot()
                    flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                    on.broker._data._flusher.flush(partition, flushed.set_result)
                    assert await flushed
                    said = on.events("sums_not_saved")
                    assert len(said) == count
                    assert SUFFIX in said[-1]["reason"]
            partition.log._request_snapshot()
            partition.log.flush()
            assert partition.log.take_sums_failure() is None
            await produced(on, produce(batch(b"y")))
            assert values(await fetched(on, fetch(0))) == [(0, b"x"), (1, b"y")]
            monkeypatch.setattr(segment_sums, "save_sums", fails)
            await on.broker.stop()
            assert len(on.events("sums_not_saved")) == 3

    play(story)


def test_a_client_that_deletes_topics_does_not_fill_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * (LINES_MAX + 1)) as on:
            await on.broker._data.topics.refresh()
            assert len(list(tmp_path.glob(f"{TOPIC}-*"))) == LINES_MAX + 1
            del on.controller.topics[TOPIC]
            await on.broker._data.topics.refresh()
            assert not list(tmp_path.glob(f"{TOPIC}-*"))
            assert len(on.events("partition_deleted")) == LINES_MAX

    play(story)


def test_a_topic_of_the_same_name_replaces_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"old")))
            on.controller.add_topic(TOPIC, HERE)
            await on.broker._data.topics.refresh()
            await produced(on, produce(batch(b"new")))
            assert values(await fetched(on, fetch(0))) == [(0, b"new")]

    play(story)


def test_an_input_output_error_takes_its_partition_offline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await produced(on, produce(batch(b"a"), batch(b"b")))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None

            def fail(*arguments: Any) -> None:
                raise OSError(5, "Input/output error")

            monkeypatch.setattr(partition.log, "append", fail)
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            assert len(on.events("partition_offline")) == 1

    play(story)


def test_a_lost_log_is_replaced_by_that_of_a_new_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None
            on.broker._data._partitions.fail(partition, OSError(5, "Input/output error"), doing="test")
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            on.controller.add_topic(TOPIC, HERE)
            await on.broker._data.topics.refresh()
            (row,) = await produced(on, produce(batch(b"b")))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)

    play(story)


def test_a_folder_that_is_no_log_is_offline_and_harms_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / f"{TOPIC}-0").mkdir()
        (tmp_path / f"{TOPIC}-0" / "partition.metadata").write_text("rubbish")
        (tmp_path / "0123-0-delete").mkdir()
        async with hosting(tmp_path, HERE, HERE) as on:
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            assert not (tmp_path / "0123-0-delete").exists()

    play(story)


def test_a_log_of_another_topic_is_not_judged_by_an_older_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            partitions = on.broker._data._partitions
            before = partitions.generation
            await produced(on, produce(batch(b"a")))
            generation = partitions.generation
            late = on.controller.add_topic("late", HERE)
            await partitions.host([late], may_make=True)
            await partitions.retire(frozenset(), generation)
            assert partitions.find("late", 0) is not None, "it was made after the question"
            assert before <= generation
            assert partitions.find(TOPIC, 0) is None

    play(story)


def test_a_marker_that_cannot_be_flushed_is_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None

            def fail(*arguments: Any) -> None:
                raise OSError(5, "Input/output error")

            monkeypatch.setattr(partition.log, "flush", fail)
            assert await ended(on, marker(committed=True)) == ErrorCode.KAFKA_STORAGE_ERROR

    play(story)


def test_the_settings_of_a_topic_are_those_of_its_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            on.controller.settings = {"max.message.bytes": "100", "message.timestamp.type": "LogAppendTime"}
            on.controller.add_topic(TOPIC, HERE)
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.log_append_time_ms > 0
            (row,) = await produced(on, produce(batch(b"a" * 100)))
            assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(story)


def test_settings_that_come_while_a_log_is_opened_are_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client asks for the topic while a broker that starts again still opens the log."""
    opened = PartitionLog.open

    async def story() -> None:
        loop = asyncio.get_running_loop()
        controller = FakeController()
        controller.settings = {"max.message.bytes": "100"}
        controller.add_topic(TOPIC, HERE)
        topic = controller.topics[TOPIC]
        topic_id = topic.topic_id
        assert topic_id is not None
        async with controller:
            on = Stage(controller, config_for(controller, tmp_path))
            await on.broker.start()
            await on.broker.ready()
            await produced(on, produce(batch(b"a")))
            await on.broker.stop()
            on = Stage(controller, config_for(controller, tmp_path))

            def known() -> None:
                partitions = on.broker._data._partitions
                partitions.configure(topic_id, (TopicConfig("max.message.bytes", "100", 1),))
                partitions.set_own(())
                monkeypatch.setattr(partitions, "set_own", lambda _settings: None)

            def meanwhile(*arguments: Any, **named: Any) -> PartitionLog:
                loop.call_soon_threadsafe(known)
                return opened(*arguments, **named)

            monkeypatch.setattr(PartitionLog, "open", meanwhile)
            await on.broker.start()
            try:
                await on.broker.ready()
                (row,) = await produced(on, produce(batch(b"a" * 100)))
                assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE
            finally:
                await on.broker.stop()

    play(story)


def test_nothing_is_taken_before_the_settings_are_known(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (row,) = await produced(on, produce(batch(b"a")))
            partitions = on.broker._data._partitions
            partition = partitions.find(TOPIC, 0)
            assert partition is not None
            partitions._settings._topics.clear()
            partition.is_configured = False
            unknown = on.controller.scripts[DESCRIBE_CONFIGS.key]  # heartbeats ask for the settings, too
            unknown.extend([DescribeConfigsAnswer(())] * 1_000)
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            unknown.clear()
            (row,) = await produced(on, produce(batch(b"a")))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 1)

    play(story)
