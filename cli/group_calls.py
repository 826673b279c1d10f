"""Requests of the commands to group coordinators, and to partition leaders for the ends of their logs.

Lists are requested from every broker, as Kafka's tools do: a broker that coordinates nothing has none.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from fencepost.cluster.brokers import Brokers
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.describe import DescribedGroup, DescribeGroups, ListedGroup, ListGroups
from fencepost.controller.groups.offset_messages import (
    NO_OFFSET,
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.wire.errors import error_for, raise_for
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE

QUERIES_MAX: Final = 2_000  # partitions in one ListOffsets: a broker takes 5,000 elements, topics included
NO_LEADER: Final = -1

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Described(NamedTuple):
    """A group, and where it is coordinated."""

    coordinator: str  # "host:port (id)"
    group: DescribedGroup


async def list_groups(brokers: Brokers, request: ListGroups) -> list[ListedGroup]:
    """By group id. Raises ApiError."""

    async def ask() -> list[ListedGroup]:
        nodes = sorted(await brokers.nodes())
        answers = await asyncio.gather(*(brokers.ask_node(each, LIST_GROUPS, request) for each in nodes))
        found = {each.group_id: each for answer in answers for each in answer.groups}
        return [found[group_id] for group_id in sorted(found)]

    return await brokers.with_retries(ask)


async def describe_groups(brokers: Brokers, group_ids: Iterable[str]) -> list[Described]:
    """In the order of the ids; one that is not known has the state Dead. Raises ApiError."""
    return [await describe_group(brokers, group_id) for group_id in group_ids]


async def describe_group(brokers: Brokers, group_id: str) -> Described:
    """A group that is not known has the state Dead. Raises ApiError."""
    request = DescribeGroups((group_id,))

    async def ask() -> tuple[int, DescribedGroup]:
        node_id, answer = await brokers.ask_group_coordinator(group_id, DESCRIBE_GROUPS, request)
        (group,) = answer.groups
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise_for(group.error_code, group.error_message or f"group {group_id}: {group.error_code.name}")
        return node_id, group

    node_id, group = await brokers.with_retries(ask)
    address = (await brokers.nodes()).get(node_id)
    return Described(f"{'-' if address is None else address} ({node_id})", group)


async def committed(brokers: Brokers, group_id: str) -> dict[Place, FetchedOffset]:
    """All offsets that the group has committed. Raises ApiError."""
    request = FetchOffsets((GroupQuery(group_id),))

    async def ask() -> tuple[FetchedOffset, ...]:
        _, answer = await brokers.ask_group_coordinator(group_id, OFFSET_FETCH, request)
        (group,) = answer.groups
        raise_for(group.code, f"group {group_id}: {group.code.name}")
        return group.offsets

    rows = await brokers.with_retries(ask)
    return {(each.topic, each.partition): each for each in rows if each.offset != NO_OFFSET}


async def partitions_of(brokers: Brokers, topics: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The partitions of those topics that there are."""
    known = await brokers.known_topics(topics)
    return {
        name: tuple(sorted(each.partition_index for each in topic.partitions))
        for name, topic in known.items()
    }


async def offsets_at(brokers: Brokers, times: Mapping[Place, int]) -> dict[Place, int]:
    """The offset at each partition's time: LATEST, EARLIEST, or milliseconds, where -1 is past the end.

    A partition that is not there, or that has no leader, is left out. Raises ApiError.
    """

    async def ask() -> dict[Place, int]:
        known = await brokers.known_topics(topic for topic, _ in times)
        leaders = {
            (name, each.partition_index): each.leader_id
            for name, topic in known.items()
            for each in topic.partitions
        }
        by_leader: dict[int, list[OffsetQuery]] = defaultdict(list)
        for place, time_ms in sorted(times.items()):
            if leaders.get(place, NO_LEADER) != NO_LEADER:
                by_leader[leaders[place]].append(OffsetQuery(*place, time_ms))
        found: dict[Place, int] = {}
        for leader, queries in by_leader.items():
            for first in range(0, len(queries), QUERIES_MAX):
                request = ListOffsets(tuple(queries[first : first + QUERIES_MAX]))
                rows = (await brokers.ask_node(leader, LIST_OFFSETS, request)).partitions
                found |= {(row.topic, row.index): row.offset for row in rows if row.error_code == 0}
        return found

    return await brokers.with_retries(ask)


async def commit(brokers: Brokers, group_id: str, offsets: Mapping[Place, int]) -> None:
    """Commit as no member does. Raises ApiError: of the first partition that is refused."""
    rows = tuple(OffsetToCommit(topic, index, offset) for (topic, index), offset in sorted(offsets.items()))
    request = CommitOffsets(group_id, rows)

    async def ask() -> None:
        _, answer = await brokers.ask_group_coordinator(group_id, OFFSET_COMMIT, request)
        for each in answer.rows:
            raise_for(each.code, f"{each.topic}-{each.partition} of group {group_id}: {each.code.name}")

    await brokers.with_retries(ask)


async def delete_group(brokers: Brokers, group_id: str) -> ApiError | None:
    """Why it could not be deleted, or None."""
    request = DeleteGroups((group_id,))

    async def ask() -> None:
        _, answer = await brokers.ask_group_coordinator(group_id, DELETE_GROUPS, request)
        ((_, code),) = answer.results
        raise_for(code, code.name)

    try:
        await brokers.with_retries(ask)
    except ApiError as error:
        return error
    return None


async def delete_offsets(
    brokers: Brokers, group_id: str, places: Iterable[Place]
) -> dict[Place, ApiError | None]:
    """For each partition why its offset could not be deleted, or None. Raises ApiError: of the group."""
    request = DeleteOffsets(group_id, tuple(sorted(places)))
    _, answer = await brokers.with_retries(
        lambda: brokers.ask_group_coordinator(group_id, OFFSET_DELETE, request)
    )
    return {
        (each.topic, each.partition): error_for(each.code, each.code.name) if each.code else None
        for each in answer.rows
    }
