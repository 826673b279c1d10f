"""A broker compares its logs with their sums while it runs, and what changed is offline by name."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.broker.log.scrub import Part, Scrubbable
from fencepost.broker.log_scrub import LogScrub
from fencepost.broker.partition import Partition
from fencepost.controller.errors import ErrorCode
from fencepost.records.invariant import CorruptData
from fencepost.snapshots import file_sums, scrub_pace
from fencepost.snapshots.checksums import sums_path
from fencepost.snapshots.scrub_pace import BYTES_PER_S, SLICE_BYTES, Pace, ScrubPace, ScrubStopped
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, OffsetQuery
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import HERE, fetched, hosting, produced
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, stage
from tests.together import table

SEGMENT_BYTES = 300


def hosted(on: Stage) -> Partition:
    partition = on.broker._data._partitions.find(TOPIC, 0)
    assert partition is not None
    return partition


async def wrote(on: Stage) -> Path:
    """Some segments, flushed and summed; the file of the first."""
    for _ in range(8):
        await produced(on, produce(batch(b"x" * 80)))
    hosted(on).log._request_snapshot()
    hosted(on).log.flush()
    first, *others = sorted(hosted(on).log.directory.glob("*.log"))
    assert len(others) > 2
    return first


def flip(path: Path, at: int = -1) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def offline(on: Stage) -> list[object]:
    return [each["doing"] for each in on.events("partition_offline")]


@pytest.fixture
def _no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """But those of the test."""

    async def never(_: LogScrub) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(LogScrub, "run", never)


@pytest.mark.usefixtures("_no_rounds")
def test_what_changes_in_use_is_found_by_the_next_round(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=SEGMENT_BYTES) as on:
            path = await wrote(on)
            scrub = on.broker._data._scrub
            await scrub.scrub_once()
            assert on.events("logs_scrubbed")[-1]["bytes"] == hosted(on).log.size
            assert offline(on) == []
            flip(path)
            await scrub.scrub_once()
            assert offline(on) == ["scrub"]
            assert path.name in str(on.events("partition_offline")[0]["reason"])
            row = await fetched(on, fetch(0))
            assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    play(story)


@pytest.mark.usefixtures("_no_rounds")
def test_sums_that_changed_are_named_and_made_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=SEGMENT_BYTES) as on:
            path = sums_path(await wrote(on))
            before = path.read_bytes()
            scrub = on.broker._data._scrub
            flip(path, 20)
            for _ in range(2):
                await scrub.scrub_once()
            (named,) = on.events("sums_changed")
            assert f"{path.name}: torn, or changed" in str(named["reason"])
            await produced(on, produce(batch(b"x" * 80)))
            hosted(on).log._request_snapshot()
            hosted(on).log.flush()
            assert path.read_bytes() == before
            assert not offline(on)

    play(story)


def test_the_first_round_begins_when_the_logs_are_open(tmp_path: Path) -> None:
    """No client reads what changed while the node was dead."""

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with stage(controller, tmp_path, log_segment_bytes=SEGMENT_BYTES) as on:
            await on.broker.ready()
            path = await wrote(on)
        flip(path)
        async with stage(controller, tmp_path, log_segment_bytes=SEGMENT_BYTES) as on:
            while not on.events("logs_scrubbed"):
                await asyncio.sleep(0.01)
            assert offline(on) == ["scrub"]

    play(story)


@table("by_time", [False, True])
@pytest.mark.usefixtures("_no_rounds")
def test_before_the_first_round_no_client_is_given_what_changed(tmp_path: Path, by_time: bool) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with stage(controller, tmp_path / str(by_time), log_segment_bytes=SEGMENT_BYTES) as on:
            await on.broker.ready()
            path = await wrote(on)
        flip(path, 70)
        async with stage(controller, tmp_path / str(by_time), log_segment_bytes=SEGMENT_BYTES) as on:
            await on.broker.ready()
            if by_time:
                answer = await on.call(LIST_OFFSETS, first_of_all())
                code = answer.partitions[0].error_code
            else:
                code = (await fetched(on, fetch(0))).error_code
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            assert len(offline(on)) == 1
            row = await fetched(on, fetch(0))
            assert (row.error_code, row.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")

    play(story)


def cleaning(partition: Partition) -> None:
    partition.cleaning = True


def deleted(partition: Partition) -> None:
    partition.log._forget_segments(1)


def closed(partition: Partition) -> None:
    partition.is_open = False


@pytest.mark.usefixtures("_no_rounds")
@pytest.mark.parametrize("meanwhile", [cleaning, deleted, closed])
def test_what_was_replaced_or_deleted_meanwhile_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Partition], None]
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=SEGMENT_BYTES) as on:
            await wrote(on)
            partition, left = hosted(on), 1

            def other_bytes(_: Scrubbable, part: Part, pace: Pace) -> None:
                nonlocal left
                if left:
                    left -= 1
                    meanwhile(partition)
                    raise CorruptData("other bytes")

            monkeypatch.setattr(Scrubbable, "scrub", other_bytes)
            await on.broker._data._scrub.scrub_once()
            assert not left
            assert offline(on) == []
            partition.is_open, partition.cleaning = True, False

    play(story)


def test_a_log_that_is_closed_does_not_wait_for_its_scrub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two slices it is over, and nothing is found."""
    monkeypatch.setattr(scrub_pace, "SLICE_BYTES", 1)
    monkeypatch.setattr(file_sums, "_PIECE_BYTES", 50)

    async def story() -> None:
        async with hosting(tmp_path, HERE, log_segment_bytes=SEGMENT_BYTES) as on:
            await wrote(on)
            partition, slices = hosted(on), 0

            def asleep(_: float) -> None:
                nonlocal slices
                slices += 1
                partition.is_open = False

            pace = ScrubPace(lambda: True, asleep)
            first = partition.log.scrubbable.segments()[0]
            thread = ThreadPoolExecutor(1)
            await on.broker._data._scrub._segment(partition, first, pace, thread)
            thread.shutdown()
            assert slices == 1
            assert offline(on) == []
            partition.is_open = True

    play(story)


def test_the_pace_is_by_bytes_and_by_cpu() -> None:
    slept: list[float] = []
    goes_on = True
    pace = ScrubPace(lambda: goes_on, slept.append)
    for _ in range(4):
        pace(SLICE_BYTES // 4)
    assert slept
    assert max(slept) >= SLICE_BYTES / BYTES_PER_S
    slept.clear()
    while not slept:
        pace(0)  # of small batches it is the CPU
    goes_on = False
    with pytest.raises(ScrubStopped):
        pace(SLICE_BYTES)


def first_of_all() -> ListOffsets:
    return ListOffsets(partitions=(OffsetQuery(topic=TOPIC, index=0, timestamp_ms=0),))
