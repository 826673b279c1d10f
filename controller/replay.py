"""Apply: the one place where the log changes the image.

Deterministic: every node answers the same for the same log prefix (I3, I5).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from fencepost.controller import brokers, features, migration, producer_ids, topics, voters
from fencepost.controller.transactions import states as transactions
from fencepost.controller.view import ImageHeader, MutableView
from fencepost.records.control import KRaftVersion, LeaderChange, SnapshotFooter, SnapshotHeader, Voters
from fencepost.records.entry import Entry, LoggedBatch
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import ImageVersion


def _nothing(view: MutableView, record: object) -> None:
    """The record says something to readers of the log and nothing to the image."""


REPLAY: Final[dict[type, Callable[[MutableView, Any], None]]] = {
    AllocateProducerIdsRecord: producer_ids.replay,
    BrokerRegistrationChangeRecord: brokers.replay_change,
    ConfigRecord: topics.replay_config,
    FeatureLevelRecord: features.replay,
    NoOpRecord: _nothing,
    PartitionRecord: topics.replay_partition,
    RegisterBrokerRecord: brokers.replay_register,
    RemoveTopicRecord: topics.replay_remove,
    TopicRecord: topics.replay_topic,
    UnregisterBrokerRecord: brokers.replay_unregister,
    ZkMigrationStateRecord: migration.replay,
    TransactionForgotten: transactions.replay_forgotten,
    TransactionStateRecord: transactions.replay,
    KRaftVersion: voters.replay_kraft_version,
    LeaderChange: _nothing,  # its epoch and leader move with the header
    SnapshotFooter: _nothing,
    SnapshotHeader: _nothing,
    Voters: voters.replay_voters,
}


class Applied(msgspec.Struct, frozen=True):
    """The entry took effect. ``before`` is the header it applied to: where its records lie."""

    before: ImageHeader
    version: ImageVersion


class Superseded(msgspec.Struct, frozen=True):
    """The entry changed nothing: another decision took its place, or its leader was deposed."""

    version: ImageVersion


def apply(
    view: MutableView, entry: Entry, batches: Sequence[LoggedBatch], *, replayed: bool = False
) -> Applied | Superseded:
    """Apply a committed entry, or find it superseded.

    ``replayed``: the view is the very overlay on which the entry was decided, so its records are in
    it already; the fence decides whether they count.

    The test does three jobs. It fences an entry decided by a deposed leader, it keeps two
    concurrent decisions from both winning, and it makes a second apply of the same entry
    after a restart a no-op (a version is never reused). A LeaderChange needs only a higher
    epoch, so it is never superseded forever.
    """
    before = view.header
    leader_id = before.leader_id
    if _changes_leader(batches):
        if entry.controller_epoch <= before.controller_epoch:
            return Superseded(before.version)
        leader_id = entry.proposer
    elif (entry.base_version, entry.controller_epoch) != (before.version, before.controller_epoch):
        return Superseded(before.version)
    ends = list(before.log_ends)
    for batch in batches:
        if not replayed:
            replay_records(view, batch.records)
        ends[batch.log] += batch.count
    version = ImageVersion(before.version + 1)
    view.header = ImageHeader(version, entry.controller_epoch, leader_id, (ends[0], ends[1], ends[2]))
    return Applied(before, version)


def replay_record(view: MutableView, record: object) -> None:
    """Replay one record. An unknown type is our bug: the log holds only what we wrote."""
    replay_records(view, (record,))


def replay_records(view: MutableView, records: Iterable[object]) -> None:
    """Replay records, in their order."""
    for record in records:
        replay = REPLAY.get(type(record))
        if replay is None:
            raise InvariantViolation(f"no replay for {type(record).__name__}")
        replay(view, record)


def _changes_leader(batches: Sequence[LoggedBatch]) -> bool:
    return bool(batches) and batches[0].control and isinstance(batches[0].records[0], LeaderChange)
