"""Fetch, ListOffsets and OffsetForLeaderEpoch on a whole broker."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.wire.k01_fetch import FETCH
from fencepost.wire.k02_list_offsets import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    ListOffsets,
    OffsetFound,
    OffsetQuery,
)
from fencepost.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    EpochQuery,
    OffsetForLeaderEpoch,
)
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import (
    HERE,
    fetched,
    hosting,
    open_transaction,
    produced,
    values,
)
from tests.broker.fake_controller import play
from tests.broker.whole_broker import Stage
from tests.together import table


def test_a_fetch_waits_until_something_comes(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            waiting = asyncio.ensure_future(fetched(on, fetch(1, wait_ms=600_000)))
            endpoint = on.broker._data._fetch
            while not endpoint.waiting:
                await asyncio.sleep(0)
            await produced(on, produce(batch(b"b")))
            assert values(await waiting) == [(1, b"b")]
            assert not endpoint.waiting
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None
            assert not partition.waiting

    play(story)


def test_a_fetch_that_waits_gets_an_empty_answer_in_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            row = await fetched(on, fetch(0, wait_ms=30))
            assert (row.error_code, row.records, row.high_watermark) == (ErrorCode.NONE, b"", 0)

    play(story)


def test_a_fetch_waits_for_its_minimum(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            size = len(batch(b"a"))
            waiting = asyncio.ensure_future(fetched(on, fetch(0, wait_ms=600_000, min_bytes=2 * size)))
            while not on.broker._data._fetch.waiting:
                await asyncio.sleep(0)
            await produced(on, produce(batch(b"a")))
            await produced(on, produce(batch(b"b")))
            assert len(values(await waiting)) == 2

    play(story)


def test_a_stop_answers_who_waits(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            waiting = asyncio.ensure_future(fetched(on, fetch(0, wait_ms=600_000)))
            while not on.broker._data._fetch.waiting:
                await asyncio.sleep(0)
            on.broker._data.release()
            assert (await waiting).records == b""

    play(story)


FETCH_ERRORS = [
    pytest.param(fetch(5), ErrorCode.OFFSET_OUT_OF_RANGE, id="past-the-end"),
    pytest.param(fetch(-1), ErrorCode.OFFSET_OUT_OF_RANGE, id="before-the-start"),
    pytest.param(fetch(0, topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-topic"),
    pytest.param(fetch(0, topic=uuid.UUID(int=9)), ErrorCode.UNKNOWN_TOPIC_ID, id="no-such-topic-id"),
    pytest.param(fetch(0, epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH, id="an-epoch-to-come"),
]


@table(("request_", "code"), FETCH_ERRORS)
def test_a_fetch_is_refused_at_once(tmp_path: Path, request_: Any, code: ErrorCode) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            assert (await fetched(on, request_)).error_code == code

    play(story)


@table("version", FETCH.versions, ids="v{}".format)
def test_every_version_of_fetch_is_served(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            topic = TOPIC if version < 13 else on.controller.topics[TOPIC].topic_id
            row = await fetched(on, fetch(0, topic=topic), version)
            assert values(row) == [(0, b"a")]

    play(story)


def test_a_small_maximum_still_gives_one_batch_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await produced(on, produce(batch(b"a"), batch(b"b")))
            await produced(on, produce(batch(b"c"), batch(b"d")))
            answer = await on.call(FETCH, fetch(0, max_bytes=1, partitions=2), 12)
            assert [values(row) for row in answer.partitions] == [[(0, b"a")], []]

    play(story)


@pytest.mark.parametrize(
    ("room", "found"),
    [pytest.param(0, [[], []], id="no-room"), pytest.param(1, [[(0, b"a")], []], id="room-for-a-byte")],
)
def test_a_fetch_adds_no_records_to_too_many_unread_replies(
    tmp_path: Path, room: int, found: list[Any]
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await produced(on, produce(batch(b"a"), batch(b"b")))
            memory = on.broker._listeners.all[0].memory
            unread = memory.replies_bytes_max - room
            memory.replies += unread
            answer = await on.call(FETCH, fetch(0, wait_ms=30, partitions=2), 12)
            assert [values(row) for row in answer.partitions] == found
            memory.replies -= unread
            answer = await on.call(FETCH, fetch(0, partitions=2), 12)
            assert [values(row) for row in answer.partitions] == [[(0, b"a")], [(0, b"b")]]

    play(story)


def test_offsets_are_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            await open_transaction(on, b"b")

            async def found(timestamp_ms: int, isolation_level: int = 0, version: int = 11) -> OffsetFound:
                request = ListOffsets((OffsetQuery(TOPIC, 0, timestamp_ms),), -1, isolation_level)
                (row,) = (await on.call(LIST_OFFSETS, request, version)).partitions
                return row  # type: ignore[no-any-return]

            assert (await found(EARLIEST)).offset == 0
            assert (await found(LATEST)).offset == 2
            assert (await found(LATEST, 1)).offset == 1, "the last stable offset"
            assert (await found(0)).offset == 0
            assert (await found(2**62)).offset == -1
            assert (await found(MAX_TIMESTAMP)).offset in (0, 1)
            assert (await found(-4)).offset == 0
            for timestamp_ms in (-5, -6):
                nothing = await found(timestamp_ms)
                assert (nothing.error_code, nothing.offset) == (ErrorCode.NONE, -1)
            for timestamp_ms in (-7, -(2**63)):
                assert (await found(timestamp_ms)).error_code == ErrorCode.UNSUPPORTED_VERSION
            for special, since in {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, -4: 8, -5: 9, -6: 11}.items():
                for version in LIST_OFFSETS.versions:
                    code = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
                    assert (await found(special, version=version)).error_code == code, (special, version)

    play(story)


def test_the_end_of_a_leader_epoch_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            request = OffsetForLeaderEpoch((EpochQuery(TOPIC, 0, 0), EpochQuery(TOPIC, 7, 0)))
            here, nowhere = (await on.call(OFFSET_FOR_LEADER_EPOCH, request)).partitions
            assert (here.error_code, here.leader_epoch, here.end_offset) == (0, 0, 1)
            assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(story)


def test_bytes_that_changed_take_their_partition_offline_and_no_other(tmp_path: Path) -> None:
    """Fetch and ListOffsets walk headers: one that leads nowhere is answered 56, not with an error of all."""

    def damage(on: Stage, index: int) -> None:
        partition = on.broker._data._partitions.find(TOPIC, index)
        assert partition is not None
        path = partition.log.directory / f"{0:020d}.log"
        raw = bytearray(path.read_bytes())
        raw[8] ^= 0x40  # the length of its first batch
        path.write_bytes(raw)

    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE, HERE) as on:
            await produced(on, produce(batch(b"a"), batch(b"b"), batch(b"c")))
            damage(on, 0)
            damage(on, 1)
            answer = await on.call(FETCH, fetch(0, partitions=3, max_bytes=10), 12)
            codes = [row.error_code for row in answer.partitions]
            offline = ErrorCode.KAFKA_STORAGE_ERROR
            assert codes == [offline, offline, ErrorCode.NONE]
            damage(on, 2)
            query = OffsetQuery(TOPIC, 2, MAX_TIMESTAMP)
            listed = await on.call(LIST_OFFSETS, ListOffsets((query,)), 7)
            assert listed.partitions[0].error_code == offline
            assert not list(on.broker._data._partitions)

    play(story)
