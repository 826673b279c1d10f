"""Work that goes on while nodes are upgraded one by one, and what the log says of it."""

import signal

from fencepost.bench.demo_transactions import Writers
from fencepost.client.transactional_producer import Outcome
from tests.harness.nodes import Nodes, wait_for
from tests.processes import archive_reader
from tests.processes.load import Load

BLOCKS = 20  # that must be allocated after each step
COMMITS = 4  # and transactions committed


class Work:
    """Clients of both kinds, which must get on after every step."""

    def __init__(self, load: Load, writers: Writers) -> None:
        self._load = load
        self._writers = writers

    def allocates(self) -> None:
        """So many blocks are allocated from now on, also with a node down."""
        self._load.await_done(BLOCKS)

    def goes_on(self) -> None:
        """And transactions are committed: every partition is there again, each has one replica."""
        before = self._writers.count()[Outcome.COMMITTED]
        self.allocates()
        wait_for(
            f"{COMMITS} transactions are committed",
            lambda: self._writers.count()[Outcome.COMMITTED] >= before + COMMITS,
        )


def versions_of_leader_changes(nodes: Nodes) -> list[int]:
    log = archive_reader.merged([nodes.home(node_id) for node_id in nodes.node_ids], 0)
    return [change.version for change in archive_reader.leader_changes(log)]


def stop(nodes: Nodes, node_id: int, *, cleanly: bool) -> None:
    """End a node's process, as an operator does, or as a crash."""
    if cleanly:
        nodes.send(node_id, signal.SIGTERM)
        nodes.await_status(node_id, "dead")
    else:
        nodes.kill(node_id)
