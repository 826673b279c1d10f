"""Transactions on the partitions of a whole broker: verification, markers, which client gets which code."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode, NotCoordinator
from fencepost.wire.k00_produce import Produce
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers
from tests.broker.batches import TOPIC, fetch, from_producer, marker, produce
from tests.broker.data_stage import (
    ELSEWHERE,
    HERE,
    TXN,
    ended,
    fetched,
    hosting,
    open_transaction,
    produced,
)
from tests.broker.fake_controller import SILENCE, play


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_transaction_is_stable_once_it_ended(tmp_path: Path, committed: bool) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            before = await fetched(on, fetch(0, committed=True))
            assert (before.records, before.last_stable_offset, before.high_watermark) == (b"", 0, 1)
            waiting = asyncio.ensure_future(fetched(on, fetch(0, committed=True, wait_ms=600_000)))
            while not on.broker._data._fetch.waiting:
                await asyncio.sleep(0)
            assert await ended(on, marker(committed=committed)) == ErrorCode.NONE
            after = await waiting
            assert after.last_stable_offset == 2
            assert after.aborted is not None
            assert [tuple_of(each) for each in after.aborted] == ([] if committed else [(7, 0)])

    play(story)


def tuple_of(aborted: Any) -> tuple[int, int]:
    return aborted.producer_id, aborted.first_offset


def test_the_first_batch_of_a_transaction_is_verified_and_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            asked = on.controller.asked[ADD_PARTITIONS_TO_TXN.key]
            await open_transaction(on, b"a")
            await open_transaction(on, b"b", sequence=1)
            assert len(asked) == 1
            (transaction,) = asked[0].transactions
            assert transaction.verify_only
            assert (transaction.transactional_id, transaction.producer_id) == (TXN, 7)
            await ended(on, marker(committed=True))
            await open_transaction(on, b"c", sequence=2)
            assert len(asked) == 2

    play(story)


@pytest.mark.row("939.10")
@pytest.mark.parametrize("verification", [True, False], ids=["verified", "unverified"])
def test_the_first_batch_of_a_v2_transaction_adds_its_partition(tmp_path: Path, verification: bool) -> None:
    """Whether others are verified or not: the coordinator ends what it knows of, and nothing else does."""

    async def story() -> None:
        async with hosting(tmp_path, HERE, partition_verification=verification) as on:
            asked = on.controller.asked[ADD_PARTITIONS_TO_TXN.key]

            async def write(sequence: int, epoch: int) -> int:
                records = from_producer(b"a", sequence=sequence, epoch=epoch, transactional=True)
                request = replace(produce(records, transactional_id=TXN), adds_partitions=True)
                (row,) = await produced(on, request, 12)
                return row.error_code

            assert [await write(0, 0), await write(1, 0)] == [ErrorCode.NONE, ErrorCode.NONE]
            await ended(on, marker(committed=True, epoch=1))
            assert await write(0, 1) == ErrorCode.NONE
            assert [
                (each.producer_epoch, each.verify_only, each.topics[0].partition_ids)
                for request in asked
                for each in request.transactions
            ] == [(0, False, (0,)), (1, False, (0,))]

    play(story)


WORDS = {
    ErrorCode.PRODUCER_FENCED: "was fenced by a new instance",
    ErrorCode.UNKNOWN_PRODUCER_ID: "was fenced when its transaction timed out",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "is not, and is not known to have been, a producer of this id",
    ErrorCode.TRANSACTION_ABORTABLE: "has a transaction that can only be aborted",
    ErrorCode.CONCURRENT_TRANSACTIONS: "is refused with CONCURRENT_TRANSACTIONS",
}
VERDICTS = [
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.PRODUCER_FENCED, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.UNKNOWN_PRODUCER_ID, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.UNKNOWN_PRODUCER_ID, 10, ErrorCode.UNKNOWN_PRODUCER_ID),
    (ErrorCode.UNKNOWN_PRODUCER_ID, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.row("588.4")
@pytest.mark.parametrize(("says", "version", "told"), VERDICTS, ids=lambda each: str(int(each)))
def test_what_the_coordinator_says_is_told_as_the_client_bears_it(
    tmp_path: Path, says: ErrorCode, version: int, told: ErrorCode
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.verdict = says
            request = produce(from_producer(b"a", sequence=0, transactional=True), transactional_id=TXN)
            data = Produce(TXN, -1, 1_000, request.partitions)
            (row,) = await produced(on, data, version)
            assert row.error_code == told
            who = f"producer 7, epoch 0 of {TXN!r} "
            assert row.error_message == f"{who}{WORDS[says]}, says its transaction coordinator"
            assert (await fetched(on, fetch(0))).high_watermark == 0

    play(story)


def test_a_coordinator_that_loads_is_asked_again_by_the_client(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.script(ADD_PARTITIONS_TO_TXN, CoordinatorLoadInProgress("not yet"))
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE

    play(story)


def test_a_coordinator_that_moved_is_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.script(ADD_PARTITIONS_TO_TXN, NotCoordinator("another one is"))
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE

    play(story)


@pytest.mark.row("588.4")
@pytest.mark.parametrize(
    ("says", "told"),
    [
        (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.UNKNOWN_PRODUCER_ID),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
    ids=["timed-out", "fenced", "not-in-it", "unknown-to-it"],
)
def test_the_coordinator_says_why_an_epoch_is_old(tmp_path: Path, says: ErrorCode, told: ErrorCode) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a", epoch=5)
            on.controller.verdict = says
            stale = from_producer(b"b", sequence=0, epoch=4, transactional=True)
            request = Produce(TXN, -1, 1_000, produce(stale).partitions)
            (row,) = await produced(on, request, 10)
            assert row.error_code == told
            assert row.error_message == (
                "producer 7 sent epoch 4, the partition knows 5"
                if says in (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE)
                else f"producer 7, epoch 4 of {TXN!r} {WORDS[says]}, says its transaction coordinator"
            )

    play(story)


def test_a_marker_during_the_question_makes_its_answer_void(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            held: list[Any] = []

            def hold(request: Any, context: Any) -> Any:
                held.append(request)
                asked.set_result(None)
                return SILENCE

            on.controller.script(ADD_PARTITIONS_TO_TXN, hold)
            writing = asyncio.ensure_future(open_transaction(on, b"late"))
            await asked
            assert await ended(on, marker(committed=False)) == ErrorCode.NONE
            on.controller.hang_up()  # the question is asked again, and allowed
            assert (await writing).error_code == ErrorCode.INVALID_TXN_STATE

    play(story)


def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (row,) = await produced(on, produce(from_producer(b"a", sequence=0, transactional=True)))
            assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    play(story)


def test_a_late_duplicate_of_a_marker_ends_no_later_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            assert await ended(on, marker(committed=True, version=10)) == ErrorCode.NONE
            await open_transaction(on, b"b", sequence=1)
            assert await ended(on, marker(committed=True, version=10)) == ErrorCode.NONE
            row = await fetched(on, fetch(0, committed=True))
            assert (row.last_stable_offset, row.high_watermark) == (2, 3)
            assert await ended(on, marker(committed=False, version=11)) == ErrorCode.NONE
            row = await fetched(on, fetch(0, committed=True))
            assert (row.last_stable_offset, row.high_watermark) == (4, 4)

    play(story)


def test_markers_are_refused_each_for_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE) as on:
            await open_transaction(on, b"a", epoch=3)
            old = marker(committed=True, epoch=2).markers[0]
            good = marker(committed=True, epoch=3).markers[0]
            far = type(good)(7, 3, True, ((TOPIC, (1, 2)), ("nowhere", (0,))), 1)
            answer = await on.call(WRITE_TXN_MARKERS, WriteTxnMarkers((old, far, good)))
            codes = [code for _, topics in answer.markers for _, rows in topics for _, code in rows]
            assert codes == [
                ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NONE,
            ]

    play(story)


def test_producers_are_described(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a", b"b")
            (row,) = (await on.call(DESCRIBE_PRODUCERS, DescribeProducers(((TOPIC, (0,)),)))).partitions
            (producer,) = row.producers
            assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
            assert producer.current_txn_start_offset == 0

    play(story)
