"""The requests for a pair, and those that add partitions and offsets to a transaction."""

from collections.abc import Iterable, Mapping

from fencepost.client.batches import ProducerIdentity
from fencepost.client.types import GroupAssignment, GroupMetadata, OffsetAndMetadata, TopicPartition
from fencepost.records.types import ProducerId
from fencepost.wire.cursor import grouped
from fencepost.wire.requests import (
    AddPartitions,
    AddPartitionsToTxn,
    CommitTransactionOffsets,
    Identity,
    InitProducerId,
    MemberAssignment,
    OffsetToCommit,
    TopicPartitions,
)


def pair_request(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupAssignment | None = None,
    *,
    timeout_ms: int,
    two_phase: bool,
    keeps: bool,
) -> InitProducerId:
    """InitProducerId. Without a name the coordinator makes one, for what ``group`` was assigned."""
    return InitProducerId(
        transactional_id or None,
        timeout_ms,
        ProducerId(identity.producer_id),
        identity.epoch,
        enables_two_phase=two_phase,
        keeps_prepared=keeps,
        member=None if group is None else _member(group),
    )


def _member(assignment: GroupAssignment) -> MemberAssignment:
    member = assignment.member
    return MemberAssignment(
        member.group_id,
        member.generation,
        _by_topic(assignment.partitions),
        member.member_id,
        member.instance_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    topics = grouped(partitions, lambda each: each.topic)
    return tuple(
        TopicPartitions(topic, tuple(each.partition for each in rows)) for topic, rows in topics.items()
    )


def additions(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxn:
    """``partitions`` as one request of one transaction, grouped by topic."""
    transaction = AddPartitions(
        transactional_id,
        ProducerId(identity.producer_id),
        identity.epoch,
        _by_topic(partitions),
    )
    return AddPartitionsToTxn((transaction,))


def offsets_to_commit(
    transactional_id: str,
    identity: ProducerIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
    *,
    adds_offsets: bool,
) -> CommitTransactionOffsets:
    """``offsets`` of ``group``, presented with its member's identity. ``adds_offsets``: transactions V2."""
    return CommitTransactionOffsets(
        transactional_id,
        group.group_id,
        ProducerId(identity.producer_id),
        identity.epoch,
        tuple(
            OffsetToCommit(*partition, offset.offset, offset.leader_epoch, offset.metadata)
            for partition, offset in sorted(offsets.items())
        ),
        Identity(group.member_id, group.instance_id, group.generation),
        adds_offsets=adds_offsets,
    )
