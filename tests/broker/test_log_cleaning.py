"""A broker cleans its compacted logs beside everything else, and consumers see what they saw."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker import log_cleaning, log_maintenance
from fencepost.broker.log.cleaner import CleanerPass
from fencepost.broker.log.offset_checkpoint import CLEANER_FILE, load_offsets, save_offsets
from fencepost.broker.partition import Partition
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import TopicConfig
from fencepost.records.batch import encode_batch
from fencepost.records.types import Offset
from fencepost.wire.k01_fetch import FetchedPartition
from tests.broker.batches import TOPIC, batch, fetch, now_ms, produce
from tests.broker.data_stage import HERE, fetched, produced
from tests.broker.fake_controller import FakeController, play
from tests.broker.log.test_cleaner import batches_of
from tests.broker.log.test_compaction import last_values
from tests.broker.log.test_compaction import read as records_of
from tests.broker.whole_broker import Stage, stage

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_maintenance, "FLUSH_S", 0.02)


@contextlib.asynccontextmanager
async def compacting(
    directory: Path,
    settings: dict[str, str] = COMPACTED,
    backoff_ms: int = 20,
    controller: FakeController | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Stage, Partition]]:
    """A broker with one topic that has these settings."""
    if controller is None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
    controller.settings = dict(settings)
    async with stage(controller, directory, log_cleaner_backoff_ms=backoff_ms, **more) as on:
        await on.broker.ready()
        while (partition := on.broker._data._partitions.find(TOPIC, 0)) is None:
            await asyncio.sleep(0.005)
        while not partition.is_configured:
            await asyncio.sleep(0.005)
        yield on, partition


def keyed(number: int, keys: int = 5, size: int = 100) -> bytes:
    """A batch with one key."""
    parts = [(b"key-%d" % (number % keys), b"%d" % number + b"x" * size, ())]
    return encode_batch(parts, timestamp_ms=now_ms())


async def wrote(on: Stage, count: int, **named: int) -> None:
    """Produce batches with keys."""
    for number in range(count):
        (row,) = await produced(on, produce(keyed(number, **named)))
        assert row.error_code == ErrorCode.NONE


async def until(condition: Any) -> None:
    """At most 10 s."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come")


def checkpoint(on: Stage) -> dict[str, Offset]:
    """Of the broker's log directory."""
    (partition,) = on.broker._data._partitions
    return load_offsets(partition.log.directory.parent / CLEANER_FILE).by_folder


def test_a_compacted_log_is_cleaned_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with compacting(tmp_path) as (on, partition):
            await wrote(on, 200)
            values = last_values(records_of(batches_of(partition.log), (), committed=False))
            active = partition.log._segments[-1].base
            await until(lambda: checkpoint(on).get(f"{TOPIC}-0", -1) >= active)
            assert last_values(records_of(batches_of(partition.log), (), committed=False)) == values
            assert partition.log.size < 5 * 200 + 3 * 2000
            await until(lambda: on.events("log_cleaned"))
            event = on.events("log_cleaned")[0]
            assert event["bytes_after"] < event["bytes_before"]
            row: FetchedPartition = await fetched(on, fetch(0))
            assert row.records
            assert on.broker._data._cleaning._counts.passes >= 1

    play(story)


