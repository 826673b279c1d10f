"""Large and many batches on a whole broker: the loop runs between slices, and nothing overtakes.

Work is counted, not timed: records and headers walked over, and batches appended, between two turns.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.broker.checks import LARGE_MAX, SLICE_STEPS, SMALL_MAX
from fencepost.broker.log import validation
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.validation import APPEND_BYTES_MAX, Opening
from fencepost.broker.produce import SMALL_BYTES_MAX
from fencepost.controller.errors import ErrorCode
from fencepost.records import record_walk
from fencepost.records.batch import HEADERS_MAX, encode_batch
from fencepost.records.compression import DECOMPRESSED_BYTES_MAX
from fencepost.wire.k00_produce import PRODUCE, PartitionProduced, Produce
from tests.broker.batches import TOPIC, batch, fetch, from_producer, now_ms, produce
from tests.broker.data_stage import HERE, fetched, hosting
from tests.broker.fake_controller import play
from tests.broker.log.builders import CODECS, compressed
from tests.broker.whole_broker import Stage

TIMEOUT_S = 60.0
SMALL_WALK_MAX = SMALL_BYTES_MAX // 2  # steps of what is checked in one go
STEPS_MAX = SLICE_STEPS + HEADERS_MAX + SMALL_WALK_MAX


async def produced(on: Stage, request: Produce) -> list[PartitionProduced]:
    client = await on.client()
    try:
        answer = await client.call(PRODUCE, request, version=9, timeout_s=TIMEOUT_S)
    finally:
        client.close()
    return list(answer.partitions)


class Turns:
    """Counts the work between two turns of the loop, and keeps the most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = self.appends = 0
        self.steps_max = self.appends_max = self.steps_all = 0
        walk, append = record_walk.walk, PartitionLog.append

        def counted_walk(body: Any, position: int, delta: int, count: int, steps: int, **more: Any) -> Any:
            walked = walk(body, position, delta, count, steps, **more)
            self.steps += steps - walked.steps_left
            return walked

        def counted_append(log: PartitionLog, *arguments: Any) -> Any:
            self.appends += 1
            return append(log, *arguments)

        monkeypatch.setattr(record_walk, "walk", counted_walk)
        monkeypatch.setattr(validation, "walk", counted_walk)
        monkeypatch.setattr(PartitionLog, "append", counted_append)

    def turn(self) -> None:
        self.steps_all += self.steps
        self.steps_max, self.appends_max = (
            max(self.steps_max, self.steps),
            max(self.appends_max, self.appends),
        )
        self.steps = self.appends = 0
        self._next = asyncio.get_running_loop().call_soon(self.turn)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        self.turn()
        yield
        self._next.cancel()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def many(count: int, *, headers: int = 0, codec: str | None = "zstd", size: int = 0) -> bytes:
    """A batch of so many records with so many empty headers each."""
    raw = encode_batch([(None, b"x" * size, [(b"", None)] * headers)] * count, timestamp_ms=now_ms())
    return raw if codec is None else compressed(raw, codec)


FAST_CODECS = {"gzip", "zstd"}


def of_codecs(what: Callable[[str], tuple[object, ...]]) -> list[Any]:
    """A case of each codec; those that are not fast are slow tests."""
    return [
        pytest.param(*what(each), id=each, marks=() if each in FAST_CODECS else pytest.mark.slow)
        for each in CODECS
    ]


class Sent(NamedTuple):
    """A request of equal batches: so many partitions, so many batches in each."""

    records: int
    headers: int = 0
    codec: str | None = "zstd"
    partitions: int = 1
    batches: int = 1


LARGE = [
    pytest.param(Sent(100_000), 100_000, id="100,000 records"),
    pytest.param(Sent(300, headers=HEADERS_MAX), 300 * (HEADERS_MAX + 1), id="records of 1,024 headers"),
    pytest.param(Sent(30_000, codec=None), 30_000, id="30,000 records, not compressed"),
    pytest.param(
        Sent(3_000, codec=None, partitions=9), 27_000, id="each of nine partitions less than a slice"
    ),
    pytest.param(Sent(20_000, batches=5), 100_000, id="five batches in one partition"),
    pytest.param(Sent(500, codec=None, partitions=12), 6_000, id="each of twelve partitions small"),
    *of_codecs(lambda codec: (Sent(20_000, codec=codec), 20_000)),
]


@pytest.mark.parametrize(("sent", "steps"), LARGE)
def test_a_slice_at_most_is_walked_between_two_turns(
    tmp_path: Path, turns: Turns, sent: Sent, steps: int
) -> None:
    batches = [many(sent.records, headers=sent.headers, codec=sent.codec) * sent.batches] * sent.partitions

    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * len(batches)) as on:
            async with turns.counted():
                rows = await produced(on, produce(*batches))
            assert [row.error_code for row in rows] == [ErrorCode.NONE] * len(batches)
            assert turns.steps_all == steps, "each record is walked over once"
            assert turns.steps_max <= STEPS_MAX

    play(story)


def test_connections_share_the_slice(tmp_path: Path, turns: Turns) -> None:
    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * 8) as on:
            large = many(30_000)
            requests = [produce(*[None] * index, large) for index in range(8)]
            async with turns.counted():
                answers = await asyncio.gather(*(produced(on, request) for request in requests))
            assert [rows[-1].error_code for rows in answers] == [ErrorCode.NONE] * 8
            assert turns.steps_max <= STEPS_MAX

    play(story)


def test_the_partitions_of_a_request_are_appended_to_in_slices(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.broker.produce.APPEND_STEPS", SLICE_STEPS // 4)
    count = 24

    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * count) as on:
            async with turns.counted():
                rows = await produced(on, produce(*[batch(b"x")] * count))
            assert [row.error_code for row in rows] == [ErrorCode.NONE] * count
            assert turns.appends_max <= 5

    play(story)


