"""The group coordinator's numbers, named after Kafka's group-coordinator-metrics."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.records.group_metadata import GroupState


class GroupMetrics:
    """Numbers of what is so now are 0 on a node that does not coordinate."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rebalances = Counter(  # Kafka: group-completed-rebalance-count
            "fencepost_group_completed_rebalances_total",
            "Join phases of groups that ended in a generation",
            registry=registry,
        )
        self._expired = Counter(
            "fencepost_group_members_expired_total",
            "Members of groups whose session was over",
            registry=registry,
        )
        self._offset_commits = Counter(  # Kafka: offset-commit-count
            "fencepost_group_offset_commits_total",
            "Offsets that groups committed, in transactions too",
            registry=registry,
        )
        self._active = Gauge(
            "fencepost_groups_active",
            "Groups with members, or with members that are about to join",
            registry=registry,
        )
        self._states = Gauge(  # Kafka: NumGroupsEmpty, NumGroupsStable, ...
            "fencepost_groups",
            "Groups in each state, those that exist by their offsets alone included",
            ["state"],
            registry=registry,
        )
        self._show_states({})

    def take(self, counts: GroupCounts) -> None:
        """See NodeMetrics.groups."""
        for counter, count in (
            (self._rebalances, counts.rebalances),
            (self._expired, counts.expired),
            (self._offset_commits, counts.offset_commits),
        ):
            if count:
                counter.inc(count)
        counts.rebalances = counts.expired = counts.offset_commits = 0
        self._active.set(counts.active)
        self._show_states(counts.states)

    def _show_states(self, states: Mapping[str, int]) -> None:
        for each in GroupState:
            self._states.labels(each.wire_name).set(states.get(each.wire_name, 0))