def test_a_log_without_the_policy_is_left_alone_and_not_deleted_from(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {**COMPACTED, "cleanup.policy": "delete", "retention.ms": "-1"}
        async with compacting(tmp_path, settings) as (on, partition):
            await wrote(on, 100)
            size = partition.log.size
            await asyncio.sleep(0.2)
            assert partition.log.size == size
            assert not on.events("log_cleaned")

    play(story)


def test_compact_alone_deletes_nothing_by_age_or_size(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {**COMPACTED, "retention.ms": "1", "retention.bytes": "1"}
        async with compacting(tmp_path, settings, backoff_ms=100_000, log_retention_check_ms=5) as (
            on,
            partition,
        ):
            await wrote(on, 100)
            await asyncio.sleep(0.3)
            assert partition.log.start == 0
            settings["cleanup.policy"] = "compact, delete"
            on.controller.settings = dict(settings)  # what the broker asks for again has it, too
            changed = [TopicConfig(name, value, 1) for name, value in settings.items()]
            on.broker._data._partitions.configure(partition.topic_id, changed)
            await until(lambda: partition.log.start > 0)

    play(story)


def test_nothing_is_deleted_before_the_settings_are_known(tmp_path: Path) -> None:
    async def story() -> None:
        keeps = {"retention.bytes": "-1"}
        async with compacting(
            tmp_path, keeps, log_retention_check_ms=5, log_retention_bytes=1, log_segment_bytes=2000
        ) as (on, partition):
            await wrote(on, 100)
            partition.is_configured = False
            partition.log.config = on.broker._data._partitions._settings._properties
            await asyncio.sleep(0.2)
            assert partition.log.start == 0
            partition.is_configured = True
            await until(lambda: partition.log.start > 0)

    play(story)


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with compacting(tmp_path) as (on, _):
            (row,) = await produced(on, produce(batch(b"no key")))
            assert row.error_code == ErrorCode.INVALID_RECORD
            assert "has no key" in (row.error_message or "")

    play(story)


def test_a_damaged_log_is_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with compacting(tmp_path, backoff_ms=100_000) as (on, partition):
            await wrote(on, 100)
            await until(lambda: partition.log._durability.newest_snapshot >= partition.log._segments[-1].base)
            path = partition.log._segments[1].path
            raw = bytearray(path.read_bytes())
            raw[-1] ^= 1
            path.write_bytes(raw)
            cleaning = on.broker._data._cleaning
            assert not await cleaning.clean_once()
            assert path.name in on.events("log_uncleanable")[0]["reason"]
            assert cleaning._counts.uncleanable == 1
            assert not await cleaning.clean_once()
            assert len(on.events("log_uncleanable")) == 1
            assert partition.is_open

    play(story)


@pytest.mark.parametrize("step", ["begin", "next_group", "remove_old"])
def test_a_topic_that_is_deleted_while_it_is_cleaned_goes_when_the_thread_is_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    original = getattr(CleanerPass, step)

    def slowly(*given: Any) -> Any:
        inside.set()
        assert go_on.wait(10)
        return original(*given)

    monkeypatch.setattr(CleanerPass, step, slowly)

    async def story() -> None:
        async with compacting(tmp_path) as (on, partition):
            await wrote(on, 100)
            await until(inside.is_set)
            partitions = on.broker._data._partitions
            retired = asyncio.create_task(partitions.retire(frozenset(), partitions.generation))
            await until(lambda: not partition.is_open)
            (before := partition.log.directory / "before").touch()
            go_on.set()
            await retired
            assert not before.exists()  # the controller still has the topic: its log may be made again
            assert not on.events("partition_offline")

    play(story)


def test_a_broker_that_stops_while_it_cleans_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: dict[bytes, bytes | None] = {}
    inside = threading.Event()
    original = CleanerPass.remove_old

    def slowly(*given: Any) -> None:
        inside.set()
        time.sleep(0.05)
        original(*given)

    monkeypatch.setattr(CleanerPass, "remove_old", slowly)

    async def story() -> None:
        async with compacting(tmp_path) as (on, partition):
            await wrote(on, 100)
            controller = on.controller
            before.update(last_values(records_of(batches_of(partition.log), (), committed=False)))
            await until(inside.is_set)
        async with compacting(tmp_path, backoff_ms=100_000, controller=controller) as (_, partition):
            assert last_values(records_of(batches_of(partition.log), (), committed=False)) == before
            assert not list(partition.log.directory.glob("*.swap"))

    play(story)


def test_the_loop_is_never_held_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time that the process uses between two turns is a small part of what cleaning uses."""
    monkeypatch.setattr(log_cleaning, "PAUSE_BUSY", 0.0)
    monkeypatch.setattr(log_cleaning, "PAUSE_IDLE", 0.0)

    async def story() -> None:
        async with compacting(tmp_path, {**COMPACTED, "segment.bytes": "4000000"}) as (on, partition):
            for start in range(0, 90_000, 6_000):
                parts = [
                    (b"key-%d" % (n * 7919 % 30_000), b"x" * 50, ()) for n in range(start, start + 6_000)
                ]
                (row,) = await produced(on, produce(encode_batch(parts, timestamp_ms=now_ms())))
                assert row.error_code == ErrorCode.NONE
            partition.log._roll()
            longest, last = 0.0, time.process_time()
            began = last
            while not on.events("log_cleaned"):
                await asyncio.sleep(0.001)
                now = time.process_time()
                longest, last = max(longest, now - last), now
            assert longest < max(0.05, (last - began) / 5), (longest, last - began)  # slow machines: a part

    play(story)


def test_a_checkpoint_file_is_kafkas(tmp_path: Path) -> None:
    path = tmp_path / CLEANER_FILE
    offsets = {"orders-1": Offset(5), "a-b-0": Offset(2**40)}
    save_offsets(path, offsets)
    assert path.read_text() == f"0\n2\norders 1 5\na-b 0 {2**40}\n"
    assert load_offsets(path) == (offsets, 0)
    for bad in ("", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na b c\n", "0\n1\na 0\n", "x"):
        path.write_text(bad)
        assert load_offsets(path).senseless
    assert load_offsets(tmp_path / "none") == ({}, 0)


def test_the_thread_sleeps_longer_while_others_need_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clocks = {"process_time": 0.0, "thread_time": 0.0}
    fake = SimpleNamespace(
        sleep=slept.append,
        process_time=lambda: clocks["process_time"],
        thread_time=lambda: clocks["thread_time"],
    )
    monkeypatch.setattr(log_cleaning, "time", fake)
    pace = log_cleaning.Pace(lambda: True)
    for others in (0.0, 0.01):
        clocks["thread_time"] += log_cleaning.SLICE_S
        clocks["process_time"] += log_cleaning.SLICE_S + others
        pace()
    pauses = (log_cleaning.PAUSE_IDLE, log_cleaning.PAUSE_BUSY)
    assert slept == [pytest.approx(each * log_cleaning.SLICE_S) for each in pauses]
    pace()
    assert len(slept) == 2, "a slice is not over"
    stopped = log_cleaning.Pace(lambda: False)
    clocks["thread_time"] += 1
    with pytest.raises(log_cleaning.CleaningStopped):
        stopped()
