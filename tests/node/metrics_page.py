"""Prints the table of docs/metrics.md: ``python -m tests.node.metrics_page``."""

from collections.abc import Iterator
from typing import Final

import click
from prometheus_client import CollectorRegistry

from fencepost.node.metrics import NodeMetrics

_RAFT: Final = "kafka.server:type=raft-metrics"
_GROUPS: Final = "kafka.server:type=group-coordinator-metrics"
_STATES: Final = "kafka.coordinator.group:type=GroupMetadataManager"
_CLEANER: Final = "kafka.log:type=LogCleaner"
_CLEANING: Final = "kafka.log:type=LogCleanerManager"

IN_KAFKA: Final = {
    "fencepost_raft_role": f"{_RAFT} current-state",
    "fencepost_raft_leader_id": f"{_RAFT} current-leader",
    "fencepost_raft_epoch": f"{_RAFT} current-epoch",
    "fencepost_raft_high_watermark": f"{_RAFT} high-watermark",
    "fencepost_commit_latency_seconds": f"{_RAFT} commit-latency-avg, commit-latency-max (ms)",
    "fencepost_active_transaction_open_time_max_seconds": "KIP-939: active-transaction-open-time-max",
    "fencepost_group_completed_rebalances_total": f"{_GROUPS} group-completed-rebalance-count",
    "fencepost_group_offset_commits_total": f"{_GROUPS} offset-commit-count",
    "fencepost_groups": f"{_STATES},name=NumGroupsEmpty, NumGroupsStable and so on",
    "fencepost_log_cleaner_recopy_percent": f"{_CLEANER},name=cleaner-recopy-percent",
    "fencepost_log_cleaner_clean_time_seconds": f"{_CLEANER},name=max-clean-time-secs",
    "fencepost_log_cleaner_max_compaction_delay_seconds": f"{_CLEANER},name=max-compaction-delay-secs",
    "fencepost_log_cleaner_max_dirty_percent": f"{_CLEANING},name=max-dirty-percent",
    "fencepost_log_cleaner_uncleanable_partitions": f"{_CLEANING},name=uncleanable-partitions-count",
    "fencepost_log_offline_directories": "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    "fencepost_log_offline_partitions": "kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
}
"""Where Kafka 4.1.1 shows the same by JMX, read from a broker of it; the others it has not."""

_LABELS: Final = {"fencepost_raft_role": "fencepost_raft_role", "fencepost_loop_stall_ms": "work"}
_TYPES: Final = {"stateset": "state set"}


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """(name, type, labels, meaning, where Kafka shows it), by name."""
    registry: CollectorRegistry = NodeMetrics().registry
    labels = {
        name: ", ".join(getattr(collector, "_labelnames", ()))
        for collector, names in registry._collector_to_names.items()
        for name in names
    }
    found = []
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        of = labels.get(name) or _LABELS.get(name, "")
        kind = _TYPES.get(family.type, family.type)
        found.append((name, kind, of, family.documentation, IN_KAFKA.get(name, "")))
    yield from sorted(found)


def table() -> str:
    """As the page has it."""
    lines = ["| metric | type | labels | what it says | in Kafka 4.1 |", "|---|---|---|---|---|"]
    for name, kind, of, text, kafka in rows():
        shown = [f"`{name}`", kind, f"`{of}`" if of else "", text, f"`{kafka}`" if ":" in kafka else kafka]
        lines.append("| " + " | ".join(each or "-" for each in shown) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    click.echo(table())
