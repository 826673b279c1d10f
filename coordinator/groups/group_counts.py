"""What the group coordinator counts, until the node's metrics take it: at intervals, not once per request."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class GroupCounts:
    """Of one node. Totals since they were last taken; the others as they are now.

    rebalances       join phases that ended in a generation.
    expired          members whose session was over.
    offset_commits   offsets that were committed, plain and transactional.
    active           groups with members, or with members that are about to join.
    states           groups by the name of their state, as they were counted last: see group_census.py.
    """

    rebalances: int = 0
    expired: int = 0
    offset_commits: int = 0
    active: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
