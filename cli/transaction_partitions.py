"""What the commands ask of partition leaders about transactions, and how a hanging one is found and ended.

Hanging     a partition's leader knows an open transaction that no coordinator does: nothing will ever end it,
            and read_committed consumers wait in front of it for good.
Source      Kafka TransactionsCommand, AbortTransactionSpec; KIP-664; docs/kafka-notes.md H2.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fencepost.cli.transaction_calls import describe_if_known, list_transactions
from fencepost.cluster.brokers import Brokers
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.describe import DescribedTransaction, ListTransactions
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import ProducerId
from fencepost.wire.errors import error_for, raise_for
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from fencepost.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    EncodedAnswer,
    PartitionProducers,
)

PARTITIONS_PER_REQUEST_MAX: Final = 1000
PRODUCER_IDS_PER_REQUEST_MAX: Final = 1000
DESCRIPTIONS_AT_ONCE_MAX: Final = 50


class OpenTransaction(NamedTuple):
    """A transaction that a partition's leader holds open."""

    topic: str
    partition: int
    producer: ActiveProducer


async def producers_of(
    brokers: Brokers, topic: str, partition: int, broker_id: int | None
) -> tuple[ActiveProducer, ...]:
    """The producers that the partition's leader (or ``broker_id``) remembers, by producer id."""
    request = DescribeProducers(((topic, (partition,)),))

    async def ask() -> tuple[ActiveProducer, ...]:
        if broker_id is None:
            answer = await brokers.ask_leader(topic, partition, DESCRIBE_PRODUCERS, request)
        else:
            answer = await brokers.ask_node(broker_id, DESCRIBE_PRODUCERS, request)
        return _active_producers(_read(answer)[0])

    return tuple(sorted(await brokers.with_retries(ask), key=lambda each: each.producer_id))


def _active_producers(found: PartitionProducers) -> tuple[ActiveProducer, ...]:
    code, where = found.error_code, f"{found.topic}-{found.index}"
    raise_for(code, found.error_message or f"{where}: error {code}")
    return found.producers


class Search(NamedTuple):
    """What ``find_hanging`` found, and the partitions without a leader: of those nothing is known."""

    found: list[OpenTransaction]
    unled: list[tuple[str, int]]


async def find_hanging(
    brokers: Brokers,
    *,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    idle_ms_max: int,
    now_ms: int,
) -> Search:
    """Open transactions that are silent for longer than ``idle_ms_max`` and that no coordinator will end."""
    opened, unled = await _open_transactions(brokers, topic, partition, broker_id)
    candidates = [each for each in opened if now_ms - each.producer.last_timestamp > idle_ms_max]
    if not candidates:
        return Search([], unled)
    known = await _known_transactions(brokers, {each.producer.producer_id for each in candidates})
    return Search(hanging(candidates, known), unled)


def hanging(
    candidates: Iterable[OpenTransaction], known: Mapping[int, DescribedTransaction]
) -> list[OpenTransaction]:
    """Those whose producer has no transaction (``known``: by producer id) that includes the partition."""
    return [
        each
        for each in candidates
        if each.producer.producer_id not in known
        or not _includes(known[each.producer.producer_id], each.topic, each.partition)
    ]


def _includes(transaction: DescribedTransaction, topic: str, partition: int) -> bool:
    return any(each.topic == topic and partition in each.partition_ids for each in transaction.partitions)


async def _open_transactions(
    brokers: Brokers, topic: str | None, partition: int | None, broker_id: int | None
) -> tuple[list[OpenTransaction], list[tuple[str, int]]]:
    by_leader: dict[int, list[tuple[str, int]]] = defaultdict(list)
    unled: list[tuple[str, int]] = []
    for found in await brokers.topics(*(() if topic is None else (topic,))):
        for each in found.partitions:
            if partition not in (None, each.partition_index):
                continue
            broker = each.leader_id if broker_id is None else broker_id
            if broker < 0:
                unled.append((found.name or "", each.partition_index))
            elif broker_id is None or broker_id in each.replica_nodes:
                by_leader[broker].append((found.name or "", each.partition_index))
    if partition is not None and not by_leader and broker_id is None:
        raise WrongUsage(f"{topic} has no partition {partition} that a broker leads")
    batches = [
        (leader, partitions[first : first + PARTITIONS_PER_REQUEST_MAX])
        for leader, partitions in by_leader.items()
        for first in range(0, len(partitions), PARTITIONS_PER_REQUEST_MAX)
    ]
    answers = await asyncio.gather(*(_producers_on(brokers, leader, batch) for leader, batch in batches))
    opened = [
        OpenTransaction(found.topic, found.index, producer)
        for answer in answers
        for found in answer
        for producer in _active_producers(found)
        if producer.current_txn_start_offset >= 0
    ]
    return opened, unled


