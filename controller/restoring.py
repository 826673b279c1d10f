"""Restoring: an image of the past becomes one that a cluster may go on from.

What was decided since the image was taken is forgotten, and its traces are in partition logs: producer ids,
epochs, markers, open transactions. Whatever the image says next must lie behind them.

Ids         the next block begins above every id that was found, and above ``skip_ids`` more: blocks that were
            given out and left no trace.
Versions    the image's is above that of every marker: a partition takes markers of newer versions only.
Epochs      of the controller, brokers, leaders, producers and groups are each above what was found.
Open        a transaction that the image or a log has open is aborted, on every partition where it is. One
            whose outcome the image has decided keeps it. One of which the image knows no id gets one.
Source      of the records: each concern's own decisions and replay.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from fencepost.controller import brokers, producer_ids, topics, voters
from fencepost.controller.groups import offset_tables
from fencepost.controller.groups import tables as groups
from fencepost.controller.groups.leaving import without
from fencepost.controller.transactions import states
from fencepost.controller.transactions.ending import records_of_end
from fencepost.controller.transactions.fencing import fenced_idle, fenced_open
from fencepost.controller.transactions.pairs import client_pair, has_two
from fencepost.controller.transactions.states import (
    EPOCH_MAX,
    PREPARED_STATES,
    TRANSACTIONS,
    FenceCause,
    State,
    Transaction,
)
from fencepost.controller.view import ImageHeader, MutableView
from fencepost.records.end_marker import EndMarker
from fencepost.records.transaction_log import TopicPartitions, TransactionStateRecord
from fencepost.records.types import (
    PRODUCER_ID_MAX,
    BrokerEpoch,
    ImageVersion,
    Log,
    NodeId,
    Offset,
    ProducerId,
    Term,
)

BY: Final = "snapshot restore"
FOUND_PREFIX: Final = "fencepost-restored-"
"""Of the transactional id that a transaction of an unknown one gets, behind it its producer id."""

FOUND_TIMEOUT_MS: Final = 60_000


class ProducerIdsEnd(Exception):
    """No producer id would be left."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What logs hold, whatever image they belong to."""

    producer_id_end: ProducerId = ProducerId(0)  # above all
    producer_epochs: Mapping[ProducerId, int] = {}  # the highest
    opened: Mapping[ProducerId, tuple[TopicPartitions, ...]] = {}
    last_versions: Mapping[ProducerId, ImageVersion] = {}  # of markers, where the producer has one open
    marker_version: ImageVersion = ImageVersion(0)  # the highest of all
    coordinator_epoch: Term = Term(0)  # the highest, of markers and of archived batches
    leader_epochs: Mapping[tuple[str, int], Term] = {}  # by topic and partition
    log_ends: tuple[int, int, int] = (0, 0, 0)  # of archives


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to an image."""

    producer_id_end_before: ProducerId
    producer_id_end: ProducerId
    controller_epoch: Term
    aborted: tuple[str, ...]  # transactional ids
    decided: tuple[str, ...]  # transactional ids whose outcome stays
    groups: int


def restore(
    view: MutableView, found: Found, *, skip_ids: int, directories: Mapping[NodeId, UUID], now_ms: int
) -> Restored:
    """Change an image as the module says; ``directories`` are the voters' directory ids from now on.

    Raises   ProducerIdsEnd; the view is not to be used then.
    """
    before = view.header
    epoch = Term(max(before.controller_epoch, found.coordinator_epoch) + 1)
    ends = [max(own, seen) + 1 for own, seen in zip(before.log_ends, found.log_ends, strict=True)]
    version = ImageVersion(max(before.version, found.marker_version) + 1)
    view.header = ImageHeader(version, epoch, before.leader_id, (ends[0], ends[1], ends[2]))
    first, end = _skip_ids(view, found, skip_ids)
    quorum = view.get(voters.QUORUM, 0) or voters.Quorum()
    bound = {int(node): directories[node] for node in sorted(directories)}
    view.put(voters.QUORUM, 0, msgspec.structs.replace(quorum, directories=bound))
    broker_epoch = BrokerEpoch(ends[Log.METADATA] - 1)  # of no registration: those before are lower
    for broker_id, broker in list(view.items(brokers.BROKERS)):
        view.put(brokers.BROKERS, broker_id, msgspec.structs.replace(broker, epoch=broker_epoch, fenced=True))
    _raise_leader_epochs(view, found)
    count = _empty_groups(view, now_ms)
    aborted, decided = _end_transactions(view, found, now_ms)
    return Restored(
        producer_id_end_before=first,
        producer_id_end=end,
        controller_epoch=epoch,
        aborted=aborted,
        decided=decided,
        groups=count,
    )


def _skip_ids(view: MutableView, found: Found, skip_ids: int) -> tuple[ProducerId, ProducerId]:
    """The end of the ids before and now. Raises ProducerIdsEnd."""
    latest = producer_ids.latest(view)
    end = max(latest.end, found.producer_id_end) + skip_ids
    if end > PRODUCER_ID_MAX:
        raise ProducerIdsEnd(f"producer ids would go on at {end}, the last one is {PRODUCER_ID_MAX}")
    given = producer_ids.ProducerIds(latest.broker_id, latest.broker_epoch, latest.end, ProducerId(end))
    if end > latest.end:
        view.put(producer_ids.PRODUCER_IDS, 0, given)
    return latest.end, ProducerId(end)


def _raise_leader_epochs(view: MutableView, found: Found) -> None:
    for (topic_id, index), partition in list(view.items(topics.PARTITIONS)):
        name = view.get(topics.TOPIC_NAMES, topic_id) or ""
        seen = found.leader_epochs.get((name, index), Term(0))
        raised = msgspec.structs.replace(partition, leader_epoch=max(partition.leader_epoch, seen) + 1)
        view.put(topics.PARTITIONS, (topic_id, index), raised)


def _empty_groups(view: MutableView, now_ms: int) -> int:
    """Every group has no member, and the next generation."""
    rows = list(view.items(groups.GROUPS))
    for group_id, row in rows:
        left = without(view, group_id, groups.member_ids(view, group_id), now_ms=now_ms)
        if left is None:
            raised = msgspec.structs.replace(row, generation=row.generation + 1, state_ms=now_ms)
            left = groups.record_of(group_id, raised, groups.members(view, group_id))
        groups.replay(view, left)
    return len(rows)


def _end_transactions(
    view: MutableView, found: Found, now_ms: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids whose transactions are aborted, and those whose outcome was decided."""
    aborted: list[str] = []
    decided: list[str] = []
    rest = dict(found.opened)
    for transactional_id, row in list(view.items(TRANSACTIONS)):
        raised = _raised(row, found)
        if row.state in PREPARED_STATES:
            if found.last_versions.get(row.producer_id, 0) < row.prepared_version:
                rest.pop(row.producer_id, None)  # its marker ends it
            _put_prepared(view, raised)
            decided.append(transactional_id)
            continue
        opened = rest.pop(row.producer_id, ())
        if row.state is State.ONGOING or opened:
            partitions = _joined(row.partitions if row.state is State.ONGOING else (), opened)
            _abort(view, msgspec.structs.replace(raised, partitions=partitions), now_ms)
            aborted.append(transactional_id)
        else:
            states.replay(view, states.record_of(fenced_idle(raised, FenceCause.NEW_INSTANCE, now_ms, BY)))
    for producer_id, opened in sorted(rest.items()):
        aborted.append(_abort_unknown(view, producer_id, opened, found, now_ms))
    return tuple(aborted), tuple(decided)


