"""The requests that add partitions and offsets to a transaction."""

from collections.abc import Iterable, Mapping

from fencepost.client.batches import ProducerIdentity
from fencepost.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from fencepost.records.types import ProducerId
from fencepost.wire.cursor import grouped
from fencepost.wire.requests import (
    AddPartitions,
    AddPartitionsToTxn,
    CommitTransactionOffsets,
    Identity,
    OffsetToCommit,
    TopicPartitions,
)


def additions(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxn:
    """``partitions`` as one request of one transaction, grouped by topic."""
    topics = grouped(partitions, lambda each: each.topic)
    transaction = AddPartitions(
        transactional_id,
        ProducerId(identity.producer_id),
        identity.epoch,
        tuple(
            TopicPartitions(topic, tuple(each.partition for each in rows)) for topic, rows in topics.items()
        ),
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
