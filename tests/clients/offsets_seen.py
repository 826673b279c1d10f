"""What a coordinator of groups answers, read by kio's schemas: our node, or a broker of Apache Kafka."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kio.schema.describe_groups.v4.request import DescribeGroupsRequest
from kio.schema.list_groups.v3.request import ListGroupsRequest
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from tests.processes.raw_client import RawClient

UNSTABLE: Final = 88

Key = tuple[str, str, int]
"""Group, topic, partition."""


class Offset(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str


class Member(NamedTuple):
    """A member of a group, with the bytes that it sent and got."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: bytes
    assignment: bytes


class Group(NamedTuple):
    """A group, its members by id."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[Member, ...]


class Seen(NamedTuple):
    """All groups, their committed offsets, and the partitions at which a reader waits for a transaction."""

    groups: dict[str, Group]
    committed: dict[Key, Offset]
    waiting: frozenset[Key]


def see(address: tuple[str, int], topic: str, partitions: Iterable[int]) -> Seen:
    """What this coordinator knows. ``waiting`` is of the partitions of one topic."""
    with RawClient(address) as client:
        listed = client.call(ListGroupsRequest())
        assert int(listed.error_code) == 0, listed
        groups = {str(each.group_id): _group(client, str(each.group_id)) for each in listed.groups}
        committed: dict[Key, Offset] = {}
        waiting: set[Key] = set()
        for name in groups:
            answer = client.call(OffsetFetchRequest(group_id=GroupId(name), topics=None))
            assert int(answer.error_code) == 0, answer
            for of_topic in answer.topics:
                for each in of_topic.partitions:
                    assert int(each.error_code) == 0, each
                    key = (name, str(of_topic.name), int(each.partition_index))
                    committed[key] = Offset(
                        int(each.committed_offset), int(each.committed_leader_epoch), each.metadata or ""
                    )
            waiting |= {(name, topic, each) for each in _waiting(client, name, topic, partitions)}
    return Seen(groups, committed, frozenset(waiting))


def _group(client: RawClient, name: str) -> Group:
    request = DescribeGroupsRequest(groups=(GroupId(name),), include_authorized_operations=False)
    (group,) = client.call(request).groups
    assert int(group.error_code) == 0, group
    members = (
        Member(
            each.member_id, each.group_instance_id, each.client_id, each.client_host,
            each.member_metadata, each.member_assignment,
        )
        for each in group.members
    )  # fmt: skip
    return Group(group.group_state, group.protocol_type, group.protocol_data, tuple(sorted(members)))


def _waiting(client: RawClient, name: str, topic: str, partitions: Iterable[int]) -> list[int]:
    wanted = OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, partitions)))
    request = OffsetFetchRequest(group_id=GroupId(name), topics=(wanted,), require_stable=True)
    (answer,) = client.call(request).topics
    return [int(each.partition_index) for each in answer.partitions if int(each.error_code) == UNSTABLE]
