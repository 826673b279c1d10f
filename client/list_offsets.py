"""Offsets of partitions by time, from their leaders: the first, the last, and those of a time."""

import asyncio
from collections.abc import Mapping
from typing import Final

from fencepost.client.backoff import Backoff
from fencepost.client.errors import NotReachable, number_of, refused
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import LOST, Channel, Network
from fencepost.client.types import OffsetAndTimestamp, TopicPartition
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, OffsetFound, OffsetQuery
from fencepost.wire.requests import ApiError, ErrorCode

LEADERSHIP: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        78,  # OFFSET_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
    )
)
"""What another leader, or the same one later, answers otherwise."""


async def list_offsets(
    network: Network,
    metadata: ClusterMetadata,
    times_ms: Mapping[TopicPartition, int],
    *,
    isolation_level: int,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first record not older than a time (EARLIEST and LATEST: offset -1 is none).

    Raises NotReachable, UnknownTopic, Refused.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    left = dict(times_ms)
    backoff = Backoff(timeout_s, network.rng)
    while left:
        obstacle = "no leader"
        for topic in sorted({partition.topic for partition in left}):
            await metadata.await_topic(topic, backoff.left_s)
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in left:
            leader = metadata.leader(partition)
            if leader is not None:
                by_node.setdefault(leader.node_id, []).append(partition)
        calls = [_ask(network, node_id, rows, left, isolation_level) for node_id, rows in by_node.items()]
        for rows in await asyncio.gather(*calls):
            for row in rows:
                partition = TopicPartition(row.topic, row.index)
                if row.error_code == ErrorCode.NONE:
                    found[partition] = OffsetAndTimestamp(row.offset, row.timestamp_ms)
                    left.pop(partition, None)
                elif row.error_code not in LEADERSHIP:
                    raise refused(row.error_code, f"offsets of {partition}")
                else:
                    obstacle = f"{partition}: error {row.error_code}"
        if left:
            metadata.refresh_soon()
            if not await backoff.pause():
                raise NotReachable(f"no offsets of {len(left)} partitions in {timeout_s:.1f} s: {obstacle}")
    return found


async def _ask(
    network: Network,
    node_id: int,
    partitions: list[TopicPartition],
    times_ms: Mapping[TopicPartition, int],
    isolation_level: int,
) -> tuple[OffsetFound, ...]:
    queries = tuple(OffsetQuery(*each, times_ms[each]) for each in sorted(partitions))
    request = ListOffsets(queries, isolation_level=isolation_level)
    try:
        return (await network.call(node_id, Channel.CONTROL, LIST_OFFSETS, request)).partitions
    except LOST:
        return ()
    except ApiError as error:
        raise refused(number_of(error), f"ListOffsets: {error}") from error