async def _producers_on(
    brokers: Brokers, leader: int, partitions: list[tuple[str, int]]
) -> tuple[PartitionProducers, ...]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    request = DescribeProducers(tuple((topic, tuple(indexes)) for topic, indexes in topics.items()))
    answer = await brokers.with_retries(lambda: brokers.ask_node(leader, DESCRIBE_PRODUCERS, request))
    return _read(answer)


def _read(answer: DescribeProducersAnswer | EncodedAnswer) -> tuple[PartitionProducers, ...]:
    if not isinstance(answer, DescribeProducersAnswer):
        raise InvariantViolation(f"producers came as {type(answer).__name__}, which only servers make")
    return answer.partitions


async def _known_transactions(brokers: Brokers, producer_ids: set[int]) -> dict[int, DescribedTransaction]:
    """What coordinators say of these producers' transactions, by producer id."""
    ordered = sorted(producer_ids)
    ids: list[str] = []
    for first in range(0, len(ordered), PRODUCER_IDS_PER_REQUEST_MAX):
        broker = tuple(ProducerId(each) for each in ordered[first : first + PRODUCER_IDS_PER_REQUEST_MAX])
        listed = await list_transactions(brokers, ListTransactions(producer_id_filters=broker))
        ids += [each.transaction.transactional_id for each in listed]
    known: dict[int, DescribedTransaction] = {}
    for first in range(0, len(ids), DESCRIPTIONS_AT_ONCE_MAX):
        some = ids[first : first + DESCRIPTIONS_AT_ONCE_MAX]
        for described in await asyncio.gather(*(describe_if_known(brokers, each) for each in some)):
            if described is not None:
                known[described.producer_id] = described
    return known


async def abort_marker(brokers: Brokers, topic: str, partition: int, start_offset: int) -> TxnMarker:
    """What aborts the transaction which begins at ``start_offset``. Raises Failed: there is none."""
    producers = await producers_of(brokers, topic, partition, None)
    for each in producers:
        if each.current_txn_start_offset == start_offset:
            # Before its first marker a producer has no coordinator epoch (-1); 0 is never above a real one.
            coordinator_epoch = max(0, each.coordinator_epoch)
            return admins_marker(topic, partition, each.producer_id, each.producer_epoch, coordinator_epoch)
    found = sorted(each.current_txn_start_offset for each in producers if each.current_txn_start_offset >= 0)
    where = f"open ones start at {', '.join(map(str, found))}" if found else "no transaction is open there"
    raise Failed(f"no open transaction starts at offset {start_offset} of {topic}-{partition}: {where}")


def admins_marker(
    topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> TxnMarker:
    """An abort that no decision stands behind: it carries no image version."""
    return TxnMarker(
        producer_id,
        producer_epoch,
        False,
        ((topic, (partition,)),),
        coordinator_epoch,
    )


async def write_marker(brokers: Brokers, marker: TxnMarker) -> None:
    """Have the partition's leader write it. Raises ApiError. A repeated one ends nothing more."""
    topic, (partition,) = marker.topics[0]

    async def ask() -> None:
        answer = await brokers.ask_leader(topic, partition, WRITE_TXN_MARKERS, WriteTxnMarkers((marker,)))
        for _, topics in answer.markers:
            for name, results in topics:
                for index, code in results:
                    if code != ErrorCode.NONE:
                        raise error_for(code, f"{name}-{index} refuses the marker: {_refusal(code, marker)}")

    await brokers.with_retries(ask)


def _refusal(code: int, marker: TxnMarker) -> str:
    if code != ErrorCode.INVALID_TXN_STATE:
        return f"error {code}"
    return (
        f"the coordinator has a transaction of producer {marker.producer_id} open there, and will end it as "
        "it is decided; 'fencepost transactions list --producer-id' names it, 'force-terminate' ends it"
    )
