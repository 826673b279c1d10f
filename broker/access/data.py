"""Guards of requests that read and write partitions: each topic on its own.

By id       a topic that is requested by its id is checked by its name. One without a name here is checked
            when it is answered: the endpoint may have found it meanwhile.
Parked      what waited while ACLs changed is checked again before it is answered.
"""

import dataclasses
from typing import Any, Final

import msgspec

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import mapped, remembered, split
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ErrorCode
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k00_produce import PartitionProduced, Produce, ProduceAnswer
from fencepost.wire.k01_fetch import Fetch, FetchAnswer, FetchedPartition, FetchPartition
from fencepost.wire.k02_list_offsets import ListOffsets, ListOffsetsAnswer, OffsetFound
from fencepost.wire.k21_delete_records import DeleteRecords, DeleteRecordsAnswer, RecordsDeleted
from fencepost.wire.k23_offset_for_leader_epoch import (
    EpochEnd,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochAnswer,
)
from fencepost.wire.k61_describe_producers import (
    DescribeProducers,
    DescribeProducersAnswer,
    EncodedAnswer,
    EncodedPartition,
    PartitionProducers,
)

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_WRITE, _TOPIC, _ID = Operation.WRITE, ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
# Python looks a member of an enum up by a call: too much for what each transaction does several times.


def produce(
    door: Door, endpoint: Endpoint[Any, Any], request: Produce, context: Context, reply: Reply[ProduceAnswer]
) -> None:
    """WRITE on the transactional id, if it has one, and on each topic."""
    if request.transactional_id is not None:
        door.require_transactional_id(context, Operation.WRITE, request.transactional_id)
    may_write = remembered(door, context, Operation.WRITE)
    allowed, denied = split(request.partitions, lambda each: may_write(each.topic))
    if not denied:
        endpoint(request, context, reply)
        return
    refused = tuple(PartitionProduced(each.topic, each.index, DENIED) for each in denied)
    if not allowed:
        reply(ProduceAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: ProduceAnswer(answer.partitions + refused))
    endpoint(msgspec.structs.replace(request, partitions=allowed), context, with_refused)


def may_produce(door: Door, request: Produce, context: Context) -> bool:
    """Of ``produce``: see ``guard.Sure``."""
    transactional_id, last = request.transactional_id, None
    if transactional_id is not None and not door.is_remembered(context, _WRITE, _ID, transactional_id):
        return False
    for each in request.partitions:
        if each.topic != last:
            last = each.topic
            if not door.is_remembered(context, _WRITE, _TOPIC, last):
                return False
    return True


def fetch(
    door: Door, endpoint: Endpoint[Any, Any], request: Fetch, context: Context, reply: Reply[FetchAnswer]
) -> None:
    """READ on each topic; of a follower CLUSTER_ACTION."""
    if request.replica_id >= 0 and not door.allows_cluster(context, Operation.CLUSTER_ACTION):
        reply(FetchAnswer(partitions=tuple(_unread(each) for each in request.partitions)))
        return
    if request.replica_id >= 0:
        endpoint(request, context, reply)
        return
    may_read = remembered(door, context, Operation.READ)
    unnamed = False

    def may_be_read(each: FetchPartition) -> bool:
        nonlocal unnamed
        name = _name(door, each)
        unnamed = unnamed or name is None
        return name is None or may_read(name)

    allowed, denied = split(request.partitions, may_be_read)
    refused = tuple(_unread(each) for each in denied)
    if denied and not allowed:
        reply(FetchAnswer(partitions=refused))
        return
    changes, was_unnamed = door.changes, unnamed

    def shown(answer: FetchAnswer) -> FetchAnswer:
        found = answer.partitions
        if was_unnamed or door.changes != changes:
            found = tuple(_checked(door, context, each) for each in found)
        return dataclasses.replace(answer, partitions=found + refused)

    endpoint(dataclasses.replace(request, partitions=allowed), context, mapped(reply, shown))


def _name(door: Door, each: FetchPartition | FetchedPartition) -> str | None:
    if each.topic is not None:
        return each.topic
    return None if each.topic_id is None else door.topic_name(each.topic_id)


def _checked(door: Door, context: Context, each: FetchedPartition) -> FetchedPartition:
    name = _name(door, each)
    if name is None:
        return each if each.error_code != ErrorCode.NONE else _unread(each)
    return each if door.allows_topic(context, Operation.READ, name) else _unread(each)


def _unread(each: FetchPartition | FetchedPartition) -> FetchedPartition:
    return FetchedPartition(each.topic, each.topic_id, each.index, DENIED)


def list_offsets(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: ListOffsets,
    context: Context,
    reply: Reply[ListOffsetsAnswer],
) -> None:
    """DESCRIBE on each topic."""
    may_see = remembered(door, context, Operation.DESCRIBE)
    allowed, denied = split(request.partitions, lambda each: may_see(each.topic))
    refused = tuple(OffsetFound(each.topic, each.index, DENIED) for each in denied)
    if denied and not allowed:
        reply(ListOffsetsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: ListOffsetsAnswer(answer.partitions + refused))
    endpoint(dataclasses.replace(request, partitions=allowed), context, with_refused)


def offset_for_leader_epoch(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: OffsetForLeaderEpoch,
    context: Context,
    reply: Reply[OffsetForLeaderEpochAnswer],
) -> None:
    """CLUSTER_ACTION, or DESCRIBE on each topic."""
    if door.allows_cluster(context, Operation.CLUSTER_ACTION):
        endpoint(request, context, reply)
        return
    may_see = remembered(door, context, Operation.DESCRIBE)
    allowed, denied = split(request.partitions, lambda each: may_see(each.topic))
    refused = tuple(EpochEnd(each.topic, each.index, DENIED) for each in denied)
    if denied and not allowed:
        reply(OffsetForLeaderEpochAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: OffsetForLeaderEpochAnswer(answer.partitions + refused))
    endpoint(dataclasses.replace(request, partitions=allowed), context, with_refused)


def delete_records(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DeleteRecords,
    context: Context,
    reply: Reply[DeleteRecordsAnswer],
) -> None:
    """DELETE on each topic."""
    may_delete = remembered(door, context, Operation.DELETE)
    allowed, denied = split(request.partitions, lambda each: may_delete(each.topic))
    refused = tuple(RecordsDeleted(each.topic, each.index, DENIED) for each in denied)
    if denied and not allowed:
        reply(DeleteRecordsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: DeleteRecordsAnswer(answer.partitions + refused))
    endpoint(dataclasses.replace(request, partitions=allowed), context, with_refused)


def describe_producers(
    door: Door, endpoint: Endpoint[Any, Any], request: DescribeProducers, context: Context, reply: Reply[Any]
) -> None:
    """READ on each topic."""
    may_read = remembered(door, context, Operation.READ)
    allowed, denied = split(request.topics, lambda each: may_read(each[0]))
    if denied and not allowed:
        rows = (PartitionProducers(topic, each, DENIED) for topic, indexes in denied for each in indexes)
        reply(DescribeProducersAnswer(tuple(rows)))
        return

    def shown(answer: EncodedAnswer | DescribeProducersAnswer) -> EncodedAnswer | DescribeProducersAnswer:
        kind = EncodedPartition if isinstance(answer, EncodedAnswer) else PartitionProducers
        rows = (kind(topic, each, DENIED) for topic, indexes in denied for each in indexes)
        partitions: Any = (*answer.partitions, *rows)
        return type(answer)(partitions)

    endpoint(DescribeProducers(allowed), context, mapped(reply, shown))
