"""What logs need from time to time: old segments go, silent producers are forgotten, in slices."""

import asyncio
import errno
from pathlib import Path

import pytest

from fencepost.broker import log_maintenance
from fencepost.broker.partition import Partition
from fencepost.settings.node_clock import accept
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import HERE, fetched, hosting, produced
from tests.broker.fake_controller import play
from tests.broker.whole_broker import Stage

DAY_MS = 24 * 3_600_000
SEGMENT_BYTES = 14  # Kafka's least: every batch has a segment of its own


def hosted(on: Stage) -> Partition:
    partition = on.broker._data._partitions.find(TOPIC, 0)
    assert partition is not None
    return partition


def test_segments_past_retention_are_deleted_and_the_producers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_maintenance, "FLUSH_S", 0.02)

    async def story() -> None:
        async with hosting(
            tmp_path,
            HERE,
            log_segment_bytes=SEGMENT_BYTES,
            log_retention_bytes=1,
            log_retention_check_ms=5,
        ) as on:
            for sequence in range(4):
                records = batch(b"x" * 50, producer_id=7, producer_epoch=0, base_sequence=sequence)
                await produced(on, produce(records))
            while hosted(on).log.start < 3:
                await asyncio.sleep(0.005)
            row = await fetched(on, fetch(3))
            assert (row.log_start_offset, row.high_watermark) == (3, 4)
            assert [each.producer_id for each in hosted(on).log.producers()] == [7]
            assert on.events("segments_deleted")

    play(story)


def test_what_is_offline_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition, and then the directory with all that is in it."""
    monkeypatch.setattr(log_maintenance, "FLUSH_S", 0.02)

    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await on.broker._data.topics.refresh()
            partitions = on.broker._data._partitions
            for index, number, shown in ((0, errno.EIO, (0, 1)), (1, errno.ENOSPC, (1, 2))):
                partition = partitions.find(TOPIC, index)
                assert partition is not None
                partitions.fail(partition, OSError(number, "fails"), doing="write")
                while offline(on) != shown:
                    await asyncio.sleep(0.005)

    play(story)


def offline(on: Stage) -> tuple[float, float]:
    """Log directories and partitions, by the metrics."""
    kinds = ("directories", "partitions")
    found = [on.metrics.registry.get_sample_value(f"fencepost_log_offline_{kind}") for kind in kinds]
    return found[0] or 0.0, found[1] or 0.0


def test_producers_are_forgotten_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(log_maintenance, "PRODUCERS_MAX", 10)
        async with hosting(tmp_path, HERE, producer_id_expiration_ms=1) as on:
            for producer_id in range(25):
                records = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
                await produced(on, produce(records))
            turns = 0

            async def count_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            await asyncio.sleep(0.005)  # longer than the expiration
            counting = asyncio.ensure_future(count_turns())
            await on.broker._data._maintenance.expire_once()
            counting.cancel()
            assert not hosted(on).log.producers()
            assert turns >= 3

    play(story)


def test_a_clock_that_jumped_deletes_and_forgets_nothing_but_for_want_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_maintenance, "FLUSH_S", 0.02)

    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=SEGMENT_BYTES, log_retention_ms=DAY_MS) as on:
            for sequence in range(4):
                records = batch(b"x" * 50, producer_id=7, producer_epoch=0, base_sequence=sequence)
                await produced(on, produce(records))
            partition, clock, maintenance = (
                hosted(on),
                on.broker._clock,
                on.broker._data._maintenance,
            )
            while partition.log.flush_wanted or partition.flushing:
                await asyncio.sleep(0.005)
            right = clock._read()
            clock._read = lambda: right._replace(wall_ms=right.wall_ms + 8 * DAY_MS)
            maintenance._retain(partition)
            await maintenance.expire_once()
            assert partition.log.start == 0
            assert [each.producer_id for each in partition.log.producers()] == [7]
            accept(tmp_path)
            clock.look()
            maintenance._retain(partition)
            assert partition.log.start >= 3
            assert len(on.events("clock_jumped")) == 1

    play(story)
