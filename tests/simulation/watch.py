"""What a simulation sees of a replica: each entry it applies, each snapshot it installs, each flush.

And the order that a turn must keep, at each of its steps, whether or not a crash would show it.
"""

from collections.abc import Callable
from typing import Any, Final

from fencepost.controller.producer_ids import latest
from fencepost.quorum.replica import Replica
from fencepost.records.types import LogIndex, Term
from tests.simulation.invariants import require
from tests.simulation.ledger import Ledger
from tests.simulation.saved_changes import condemn_sent_changes

REPORTS_LOOKED_AT: Final = 8  # of a node whose image changed, the last ones


class Watcher:
    """A service: the simulation sees when a process decides."""

    def __init__(self, activated: Callable[[int], None]) -> None:
        self.activated = activated

    def deposed(self) -> None:
        """See node.driver.Service."""

    def maintain(self, now_ms: int) -> None:
        """See node.driver.Service."""

    def sweep(self, now_ms: int) -> None:
        """See node.driver.Service."""


def require_no_failure(replica: Replica, planted: set[str], is_changed: bool) -> None:
    """What the product isolates (quorum/draft.py) is a bug all the same, but for ``planted`` decisions."""
    proposer, node_id = replica.proposer, replica.config.node_id
    failed = {concern for concern in proposer.violations if concern not in planted}
    require(not failed or is_changed, "a decision failed", node=node_id, which=failed)
    require(not replica.watch.is_bad or is_changed, "a sound image is taken for a bad one", node=node_id)
    if is_changed and not replica.watch.is_bad:
        reports = replica.watch._reports
        refuted = [each for each, _ in reports.newer(node_id, 0, REPORTS_LOOKED_AT) if reports.refutes(each)]
        require(not refuted, "an image that a majority refutes is taken for a sound one", node=node_id)
    require(not proposer.answers_failed, "an answer failed", node=node_id)


def watch(replica: Replica, ledger: Ledger, at_flush: Callable[[bool], None]) -> None:
    """From now on. ``at_flush`` is called before each flush (False) and after it (True); it may raise."""
    node_id, store = replica.config.node_id, replica.store
    on_committed, installed, commit = replica.raft._on_committed, replica.installed, store.commit

    def committed(index: LogIndex, term: Term, command: bytes) -> bool:
        before, ids_end = store.image.header, latest(store.image).end
        is_refused = on_committed(index, term, command)
        if not is_refused:
            ledger.applied(node_id, index, term, command, before, ids_end, store)
        return is_refused

    def seen(*what: Any) -> None:
        installed(*what)
        if condemn_sent_changes(ledger, replica):
            ledger.changed.add(node_id)
        else:
            ledger.installed(node_id, store)

    def flushing() -> bool:
        at_flush(False)
        flushed = commit()
        at_flush(True)
        return flushed

    _order(replica)
    replica.raft._on_committed = committed
    replica.installed = seen  # type: ignore[assignment, method-assign]
    store.commit = flushing  # type: ignore[method-assign]


def _order(replica: Replica) -> None:
    """Nothing speaks of what is not on disk, and no tick comes between an append and its flush."""
    node_id, journal, transport = replica.config.node_id, replica.journal, replica._transport
    release, tick = transport.release, replica.raft.tick

    def releasing() -> None:
        require(not (transport._parked and journal.must_flush), "released before the flush", node=node_id)
        release()

    def ticking(**how: Any) -> None:
        require(not journal.must_flush, "a tick between an append and its flush", node=node_id)
        tick(**how)

    transport.release = releasing  # type: ignore[method-assign]
    replica.raft.tick = ticking  # type: ignore[method-assign]
