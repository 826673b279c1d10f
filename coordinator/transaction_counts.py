"""What the coordinator counts, until the node's metrics take it: at intervals, not once per request."""

from dataclasses import dataclass

from fencepost.controller.transactions.describe import OpenTimes


@dataclass(slots=True)
class TransactionCounts:
    """Of one node. Totals since they were last taken; the others as they are now.

    committed, aborted   transactions whose every marker is written.
    timed_out            open transactions that are aborted as their time is over.
    fenced               open transactions that are aborted as another instance requested their id.
    parked               requests that wait for a transaction to complete.
    markers_waiting      markers that are not known to be written.
    wedged               markers that a partition refuses.
    open_times           for how long the oldest transactions have been open, those of two-phase commit apart.
    """

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    parked: int = 0
    markers_waiting: int = 0
    wedged: int = 0
    open_times: OpenTimes = OpenTimes()
