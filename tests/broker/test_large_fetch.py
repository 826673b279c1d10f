"""A fetch of many partitions is read in slices, the loop free between them, and answers as any other."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import fencepost.broker.fetch
import fencepost.broker.topics
from fencepost.broker.fetch import FetchEndpoint
from fencepost.controller.errors import ErrorCode
from fencepost.wire.dispatch import Context
from fencepost.wire.k01_fetch import Fetch, FetchAnswer, FetchPartition
from fencepost.wire.k03_metadata import Metadata
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import HERE, hosting, produced
from tests.broker.fake_controller import play
from tests.broker.whole_broker import Stage
from tests.wire.answering import Answering

READS = 2
PARTITIONS = 7
SOMEBODY = Context("User:ANONYMOUS", "PLAINTEXT", None, "127.0.0.1:1")


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.broker.fetch, "READS_MAX", READS)


def of_all(*, wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20, unknown: int = 0) -> Fetch:
    rows = tuple(
        FetchPartition(TOPIC, None, index, -1, 0, -1, -1, 1 << 20) for index in range(PARTITIONS + unknown)
    )
    return Fetch(-1, wait_ms, min_bytes, max_bytes, 0, 0, -1, rows)


def begin(on: Stage, request: Fetch) -> tuple[FetchEndpoint, list[FetchAnswer]]:
    endpoint = on.broker._data._fetch
    answers: list[FetchAnswer] = []

    def reply(answer: FetchAnswer, throttle_ms: int) -> None:
        answers.append(answer)

    endpoint.fetch(request, SOMEBODY, Answering(reply))
    return endpoint, answers


async def until(condition: Callable[[], object]) -> int:
    """How often the loop ran until then."""
    turns = 0
    while not condition():
        await asyncio.sleep(0)
        turns += 1
    return turns


def is_forgotten(on: Stage, endpoint: FetchEndpoint) -> bool:
    partitions = [on.broker._data._partitions.find(TOPIC, index) for index in range(PARTITIONS)]
    return not endpoint.waiting and not any(each.waiting for each in partitions if each is not None)


def played(tmp_path: Path, story: Callable[[Stage], Any]) -> None:
    async def told() -> None:
        async with hosting(tmp_path, *[HERE] * PARTITIONS) as on:
            while any(on.broker._data._partitions.find(TOPIC, each) is None for each in range(PARTITIONS)):
                await on.broker._data.topics.refresh()
            await story(on)

    play(told)


@pytest.mark.parametrize(
    ("request_", "texts"),
    [
        pytest.param(of_all(), PARTITIONS, id="everything"),
        pytest.param(of_all(max_bytes=1), 1, id="one batch, though the bytes are few"),
        pytest.param(of_all(max_bytes=3 * len(batch(b"a"))), 3, id="bytes for three, over two slices"),
    ],
)
def test_the_answer_is_that_of_one_read(tmp_path: Path, request_: Fetch, texts: int) -> None:
    async def story(on: Stage) -> None:
        await produced(on, produce(*[batch(b"a")] * PARTITIONS))
        endpoint, answers = begin(on, request_)
        assert not answers  # the first slice alone was read
        assert await until(lambda: answers) >= PARTITIONS // READS
        (answer,) = answers
        assert [row.index for row in answer.partitions] == list(range(PARTITIONS))
        assert [bool(row.records) for row in answer.partitions] == [True] * texts + [False] * (
            PARTITIONS - texts
        )
        assert answer.partitions == endpoint._read(request_)
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


@pytest.mark.parametrize("after_turns", [0, 1, 2, 10])
def test_what_comes_at_any_moment_ends_the_wait(tmp_path: Path, after_turns: int) -> None:
    async def story(on: Stage) -> None:
        endpoint, answers = begin(on, of_all(wait_ms=600_000))
        for _ in range(after_turns):
            await asyncio.sleep(0)
        partition = on.broker._data._partitions.find(TOPIC, 0)
        assert partition is not None
        partition.log.append(batch(b"a"), time.time_ns() // 1_000_000, partition.leader_epoch)
        partition.wake()
        await until(lambda: answers)
        assert [bool(row.records) for row in answers[0].partitions] == [True] + [False] * (PARTITIONS - 1)
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


def test_the_time_is_up(tmp_path: Path) -> None:
    async def story(on: Stage) -> None:
        endpoint, answers = begin(on, of_all(wait_ms=20))
        await until(lambda: answers)
        assert not any(row.records for row in answers[0].partitions)
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


def test_an_error_ends_the_wait(tmp_path: Path) -> None:
    async def story(on: Stage) -> None:
        endpoint, answers = begin(on, of_all(wait_ms=600_000, unknown=1))
        await until(lambda: answers)
        assert answers[0].partitions[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


@pytest.mark.parametrize("turns", [0, 1, 50])
def test_a_stop_answers_it_once(tmp_path: Path, turns: int) -> None:
    async def story(on: Stage) -> None:
        endpoint, answers = begin(on, of_all(wait_ms=600_000))
        for _ in range(turns):
            await asyncio.sleep(0)
        endpoint.stop()
        assert len(answers) == 1
        for _ in range(10 * PARTITIONS):
            await asyncio.sleep(0)
        assert len(answers) == 1
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


def test_what_moves_often_is_looked_at_after_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.broker.fetch, "PAUSE_S", 1000.0)

    async def story(on: Stage) -> None:
        looks = 0
        endpoint = on.broker._data._fetch
        reads = endpoint._reads

        def counted(request: Any, rows: Any) -> Any:
            nonlocal looks
            looks += 1
            return reads(request, rows)

        monkeypatch.setattr(endpoint, "_reads", counted)
        _, answers = begin(on, of_all(wait_ms=600_000, min_bytes=1 << 19))
        for number in range(5):
            await produced(on, produce(batch(b"%d" % number)))
            for _ in range(10 * PARTITIONS):
                await asyncio.sleep(0)
        assert looks == 2  # at first, and at the first move
        (parked,) = endpoint.waiting
        cast(Any, parked)._expire()  # as its timer does
        await until(lambda: answers)  # the pause does not put off the end
        assert looks == 3
        assert len(answers[0].partitions[0].records) == 5 * len(batch(b"0"))
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


def test_a_failure_in_a_later_slice_forgets_the_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(on: Stage) -> None:
        endpoint = on.broker._data._fetch
        read_one = endpoint._read_one

        def failing(asked: FetchPartition, *args: Any, **more: Any) -> Any:
            if asked.index == READS + 1:
                raise RuntimeError("planted")
            return read_one(asked, *args, **more)

        monkeypatch.setattr(endpoint, "_read_one", failing)
        reply = Answering(lambda *_: None)
        endpoint.fetch(of_all(wait_ms=600_000), SOMEBODY, reply)
        await until(lambda: reply.closed)
        assert "planted" in reply.closed[0]
        assert is_forgotten(on, endpoint)

    played(tmp_path, story)


def test_many_unknown_topics_are_asked_about_in_several_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.broker.topics, "QUERIES_MAX", 3)

    async def story(on: Stage) -> None:
        sizes: list[int] = []
        ask = on.broker._data.topics._ask

        async def counted(request: Metadata) -> Any:
            if request.topics:  # what is hosted here is looked up meanwhile, too
                sizes.append(len(request.topics))
            return await ask(request)

        monkeypatch.setattr(on.broker._data.topics, "_ask", counted)
        rows = tuple(FetchPartition(f"no-{each}", None, 0, -1, 0, -1, -1, 1) for each in range(8))
        _, answers = begin(on, Fetch(-1, 0, 1, 1, 0, 0, -1, rows))
        await until(lambda: answers)
        assert [row.error_code for row in answers[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 8
        assert sizes == [3, 3, 2]

    played(tmp_path, story)