def _raised(row: Transaction, found: Found) -> Transaction:
    """The row with epochs that are no lower than those that were found."""
    raised = msgspec.structs.replace(
        row, producer_epoch=max(row.producer_epoch, found.producer_epochs.get(row.producer_id, 0))
    )
    if not has_two(row):
        return raised
    seen = found.producer_epochs.get(client_pair(row).producer_id, 0)
    return msgspec.structs.replace(raised, next_producer_epoch=max(row.next_producer_epoch, seen))


def _put_prepared(view: MutableView, row: Transaction) -> None:
    """The outcome stays, and its markers' version; no producer has the epoch any more."""
    past = msgspec.structs.replace(
        row, producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX), init_version=-1
    )
    if has_two(row):
        past = msgspec.structs.replace(past, next_producer_epoch=min(row.next_producer_epoch + 1, EPOCH_MAX))
    given = msgspec.structs.replace(past, instance_epoch=client_pair(past).epoch)
    view.put(TRANSACTIONS, row.transactional_id, given)


def _abort(view: MutableView, row: Transaction, now_ms: int) -> None:
    started_ms = row.started_ms if row.started_ms >= 0 else now_ms
    opened = msgspec.structs.replace(row, started_ms=started_ms)
    for record in records_of_end(view, fenced_open(opened, FenceCause.NEW_INSTANCE, now_ms, BY)):
        if isinstance(record, EndMarker):
            offset_tables.replay_end(view, record, Offset(view.header.log_end(Log.CONSUMER_OFFSETS) - 1))
        elif isinstance(record, TransactionStateRecord):
            states.replay(view, record)


def _abort_unknown(
    view: MutableView,
    producer_id: ProducerId,
    opened: tuple[TopicPartitions, ...],
    found: Found,
    now_ms: int,
) -> str:
    """A transaction that was begun since the image was taken is ended by an id of its own."""
    row = Transaction(
        transactional_id=f"{FOUND_PREFIX}{producer_id}",
        producer_id=producer_id,
        producer_epoch=found.producer_epochs.get(producer_id, 0),
        transaction_timeout_ms=FOUND_TIMEOUT_MS,
        state=State.EMPTY,
        updated_ms=now_ms,
    )
    states.replay(view, states.record_of(row))
    _abort(view, msgspec.structs.replace(row, partitions=opened), now_ms)
    return row.transactional_id


def _joined(
    one: tuple[TopicPartitions, ...], other: tuple[TopicPartitions, ...]
) -> tuple[TopicPartitions, ...]:
    partitions: dict[str, set[int]] = {}
    for each in (*one, *other):
        partitions.setdefault(each.topic, set()).update(each.partition_ids)
    return tuple(TopicPartitions(topic, tuple(sorted(partitions[topic]))) for topic in sorted(partitions))
