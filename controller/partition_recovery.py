"""A partition whose log is lost is started again, empty, when an operator accepts the loss.

Epoch       a new leader epoch: its broker makes a log only in a leader epoch in which it has made none.
Start       the log begins at an offset that the operator's command found to be above all that is committed,
            never below an earlier start, nor below the end that its broker reported last
            (partition_reports.py). Consumers behind it are out of range, none skips new records.
Directory   the partition is placed anew, in the directory that its broker has registered now.
Source      Kafka has no such command: unclean leader election, PartitionChangeRecord.
"""

from typing import Final

import msgspec

from fencepost.controller import cluster_version, levels
from fencepost.controller.brokers import BROKERS
from fencepost.controller.decision import Decision
from fencepost.controller.errors import InvalidRequest
from fencepost.controller.topics import (
    OFFLINE_PARTITIONS,
    PARTITION_ENDS,
    PARTITIONS,
    STARTED_AT,
    find,
    find_by_id,
)
from fencepost.controller.view import MutableView, View
from fencepost.records.invariant import invariant
from fencepost.records.schema import PartitionChangeRecord
from fencepost.records.types import BrokerId

START_OFFSET_MAX: Final = 2**62
"""Above what any log reaches, and far from where an offset no longer fits."""


class RecoverPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Start a partition again, at ``start_offset`` or higher; ``dry_run``: only say where. API key 20043."""

    topic: str
    partition: int
    start_offset: int
    dry_run: bool = False


class PartitionRecovered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The partition's new leader epoch, and where its log begins. ``reported_end``: -1 if none was."""

    leader_epoch: int
    start_offset: int
    reported_end: int = -1


def decide_recover(view: View, request: RecoverPartition) -> Decision[PartitionRecovered]:
    """Raises UnsupportedVersion, InvalidRequest: no such partition, its broker is away, the offset."""
    levels.require_partition_recovery(view)
    topic = find(view, request.topic)
    if topic is None or not 0 <= request.partition < topic.partition_count:
        raise InvalidRequest(f"there is no partition {request.topic[:249]}-{request.partition}")
    key = (topic.topic_id, request.partition)
    kept = view.get(PARTITIONS, key)
    broker = None if kept is None or kept.leader < 0 else view.get(BROKERS, BrokerId(kept.leader))
    if kept is None or broker is None or broker.fenced:
        raise InvalidRequest(
            f"the broker of {request.topic}-{request.partition} is fenced or not registered: start it first; "
            "it may have the log"
        )
    if not 0 <= request.start_offset <= START_OFFSET_MAX:
        raise InvalidRequest(f"start offset {request.start_offset}: expected 0 to {START_OFFSET_MAX}")
    before, _ = view.get(STARTED_AT, key) or (0, 0)
    reported = view.get(PARTITION_ENDS, key)
    start = max(request.start_offset, before, reported or 0)
    record = PartitionChangeRecord(
        partition_id=request.partition,
        topic_id=topic.topic_id,
        leader=kept.leader,
        directories=(broker.directory_id,),
        start_offset=start,
    )
    recovered = PartitionRecovered(kept.leader_epoch + 1, start, -1 if reported is None else reported)
    return Decision(() if request.dry_run else (record,), recovered)


def replay(view: MutableView, record: PartitionChangeRecord) -> None:
    """Total. A leader that is named begins a new leader epoch, as in Kafka."""
    cluster_version.advance(view)
    topic = find_by_id(view, record.topic_id)
    key = (record.topic_id, record.partition_id)
    kept = None if topic is None or record.partition_id < 0 else view.get(PARTITIONS, key)
    if kept is None:
        invariant(False, "a change of a partition that does not exist", record=record)
        return
    if record.leader != _AS_BEFORE:
        kept = msgspec.structs.replace(kept, leader=record.leader, leader_epoch=kept.leader_epoch + 1)
        if view.get(OFFLINE_PARTITIONS, key) is not None:
            view.delete(OFFLINE_PARTITIONS, key)
    if record.directories:
        kept = msgspec.structs.replace(kept, directories=record.directories)
    view.put(PARTITIONS, key, kept)
    if record.start_offset >= 0:
        view.put(STARTED_AT, key, (record.start_offset, kept.leader_epoch))


_AS_BEFORE: Final = -2
