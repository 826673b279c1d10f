"""Apply: the one place where the log changes the image.

Deterministic: every node answers the same for the same log prefix (I3, I5).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from fencepost.controller import (
    acls,
    broker_configs,
    brokers,
    features,
    migration,
    partition_recovery,
    partition_reports,
    producer_ids,
    scram,
    topics,
    voters,
)
from fencepost.controller.groups import offset_tables as offsets
from fencepost.controller.groups import tables as groups
from fencepost.controller.transactions import states as transactions
from fencepost.controller.view import ImageHeader, MutableView
from fencepost.records.control import KRaftVersion, LeaderChange, SnapshotFooter, SnapshotHeader, Voters
from fencepost.records.end_marker import EndMarker
from fencepost.records.entry import Entry, LoggedBatch
from fencepost.records.group_log import UnknownGroupRecord
from fencepost.records.group_metadata import GroupForgotten, GroupMetadata
from fencepost.records.invariant import InvariantViolation
from fencepost.records.offset_commit import OffsetCommitRecord, OffsetForgotten
from fencepost.records.schema import (
    AccessControlEntryRecord,
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import ImageVersion, Offset


def _nothing(view: MutableView, record: object) -> None:
    """The record says something to readers of the log and nothing to the image."""


def _nothing_at(view: MutableView, record: object, offset: Offset) -> None:
    """As ``_nothing``, of a record of ``__consumer_offsets``."""


def _replay_config(view: MutableView, record: ConfigRecord) -> None:
    if record.resource_type == broker_configs.BROKER_RESOURCE:
        broker_configs.replay(view, record)
    else:
        topics.replay_config(view, record)


REPLAY: Final[dict[type, Callable[[MutableView, Any], None]]] = {
    AccessControlEntryRecord: acls.replay,
    AllocateProducerIdsRecord: producer_ids.replay,
    BrokerRegistrationChangeRecord: partition_reports.replay_change,
    ConfigRecord: _replay_config,
    FeatureLevelRecord: features.replay,
    NoOpRecord: _nothing,
    PartitionChangeRecord: partition_recovery.replay,
    PartitionRecord: topics.replay_partition,
    RegisterBrokerRecord: brokers.replay_register,
    RemoveAccessControlEntryRecord: acls.replay_remove,
    RemoveTopicRecord: topics.replay_remove,
    RemoveUserScramCredentialRecord: scram.replay_remove,
    TopicRecord: topics.replay_topic,
    UnregisterBrokerRecord: brokers.replay_unregister,
    UserScramCredentialRecord: scram.replay,
    ZkMigrationStateRecord: migration.replay,
    TransactionForgotten: transactions.replay_forgotten,
    TransactionStateRecord: transactions.replay,
    KRaftVersion: voters.replay_kraft_version,
    LeaderChange: _nothing,  # its epoch and leader move with the header
    SnapshotFooter: _nothing,
    SnapshotHeader: _nothing,
    Voters: voters.replay_voters,
}


REPLAY_AT: Final[dict[type, Callable[[MutableView, Any, Offset], None]]] = {
    EndMarker: offsets.replay_end,
    GroupForgotten: groups.replay_forgotten,
    GroupMetadata: groups.replay,
    OffsetCommitRecord: offsets.replay,
    OffsetForgotten: offsets.replay_forgotten,
    UnknownGroupRecord: _nothing_at,
}
"""Of the records of ``__consumer_offsets``, which are given their own offset, too."""


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
            replay_records(view, batch.records, ends[batch.log])
        ends[batch.log] += batch.count
    version = ImageVersion(before.version + 1)
    view.header = ImageHeader(version, entry.controller_epoch, leader_id, (ends[0], ends[1], ends[2]))
    return Applied(before, version)


def replay_record(view: MutableView, record: object, offset: int = 0) -> None:
    """Replay one record. An unknown type is our bug: the log holds only what we wrote."""
    replay_records(view, (record,), offset)


def replay_records(view: MutableView, records: Iterable[object], first: int = 0) -> None:
    """Replay records, in their order.

    ``first``: the offset of the first of them that is of ``__consumer_offsets``.
    """
    for record in records:
        replay = REPLAY.get(type(record))
        if replay is not None:
            replay(view, record)
            continue
        replay_at = REPLAY_AT.get(type(record))
        if replay_at is None:
            raise InvariantViolation(f"no replay for {type(record).__name__}")
        replay_at(view, record, Offset(first))
        first += 1


def _changes_leader(batches: Sequence[LoggedBatch]) -> bool:
    if not batches or not batches[0].control:
        return False
    records = batches[0].records  # empty where this version knows none of them
    return bool(records) and isinstance(records[0], LeaderChange)
