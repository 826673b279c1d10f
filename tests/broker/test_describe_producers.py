"""DescribeProducers: a partition that remembers many tells them in slices, the loop free between them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencepost.broker.describe_producers
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context
from fencepost.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
    encode_producers,
)
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import HERE, hosting, produced
from tests.broker.fake_controller import play
from tests.broker.whole_broker import Stage
from tests.wire.answering import Answering

SLICE = 2
ASKED = DescribeProducers(((TOPIC, (0,)),))
SOMEBODY = Context("User:ANONYMOUS", "PLAINTEXT", None, "127.0.0.1:1")


async def _remember(on: Stage, *producer_ids: int, partitions: int = 1) -> None:
    for producer_id in producer_ids:
        records = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        await produced(on, produce(*[records] * partitions))


async def _turns(on: Stage, asked: DescribeProducers, meanwhile: Callable[[], object]) -> tuple[int, Any]:
    """How often the loop ran before the answer, and the answer. ``meanwhile``: after the first slice."""
    told: list[Any] = []

    def reply(answer: Any, throttle_ms: int = 0) -> None:
        told.append(answer)

    on.broker._data._describe_producers.describe(asked, SOMEBODY, Answering(reply))
    meanwhile()
    turns = 0
    while not told:
        await asyncio.sleep(0)
        turns += 1
    return turns, DESCRIBE_PRODUCERS.decode_response(0, DESCRIBE_PRODUCERS.encode_response(0, told[0], 0))


def _ids(answer: DescribeProducersAnswer) -> list[int]:
    (row,) = answer.partitions
    return [each.producer_id for each in row.producers]


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, 3 * SLICE], ids=lambda count: f"{count}-producers")
def test_every_producer_is_told_once_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(fencepost.broker.describe_producers, "SLICE_PRODUCERS_MAX", SLICE)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await _remember(on, *range(count))
            assert _ids(await on.call(DESCRIBE_PRODUCERS, ASKED)) == list(range(count))

    play(story)


def test_the_loop_runs_between_slices_and_who_is_forgotten_then_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.broker.describe_producers, "SLICE_PRODUCERS_MAX", SLICE)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await _remember(on, *range(5))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None
            table = partition.log._states.table
            turns, answer = await _turns(on, ASKED, lambda: table.pop(ProducerId(3)))
            assert turns >= 2
            assert _ids(answer) == [0, 1, 2, 4]

    play(story)


def test_many_small_partitions_do_not_hold_the_loop_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.broker.describe_producers, "SLICE_PRODUCERS_MAX", SLICE)

    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * 6) as on:
            await _remember(on, 7, partitions=6)
            turns, answer = await _turns(on, DescribeProducers(((TOPIC, tuple(range(6))),)), lambda: None)
            assert turns >= 2
            assert [[each.producer_id for each in row.producers] for row in answer.partitions] == [[7]] * 6

    play(story)


def test_slices_are_the_bytes_of_the_whole() -> None:
    rows = ((2**63 - 1, 32767, 5, 1_700_000_000_000, 6, 1000), (0, 0, -1, -1, -1, -1))
    whole = PartitionProducers(TOPIC, 3, producers=tuple(ActiveProducer(*row) for row in rows))
    framed = DESCRIBE_PRODUCERS.encode_response(0, DescribeProducersAnswer((whole,)), 7)
    assert encode_producers(rows[:1]) + encode_producers(rows[1:]) in framed
    assert DESCRIBE_PRODUCERS.decode_response(0, framed).partitions == (whole,)
