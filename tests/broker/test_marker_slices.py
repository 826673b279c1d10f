"""Markers of one request are appended in slices: the loop runs between them, the answer waits for all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fencepost.broker.markers
from fencepost.controller.errors import ErrorCode
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context, Proof
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers, WriteTxnMarkersAnswer
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE, hosting, open_transaction
from tests.broker.fake_controller import play
from tests.wire.answering import Answering

SLICE = 3


def coordinator() -> Context:
    return Context("User:ANONYMOUS", "PLAINTEXT", None, "127.0.0.1:1", Proof(proved=True))


def markers(count: int) -> WriteTxnMarkers:
    topics = ((TOPIC, (0,)),)
    return WriteTxnMarkers(
        tuple(TxnMarker(7 + each, 0, True, topics, 1, image_version=9) for each in range(count))
    )


async def written(on: Any, count: int) -> tuple[list[int], WriteTxnMarkersAnswer]:
    """How many markers are appended after each turn of the loop, and the answer."""
    answers: list[Any] = []
    await open_transaction(on, b"so that the partition is hosted")
    log = on.broker._data._partitions.find(TOPIC, 0).log
    begin = log.end
    on.broker._data._markers.write(markers(count), coordinator(), Answering(lambda a, _: answers.append(a)))
    appended = [log.end - begin]
    while not answers:
        await asyncio.sleep(0)
        appended.append(log.end - begin)
    return appended, answers[0]


@pytest.mark.parametrize("count", [1, SLICE, SLICE + 1, 4 * SLICE])
def test_so_many_are_appended_in_a_turn_and_each_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(fencepost.broker.markers, "SLICE_MAX", SLICE)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            appended, answer = await written(on, count)
            steps = [after - before for before, after in zip([0, *appended], appended, strict=False)]
            assert max(steps) == min(count, SLICE)
            assert appended[-1] == count, "the answer waits for the last slice"
            assert {code for _, ((_, rows),) in answer.markers for _, code in rows} == {ErrorCode.NONE}
            assert [ProducerId(each) for each, _ in answer.markers] == [7 + each for each in range(count)]

    play(story)


def test_a_failure_in_a_later_slice_closes_that_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.broker.markers, "SLICE_MAX", SLICE)

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            endpoint = on.broker._data._markers
            append = endpoint._append
            calls: list[int] = []

            def fails(marker: TxnMarker, partition: Any) -> ErrorCode:
                calls.append(1)
                if len(calls) > SLICE:
                    raise KeyError("a bug")
                return append(marker, partition)

            with monkeypatch.context() as planted:
                planted.setattr(endpoint, "_append", fails)
                reply = Answering(lambda *_: None)
                endpoint.write(markers(2 * SLICE), coordinator(), reply)
                while not reply.closed:
                    await asyncio.sleep(0)
            assert "a bug" in reply.closed[0]
            assert not on.events("exception_not_caught")
            _, answer = await written(on, 1)
            assert answer.markers

    play(story)
