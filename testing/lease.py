"""What one test has of a cluster: names of its own, chaos while it runs, an explanation if it fails."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from fencepost.client import Admin, ClientError, ConsumerRecord
from fencepost.testing.chaos import Killer
from fencepost.testing.cluster import Cluster
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.exactly_once import assert_exactly_once
from fencepost.testing.faults import Faults
from fencepost.testing.running import RunningCluster

OPTIONS: Final = ("nodes", "config", "kill", "every")
EVERY_S: Final = 2.0
LOG_LINES: Final = 30
TRANSACTIONS_MAX: Final = 20
_NUMBERS: Final = itertools.count(1)


class Lease:
    """The ``fencepost`` fixture. ``cluster`` is the whole of it."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster: Final = cluster
        self._suffix = f"{os.getpid()}-{next(_NUMBERS)}"
        self._started_ms = int(time.time() * 1000)

    @property
    def bootstrap(self) -> str:
        """What a Kafka client is given as ``bootstrap.servers``."""
        return self.cluster.bootstrap

    @property
    def faults(self) -> Faults:
        """Faults of single requests; see testing/faults.py. One that is armed when the test ends fails it."""
        return self.cluster.faults

    def name(self, stem: str) -> str:
        """``stem`` with the test's suffix: a transactional id, group or topic that no other test has."""
        return f"{stem}-{self._suffix}"

    def topic(self, stem: str, *, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Make a topic and return its name."""
        name = self.name(stem)
        self.cluster.create_topic(name, partitions=partitions, config=config)
        return name

    def read(self, topic: str, *, isolation: str = "read_committed") -> list[ConsumerRecord]:
        """A topic's records; see ``RunningCluster.read``."""
        return self.cluster.read(topic, isolation=isolation)

    def assert_exactly_once(
        self, into: Iterable[Any], topic: str, *, key: Callable[[Any], Any] | None = None
    ) -> None:
        """All of ``into`` is in the topic once, and nothing else; producers are named."""
        found = self.read(topic)
        assert_exactly_once(into, found, key=key, transactions=self.cluster.transactions())

    def explained(self) -> list[tuple[str, str]]:
        """(title, text) of what a failing test is shown."""
        found = [("fencepost: transactions", self._transactions())]
        for node in self.cluster.node_ids:
            title = f"fencepost: node {node}, {self.cluster.status(node)}"
            found.append((title, self.cluster.log(node, LOG_LINES)))
        return found

    def _transactions(self) -> str:
        try:
            return "\n".join(self.cluster.ask(self._sentences)) or "none is open, and none was fenced"
        except ClusterFailed as failure:
            return f"not known: {failure}"

    async def _sentences(self, admin: Admin) -> list[str]:
        lines = []
        for row in await admin.list_transactions():
            try:
                explanation = await admin.explain_transaction(row.transactional_id)
            except ClientError as error:
                lines.append(f"{row.transactional_id}: {error}")
                continue
            fences = [each for each in explanation.fences if each.at_ms >= self._started_ms]
            if fences or row.state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
                lines.append(f"{row.transactional_id} ({row.state}): {explanation.explanation}")
                lines += [
                    f"  fenced: producer {each.producer_id}, epoch {each.epoch}: {each.cause}"
                    for each in fences
                ]
        return lines[:TRANSACTIONS_MAX]


@contextlib.contextmanager
def leased(wanted: Mapping[str, Any], shared: Callable[[], RunningCluster]) -> Iterator[Lease]:
    """A lease of the session's cluster, or of the test's own one. Raises ClusterFailed for a wrong marker."""
    unknown = sorted(set(wanted) - set(OPTIONS))
    if unknown:
        raise ClusterFailed(f"the marker fencepost has no {', '.join(unknown)}; it has {', '.join(OPTIONS)}")
    with contextlib.ExitStack() as stack:
        if "nodes" in wanted or "config" in wanted:
            own = Cluster(nodes=wanted.get("nodes", 3), config=wanted.get("config"), faults=True)
            cluster = stack.enter_context(own)
        else:
            cluster = shared()
            stack.callback(_whole, cluster)
        stack.callback(_require_disarmed, cluster)
        if "kill" in wanted:
            stack.enter_context(Killer(cluster, wanted["kill"], every_s=wanted.get("every", EVERY_S)))
        yield Lease(cluster)


def _require_disarmed(cluster: RunningCluster) -> None:
    left = cluster.faults.clear()
    if left:
        raise ClusterFailed("left armed by the test: " + "; ".join(map(str, left)))


def _whole(cluster: RunningCluster) -> None:
    cluster.heal()
    cluster.resume()
    cluster.start()
