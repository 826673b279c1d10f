"""What brokers report of their partitions: the end of each log, and which logs are offline.

End         the highest that was ever reported: where a partition whose log is lost begins anew, at least
            (partition_recovery.py). Kept at most once a minute for each registration: a lower bound.
Offline     in one registration of its broker: the next one has opened its logs anew. Kept at once.
Record      BrokerRegistrationChangeRecord, with the reports in a tag of ours. It changes no registration.
Source      Kafka names whole directories (KIP-858, OfflineLogDirs), as its controllers know which replica is
            in which. Here the broker names the partitions, those that are damaged too.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final

from fencepost.controller import brokers, cluster_version, levels
from fencepost.controller.brokers import BROKERS, Heartbeat
from fencepost.controller.topics import OFFLINE_PARTITIONS, PARTITION_ENDS, PARTITIONS, Partition
from fencepost.controller.view import MutableView, View
from fencepost.records.partition_report import OFFLINE, PartitionReport, decode_reports, encode_reports
from fencepost.records.schema import BrokerRegistrationChangeRecord
from fencepost.records.types import BrokerEpoch, BrokerId

ENDS_MS_MIN: Final = 60_000
"""Between two records with ends of one registration: with 1,000 brokers that is 17 records a second."""

END_MAX: Final = 2**62
"""Above what any log reaches, and far from where an offset no longer fits."""


@dataclass(slots=True)
class EndTimes:
    """When ends of each registration were kept last, in milliseconds of this leadership's clock."""

    _kept_ms: dict[BrokerId, tuple[BrokerEpoch, int]] = field(default_factory=dict)

    def are_due(self, request: Heartbeat, now_ms: int) -> bool:
        """A minute has passed, or this registration has reported none yet, or its broker leaves."""
        kept = self._kept_ms.get(request.broker_id)
        if kept is None or kept[0] != request.broker_epoch:
            return True
        return request.want_shut_down or now_ms - kept[1] >= ENDS_MS_MIN

    def note(self, request: Heartbeat, now_ms: int) -> None:
        """Ends of this registration were kept."""
        self._kept_ms[request.broker_id] = request.broker_epoch, now_ms


def records_of(
    view: View, request: Heartbeat, *, ends_are_due: bool
) -> tuple[BrokerRegistrationChangeRecord, ...]:
    """One record of what is new in a heartbeat's reports, or none. Its epoch has been looked at."""
    if not request.reports or not levels.keeps_partition_reports(view):
        return ()
    new = [each for each in request.reports if _is_new(view, request, each, ends_are_due=ends_are_due)]
    if not new:
        return ()
    return (
        BrokerRegistrationChangeRecord(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            partition_reports=encode_reports(new),
        ),
    )


def is_offline(view: View, key: tuple[uuid.UUID, int], kept: Partition) -> bool:
    """The broker of the partition has reported, in its present registration, that the log is offline."""
    epoch = view.get(OFFLINE_PARTITIONS, key)
    if epoch is None:
        return False
    broker = view.get(BROKERS, BrokerId(kept.leader))
    return broker is not None and broker.epoch == epoch


def replay_change(view: MutableView, record: BrokerRegistrationChangeRecord) -> None:
    """Total. Partitions that are gone meanwhile are passed over."""
    brokers.replay_change(view, record)
    moved = False
    for topic_id, index, end in decode_reports(record.partition_reports):
        key = (topic_id, index)
        if index < 0 or view.get(PARTITIONS, key) is None:
            continue
        before = view.get(OFFLINE_PARTITIONS, key)
        if end == OFFLINE:
            view.put(OFFLINE_PARTITIONS, key, record.broker_epoch)
            moved = moved or before != record.broker_epoch
            continue
        if before is not None:
            view.delete(OFFLINE_PARTITIONS, key)
            moved = True
        view.put(PARTITION_ENDS, key, max(end, view.get(PARTITION_ENDS, key) or 0))
    if moved:
        cluster_version.advance(view)


def _is_new(view: View, request: Heartbeat, report: PartitionReport, *, ends_are_due: bool) -> bool:
    if report.partition < 0 or not OFFLINE <= report.end <= END_MAX:
        return False
    key = (report.topic_id, report.partition)
    kept = view.get(PARTITIONS, key)
    if kept is None or kept.leader != request.broker_id:
        return False
    offline_in = view.get(OFFLINE_PARTITIONS, key)
    if report.end == OFFLINE:
        return offline_in != request.broker_epoch
    if offline_in is not None:
        return True
    return ends_are_due and report.end > (view.get(PARTITION_ENDS, key) or 0)
