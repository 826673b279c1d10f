"""Metadata says where a partition that was lost starts again, in a tag that clients skip."""

import pytest

from fencepost.wire.k03_metadata import METADATA, MetadataAnswer, PartitionMetadata, TopicMetadata

PLAIN = PartitionMetadata(partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=(1,), isr_nodes=(1,))
AGAIN = PartitionMetadata(
    partition_index=1, leader_id=1, leader_epoch=3, replica_nodes=(1,), isr_nodes=(1,), start_offset=500
)
AT_ZERO = PartitionMetadata(
    partition_index=2, leader_id=1, leader_epoch=3, replica_nodes=(1,), isr_nodes=(1,), start_offset=0
)


def answer(*partitions: PartitionMetadata) -> MetadataAnswer:
    return MetadataAnswer(cluster_id="c", topics=(TopicMetadata(name="orders", partitions=partitions),))


@pytest.mark.parametrize("version", METADATA.versions)
def test_the_start_travels_where_tags_do(version: int) -> None:
    sent = answer(PLAIN, AGAIN, AT_ZERO, PLAIN)
    read = METADATA.decode_response(version, METADATA.encode_response(version, sent, 0))
    starts = [each.start_offset for each in read.topics[0].partitions]
    assert starts == ([-1, 500, 0, -1] if version >= 9 else [-1] * 4)


def test_it_takes_eleven_bytes_where_it_is_and_none_elsewhere() -> None:
    body = METADATA.encode_response(12, answer(AGAIN), 0)
    without = METADATA.encode_response(12, answer(PLAIN), 0)
    assert len(body) == len(without) + 11
