"""What a simulation sees of a replica: each entry it applies, each snapshot it installs, each flush."""

from collections.abc import Callable
from typing import Any

from controller.producer_ids import latest
from quorum.replica import Replica
from records.types import LogIndex, Term
from tests.simulation.ledger import Ledger


def watch(replica: Replica, ledger: Ledger, at_flush: Callable[[bool], None]) -> None:
    """From now on. ``at_flush`` is called before each flush (False) and after it (True); it may raise."""
    node_id, store = replica.config.node_id, replica.store
    on_committed, installed, commit = replica.raft._on_committed, replica.installed, store.commit

    def committed(index: LogIndex, term: Term, command: bytes) -> None:
        before, ids_end = store.image.header, latest(store.image).end
        on_committed(index, term, command)
        ledger.applied(node_id, index, term, command, before, ids_end, store)

    def seen(*what: Any) -> None:
        installed(*what)
        ledger.installed(node_id, store)

    def flushing() -> bool:
        at_flush(False)
        flushed = commit()
        at_flush(True)
        return flushed

    replica.raft._on_committed = committed
    replica.installed = seen  # type: ignore[assignment, method-assign]
    store.commit = flushing  # type: ignore[method-assign]
