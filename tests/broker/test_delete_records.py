"""DeleteRecords moves the start of a partition's log: for readers at once, for good, never past its end."""

import dataclasses
import errno
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log.log_starts import LOG_STARTS, encode_starts
from fencepost.broker.log_directories import LogDirectories
from fencepost.controller.errors import ErrorCode
from fencepost.records.types import Offset
from fencepost.wire.k02_list_offsets import EARLIEST, LATEST, LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k21_delete_records import (
    DELETE_RECORDS,
    HIGH_WATERMARK,
    DeleteRecords,
    RecordsDeleted,
    RecordsToDelete,
)
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import ELSEWHERE, HERE, fetched, hosting, produced, values
from tests.broker.fake_controller import FakeController, play
from tests.broker.test_lost_logs import started
from tests.broker.whole_broker import Stage


async def deleted(on: Stage, *wanted: tuple[int, int], topic: str = TOPIC) -> list[RecordsDeleted]:
    """The rows of the answer; ``wanted`` are (partition, offset)."""
    rows = tuple(RecordsToDelete(topic, index, offset) for index, offset in wanted)
    answer = await on.call(DELETE_RECORDS, DeleteRecords(rows))
    return list(answer.partitions)


async def offset_at(on: Stage, timestamp_ms: int) -> int:
    answer = await on.call(LIST_OFFSETS, ListOffsets((OffsetQuery(TOPIC, 0, timestamp_ms),)))
    return int(answer.partitions[0].offset)


def test_readers_begin_at_the_new_start_and_so_does_the_next_process(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            for text in (b"a", b"b", b"c"):
                await produced(on, produce(batch(text)))
            assert await deleted(on, (0, 2)) == [RecordsDeleted(TOPIC, 0, 0, 2)]
            for _ in range(2):
                assert (await fetched(on, fetch(1))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                row = await fetched(on, fetch(2))
                assert (values(row), row.log_start_offset, row.high_watermark) == ([(2, b"c")], 2, 3)
                assert [await offset_at(on, each) for each in (EARLIEST, 0, LATEST)] == [2, 2, 3]
                assert (tmp_path / LOG_STARTS).read_bytes() == encode_starts({f"{TOPIC}-0": Offset(2)})
                await on.broker.stop()
                on = await started(controller, tmp_path)
            assert await deleted(on, (0, 1)) == [RecordsDeleted(TOPIC, 0, 0, 2)]
            assert await deleted(on, (0, HIGH_WATERMARK)) == [RecordsDeleted(TOPIC, 0, 0, 3)]
            (added,) = await produced(on, produce(batch(b"d")))
            assert (added.base_offset, added.log_start_offset) == (3, 3)
            assert values(await fetched(on, fetch(3))) == [(3, b"d")]
            await on.broker.stop()

    play(story)


def test_what_cannot_be_deleted_is_refused_row_by_row(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE) as on:
            await produced(on, produce(batch(b"a")))
            rows = await deleted(on, (0, 2), (0, -2), (0, 2**63 - 1), (0, -(2**63)), (1, 0), (7, 0), (-1, 0))
            assert [row.error_code for row in rows] == [
                *[ErrorCode.OFFSET_OUT_OF_RANGE] * 4,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
            ]
            assert {row.low_watermark for row in rows} == {-1}
            (unknown,) = await deleted(on, (0, 0), topic="none")
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await offset_at(on, EARLIEST) == 0
            twice = await deleted(on, (0, 1), (0, 0))
            assert twice == [RecordsDeleted(TOPIC, 0, 0, 1)] * 2
            assert await deleted(on) == []

    play(story)


def test_records_of_a_compacted_topic_are_not_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            (partition,) = on.broker._data._partitions
            partition.log.config = dataclasses.replace(partition.log.config, delete=False)
            (row,) = await deleted(on, (0, HIGH_WATERMARK))
            assert (row.error_code, partition.log.start) == (ErrorCode.POLICY_VIOLATION, 0)

    play(story)


def test_nothing_is_deleted_for_readers_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            (partition,) = on.broker._data._partitions
            seen: list[int] = []

            def full(_directories: LogDirectories, _starts: Any) -> None:
                seen.append(partition.log.start)
                raise OSError(errno.EIO, "the disk is broken")

            monkeypatch.setattr(LogDirectories, "record_starts", full)
            (row,) = await deleted(on, (0, 1))
            assert (row.error_code, seen, partition.log.start) == (ErrorCode.KAFKA_STORAGE_ERROR, [0], 0)

    play(story)


def test_the_next_topic_of_its_name_begins_at_zero(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"a")))
            await deleted(on, (0, HIGH_WATERMARK))
            controller.add_topic(TOPIC, HERE)  # another id
            await on.broker._data.topics.refresh()
            assert (tmp_path / LOG_STARTS).read_bytes() == encode_starts({})
            assert await offset_at(on, EARLIEST) == 0
            await produced(on, produce(batch(b"b")))
            await on.broker.stop()
            on = await started(controller, tmp_path)
            assert values(await fetched(on, fetch(0))) == [(0, b"b")]
            await on.broker.stop()

    play(story)


def test_a_log_that_ends_before_its_start_is_offline_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"a")))
            await on.broker.stop()
            (tmp_path / LOG_STARTS).write_text(f"0\n1\n{TOPIC} 0 5\n")
            on = await started(controller, tmp_path)
            (offline,) = on.events("partition_offline")
            assert f"ends at 1, {LOG_STARTS} has it begin at 5" in offline["reason"]
            assert (await fetched(on, fetch(0))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await on.broker.stop()

    play(story)


def test_a_changed_start_hides_no_record_and_deletes_none(tmp_path: Path) -> None:
    """Found at a start, or by the scrub of a broker that runs: it is written again, and named."""

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            for number in range(9):
                await produced(on, produce(batch(b"%d" % number)))
            await deleted(on, (0, 1))
            raw = (tmp_path / LOG_STARTS).read_bytes()
            for is_restarted in (True, False):
                if is_restarted:
                    await on.broker.stop()
                (tmp_path / LOG_STARTS).write_bytes(raw.replace(b"0 1\n", b"0 9\n"))
                if is_restarted:
                    on = await started(controller, tmp_path)
                else:
                    await on.broker._data._scrub.scrub_once()
                (said, *_) = on.events("log_starts_damaged")
                assert LOG_STARTS in said["reason"]
                assert (tmp_path / LOG_STARTS).read_bytes() == raw
                assert await offset_at(on, EARLIEST) == 1
                assert len(values(await fetched(on, fetch(1)))) == 8
            await on.broker.stop()

    play(story)


def test_retention_deletes_the_segments_before_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=14) as on:
            for text in (b"a", b"b", b"c"):
                await produced(on, produce(batch(text)))
            (partition,) = on.broker._data._partitions
            partition.log.flush()
            assert partition.log.retain(0) == 0
            await deleted(on, (0, 2))
            assert partition.log.retain(0) == 2
            assert [each.name for each in sorted((tmp_path / f"{TOPIC}-0").glob("*.log"))] == [
                f"{2:020d}.log"
            ]
            assert values(await fetched(on, fetch(2))) == [(2, b"c")]

    play(story)
