"""Produce, Fetch, offsets, markers and producers of a whole broker, against a scripted controller."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.errors import ErrorCode, NotCoordinator
from records.batch import decode_batch
from records.types import NodeId
from tests.broker.batches import TOPIC, batch, fetch, from_producer, marker, produce
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, config_for, stage
from wire.k00_produce import PRODUCE, PartitionProduced, Produce
from wire.k01_fetch import FETCH, FetchedPartition
from wire.k02_list_offsets import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    ListOffsets,
    OffsetFound,
    OffsetQuery,
)
from wire.k03_metadata import METADATA, Metadata, TopicQuery
from wire.k23_offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH, EpochQuery, OffsetForLeaderEpoch
from wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers
from wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers

HERE = 1
ELSEWHERE = 2
TXN = "payments"


@asynccontextmanager
async def hosting(directory: Path, *leaders: int, **settings: Any) -> AsyncIterator[Stage]:
    """A broker in a cluster with one topic."""
    controller = FakeController()
    if leaders:
        controller.add_topic(TOPIC, *leaders)
    async with stage(controller, directory, **settings) as on:
        await on.broker.ready()
        yield on


async def produced(on: Stage, request: Produce, version: int = 9) -> list[PartitionProduced]:
    answer = await on.call(PRODUCE, request, version)
    return list(answer.partitions)


async def fetched(on: Stage, request: Any) -> FetchedPartition:
    (row,) = (await on.call(FETCH, request, request.version)).partitions
    return row  # type: ignore[no-any-return]


def values(row: FetchedPartition) -> list[tuple[int, bytes | None]]:
    found, position = [], 0
    while position < len(row.records):
        read, size = decode_batch(row.records, position)
        position += size
        found += [(read.base_offset + place, record.value) for place, record in enumerate(read.records)]
    return found


async def open_transaction(on: Stage, *texts: bytes, sequence: int = 0, epoch: int = 0) -> PartitionProduced:
    records = from_producer(*texts, sequence=sequence, epoch=epoch, transactional=True)
    (row,) = await produced(on, produce(records, transactional_id=TXN))
    return row


async def ended(on: Stage, request: WriteTxnMarkers) -> ErrorCode:
    answer = await on.call(WRITE_TXN_MARKERS, request)
    ((_, ((_, ((_, code),)),)),) = answer.markers
    return ErrorCode(code)


def test_what_is_produced_is_fetched(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (first,) = await produced(on, produce(batch(b"a", b"b")))
            (second,) = await produced(on, produce(batch(b"c")))
            assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
            row = await fetched(on, fetch(0))
            assert values(row) == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)
            assert row.aborted is None
            assert values(await fetched(on, fetch(2))) == [(2, b"c")]

    play(story)


@pytest.mark.parametrize("version", PRODUCE.versions[3:], ids="v{}".format)
def test_every_version_of_produce_is_served(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (row,) = await produced(on, produce(batch(b"a")), version)
            assert (row.error_code, row.base_offset) == (0, 0)

    play(story)


def test_partitions_of_a_request_fare_each_for_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE, HERE, HERE) as on:
            broken = bytearray(batch(b"x"))
            broken[-1] ^= 1
            rows = await produced(on, produce(batch(b"a"), batch(b"b"), bytes(broken), None, batch(b"c")))
            assert [row.error_code for row in rows] == [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]

    play(story)


def test_unknown_acks_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            odd = Produce(None, 2, 1_000, produce(batch(b"a")).partitions, 9)
            (row,) = await produced(on, odd)
            assert row.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    play(story)


def test_a_topic_made_a_moment_ago_is_looked_up_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            (missing,) = await produced(on, produce(batch(b"a")))
            assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            on.controller.add_topic(TOPIC, HERE)
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NONE
            asked = [each for each in on.controller.asked[METADATA.key] if each.topics is not None]
            assert [each.allow_auto_topic_creation for each in asked] == [False, False]

    play(story)


def test_a_retried_batch_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            for sequence in range(3):
                await produced(on, produce(from_producer(b"x", sequence=sequence)))
            (again,) = await produced(on, produce(from_producer(b"x", sequence=1)))
            assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
            (gap,) = await produced(on, produce(from_producer(b"x", sequence=9)))
            assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert (await fetched(on, fetch(0))).high_watermark == 3

    play(story)


# Fetch


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
    pytest.param(
        fetch(0, topic=uuid.UUID(int=9), version=13), ErrorCode.UNKNOWN_TOPIC_ID, id="no-such-topic-id"
    ),
    pytest.param(fetch(0, epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH, id="an-epoch-to-come"),
]


@pytest.mark.parametrize(("request_", "code"), FETCH_ERRORS)
def test_a_fetch_is_refused_at_once(tmp_path: Path, request_: Any, code: ErrorCode) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            assert (await fetched(on, request_)).error_code == code

    play(story)


@pytest.mark.parametrize("version", FETCH.versions, ids="v{}".format)
def test_every_version_of_fetch_is_served(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            topic = TOPIC if version < 13 else on.controller.topics[TOPIC].topic_id
            row = await fetched(on, fetch(0, topic=topic, version=version))
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


# Offsets


def test_offsets_are_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            await open_transaction(on, b"b")

            async def found(timestamp_ms: int, isolation_level: int = 0) -> OffsetFound:
                request = ListOffsets((OffsetQuery(TOPIC, 0, timestamp_ms),), -1, isolation_level)
                (row,) = (await on.call(LIST_OFFSETS, request, 11)).partitions
                return row  # type: ignore[no-any-return]

            assert (await found(EARLIEST)).offset == 0
            assert (await found(LATEST)).offset == 2
            assert (await found(LATEST, 1)).offset == 1, "the last stable offset"
            assert (await found(0)).offset == 0
            assert (await found(2**62)).offset == -1
            assert (await found(MAX_TIMESTAMP)).offset in (0, 1)

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


# Transactions


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


@pytest.mark.row("360.6")
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


VERDICTS = [
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.PRODUCER_FENCED, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.UNKNOWN_PRODUCER_ID, 10, ErrorCode.UNKNOWN_PRODUCER_ID),
    (ErrorCode.UNKNOWN_PRODUCER_ID, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.row("360.6", "588.4")
@pytest.mark.parametrize(("says", "version", "told"), VERDICTS, ids=lambda each: str(int(each)))
def test_what_the_coordinator_says_is_told_as_the_client_bears_it(
    tmp_path: Path, says: ErrorCode, version: int, told: ErrorCode
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            on.controller.verdict = says
            request = produce(from_producer(b"a", sequence=0, transactional=True), transactional_id=TXN)
            data = Produce(TXN, -1, 1_000, request.partitions, version)
            (row,) = await produced(on, data, version)
            assert row.error_code == told
            assert (await fetched(on, fetch(0))).high_watermark == 0

    play(story)


def test_a_coordinator_that_loads_is_asked_again_by_the_client(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            from controller.errors import CoordinatorLoadInProgress

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
            request = Produce(TXN, -1, 1_000, produce(stale).partitions, 10)
            (row,) = await produced(on, request, 10)
            assert row.error_code == told

    play(story)


def test_a_marker_during_the_question_makes_its_answer_void(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            held: list[Any] = []

            def hold(request: Any, context: Any) -> Any:
                held.append(request)
                asked.set_result(None)
                from tests.broker.fake_controller import SILENCE

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


# Partitions come and go


def test_logs_are_recovered_before_the_broker_registers(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            for start in range(2):
                on = Stage(controller, config_for(controller, tmp_path))
                await on.broker.start()
                await on.broker.ready()
                partition = on.broker._data._partitions.find(TOPIC, 0)
                assert start == 0 or partition is not None
                await produced(on, produce(from_producer(b"x", sequence=start)))
                row = await fetched(on, fetch(0))
                assert row.high_watermark == start + 1
                await on.broker.stop()

    play(story)


def test_a_deleted_topic_goes_and_a_new_one_of_its_name_is_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"old")))
            del on.controller.topics[TOPIC]
            await on.broker._data.topics.refresh()
            assert not list(tmp_path.glob(f"{TOPIC}-*"))
            on.controller.add_topic(TOPIC, HERE)
            await produced(on, produce(batch(b"new")))
            assert values(await fetched(on, fetch(0))) == [(0, b"new")]

    play(story)


def test_a_topic_of_the_same_name_replaces_the_old_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"old")))
            on.controller.add_topic(TOPIC, HERE)
            await on.broker._data.topics.refresh()
            await produced(on, produce(batch(b"new")))
            assert values(await fetched(on, fetch(0))) == [(0, b"new")]

    play(story)


def test_an_input_output_error_takes_its_partition_offline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await produced(on, produce(batch(b"a"), batch(b"b")))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None

            def fail(*arguments: Any) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(partition.log, "append", fail)
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            assert len(on.events("partition_offline")) == 1

    play(story)


def test_a_marker_that_cannot_be_flushed_is_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await open_transaction(on, b"a")
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None

            def fail(*arguments: Any) -> None:
                raise OSError(5, "Input/output error")

            monkeypatch.setattr(partition.log, "flush", fail)
            assert await ended(on, marker(committed=True)) == ErrorCode.KAFKA_STORAGE_ERROR

    play(story)


def test_the_settings_of_a_topic_are_those_of_its_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            on.controller.settings = {"max.message.bytes": "100", "message.timestamp.type": "LogAppendTime"}
            on.controller.add_topic(TOPIC, HERE)
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.log_append_time_ms > 0
            (row,) = await produced(on, produce(batch(b"a" * 100)))
            assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(story)


# Metadata


def test_metadata_tells_topics_by_name_by_id_and_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE) as on:
            topic = on.controller.topics[TOPIC]
            for queries in (None, (TopicQuery(TOPIC),), (TopicQuery(None, topic.topic_id),)):
                (row,) = (await on.call(METADATA, Metadata(queries), 13)).topics
                assert (row.name, row.topic_id, row.error_code) == (TOPIC, topic.topic_id, 0)
                assert [each.leader_id for each in row.partitions] == [HERE, ELSEWHERE]

    play(story)


@pytest.mark.parametrize("create", [True, False], ids=["may-create", "may-not"])
def test_metadata_of_an_unknown_topic_asks_whether_it_may_be_created(tmp_path: Path, create: bool) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            request = Metadata((TopicQuery("new"),), allow_auto_topic_creation=create)
            (row,) = (await on.call(METADATA, request, 13)).topics
            assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            asked = [each for each in on.controller.asked[METADATA.key] if each.topics is not None]
            assert [each.allow_auto_topic_creation for each in asked] == [create]

    play(story)


def test_metadata_is_answered_from_memory_while_nobody_leads(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            on.controller.leader_id = NodeId(-1)
            await on.controller.stop()
            (row,) = (await on.call(METADATA, Metadata((TopicQuery(TOPIC),)), 13)).topics
            assert row.error_code == ErrorCode.NONE
            (row,) = await produced(on, produce(batch(b"b")))
            assert row.error_code == ErrorCode.NONE

    play(story)