def test_what_is_small_is_answered_while_a_large_batch_is_checked(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            client = await on.client()
            large = asyncio.ensure_future(produced(on, produce(many(50_000) * 4)))
            await until_parked(on, 1)
            for offset in range(3):
                answer = await client.call(PRODUCE, produce(None, batch(b"x")), version=9)
                assert answer.partitions[1].base_offset == offset
            assert not large.done()
            assert (await large)[0].error_code == ErrorCode.NONE

    play(story)


def parked(on: Stage) -> int:
    """How many checks wait or are under way."""
    return sum(map(len, on.broker._data._checks._parked.values()))


async def until_parked(on: Stage, count: int) -> None:
    while parked(on) < count:
        await asyncio.sleep(0)


def test_nothing_overtakes_what_is_parked_for_its_partition(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            first = asyncio.ensure_future(produced(on, produce(many(60_000))))
            await until_parked(on, 1)
            small = asyncio.ensure_future(produced(on, produce(batch(b"x"))))
            await until_parked(on, 2)
            large = asyncio.ensure_future(produced(on, produce(many(9_000))))
            offsets = [(await each)[0].base_offset for each in (first, small, large)]
            assert offsets == [0, 60_000, 60_001]
            assert parked(on) == 0

    play(story)


def test_a_batch_sent_again_while_the_first_is_checked_is_its_duplicate(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            clients = [await on.client() for _ in range(3)]
            batches = [from_producer(*[b"x"] * 9_000, sequence=9_000 * number) for number in (0, 0, 1)]
            answers = await asyncio.gather(
                *(
                    client.call(PRODUCE, produce(each), version=9)
                    for client, each in zip(clients, batches, strict=True)
                )
            )
            rows = [answer.partitions[0] for answer in answers]
            assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 0), (0, 9_000)]
            assert (await fetched(on, fetch(0))).high_watermark == 18_000

    play(story)


def test_a_partition_that_goes_away_meanwhile_refuses(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            waiting = [asyncio.ensure_future(produced(on, produce(many(60_000)))) for _ in range(2)]
            await until_parked(on, 2)
            partitions = on.broker._data._partitions
            partition = partitions.find(TOPIC, 0)
            assert partition is not None
            partitions.fail(partition, OSError("the disk is gone"), doing="test")
            codes = [(await each)[0].error_code for each in waiting]
            assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    play(story)


@pytest.mark.parametrize("codec", of_codecs(lambda codec: (codec,)))
def test_a_bomb_is_refused_and_the_next_batch_taken(tmp_path: Path, codec: str) -> None:
    bomb = compressed(
        encode_batch([(None, b"x", ())], timestamp_ms=now_ms())[:61] + bytes(DECOMPRESSED_BYTES_MAX + 1),
        codec,
    )

    async def story() -> None:
        async with hosting(tmp_path, HERE, message_bytes_max=8 * 1024 * 1024) as on:
            (row,) = await produced(on, produce(bomb))
            assert row.error_code == ErrorCode.INVALID_RECORD
            assert row.error_message is not None
            assert f"more than {DECOMPRESSED_BYTES_MAX} bytes come out" in row.error_message
            (row,) = await produced(on, produce(many(5_000, codec=codec)))
            assert (row.error_code, row.base_offset) == (0, 0)

    play(story)


def test_so_many_opened_batches_are_in_memory_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stays from when it is opened until its records are walked over."""
    opened: dict[int, int] = {}
    real = Opening.open

    def counted(opening: Opening) -> Any:
        body = real(opening)
        opened[opening.bytes_max] = opened.get(opening.bytes_max, 0) + 1
        return body

    monkeypatch.setattr(Opening, "open", counted)
    monkeypatch.setattr(  # a walk that goes nowhere: none of them ends
        validation, "walk", lambda body, position, delta, count, steps: record_walk.Walked(position, delta, 0)
    )
    small, large = many(18_000, size=30, codec="bare snappy"), many(60_000, size=30, codec="bare snappy")

    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * 24) as on:
            waiting: list[asyncio.Task[list[PartitionProduced]]] = []
            for batches, count in (([large] * 4, LARGE_MAX), ([small] * 20, LARGE_MAX + SMALL_MAX)):
                for each in batches:
                    request = produce(*[None] * len(waiting), each)
                    waiting.append(asyncio.ensure_future(produced(on, request)))
                await until_parked(on, len(waiting))
                while sum(opened.values()) < count:
                    await asyncio.sleep(0)
            for _ in range(200):
                await asyncio.sleep(0)
            assert sorted(opened.values()) == [LARGE_MAX, SMALL_MAX]
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    play(story)


@pytest.mark.parametrize(
    ("size", "code"),
    [
        pytest.param(APPEND_BYTES_MAX, ErrorCode.NONE, id="at the limit"),
        pytest.param(APPEND_BYTES_MAX + 1, ErrorCode.MESSAGE_TOO_LARGE, id="one past it"),
    ],
)
def test_the_bytes_for_one_partition_are_bounded(tmp_path: Path, size: int, code: ErrorCode) -> None:
    one = batch(b"x" * 1_000_000)
    last = size - 8 * len(one)
    rest = batch(b"x" * (last - (len(one) - 1_000_000)))
    sent = one * 8 + rest
    assert len(sent) == size

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (row,) = await produced(on, produce(sent))
            assert row.error_code == code

    play(story)


def test_a_stop_with_parked_batches_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            waiting = asyncio.ensure_future(produced(on, produce(many(100_000))))
            await until_parked(on, 1)
        with pytest.raises(Exception, match="closed"):
            await waiting

    play(story)
