"""What one test has of a cluster: names of its own, chaos while it runs, an explanation if it fails."""

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any, Final

from fencepost.client import Admin, ClientError, ConsumerRecord
from fencepost.testing.causes import causes
from fencepost.testing.chaos import Killer
from fencepost.testing.cluster import FREE_BYTES_MIN, Cluster
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.evidence import Evidence
from fencepost.testing.exactly_once import assert_exactly_once
from fencepost.testing.faults import Faults
from fencepost.testing.running import RunningCluster
from fencepost.testing.timeline import timeline
from fencepost.testing.tls import MUTUAL
from fencepost.testing.waiting import NOTICE_S
from fencepost.wire.k20065_explain_transaction import FenceExplained

__tracebackhide__ = True  # a failing test is shown, and debugged, at its own line

OPTIONS: Final = ("nodes", "config", "tls", "kill", "every", "within")
OF_A_CLUSTER: Final = {"nodes", "config", "tls"}
EVERY_S: Final = 2.0
WIDTH: Final = 100
LOG_LINES: Final = 30
FULL_BYTES: Final = 4 * FREE_BYTES_MIN
TRANSACTIONS_MAX: Final = 20
ROWS_MAX: Final = 1000  # transactional ids that are explained
_NUMBERS: Final = itertools.count(1)


class Lease:
    """The ``fencepost`` fixture. ``cluster`` is the whole of it."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster: Final = cluster
        self._suffix = f"{os.getpid()}-{next(_NUMBERS)}"
        self._began_s = time.time()
        self.has_failed = False

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

    def explained(self, failure: BaseException | None = None) -> list[tuple[str, str]]:
        """(title, text) of what a failing test is shown: why it failed, what happened, what there is."""
        self.has_failed = True
        found = self._why(failure)
        for node in self.cluster.node_ids:
            title = f"fencepost: node {node}, {self.cluster.status(node)}"
            found.append((title, self.cluster.log(node, LOG_LINES)))
        return found

    def _why(self, failure: BaseException | None) -> list[tuple[str, str]]:
        try:
            seen = self.cluster.ask(self._seen)
            said = "\n".join(seen.sentences) or "none is open, and none was fenced"
        except ClusterFailed as unreachable:
            seen, said = _Seen(), f"not known: {unreachable}"
        try:
            proxies = self.cluster.proxies
            requests = [] if proxies is None else proxies.requests(self._began_s)
        except ClusterFailed as unreachable:
            requests, said = [], f"{said}\n{unreachable}"
        evidence = Evidence(
            began_s=self._began_s,
            requests=requests,
            fences=seen.fences,
            open=seen.open,
            events=[each for each in self.cluster.events if each[0] >= self._began_s],
            failure=failure,
        )
        found = [("fencepost: transactions", said)]
        free = shutil.disk_usage(self.cluster.directory).free
        if free < FULL_BYTES:
            said = f"The nodes may be unable to write: {free} bytes are free at {self.cluster.directory}."
            found.insert(0, ("fencepost: little space", said))
        if happened := timeline(evidence):
            found.insert(0, ("fencepost: what happened", "\n".join(happened)))
        if why := causes(evidence):
            found.insert(0, ("fencepost: cause", "\n".join(map(_filled, why))))
        return found

    async def _seen(self, admin: Admin) -> "_Seen":
        seen = _Seen()
        for row in (await admin.list_transactions())[-ROWS_MAX:]:
            name = row.transactional_id
            try:
                explanation = await admin.explain_transaction(name)
            except ClientError as error:
                seen.sentences.append(f"{name}: {error}")
                continue
            fences = [each for each in explanation.fences if each.at_ms >= self._began_s * 1000]
            if fences:
                seen.fences[name] = fences
            if row.state == "Ongoing":
                seen.open[name] = explanation.explanation
            if fences or row.state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
                seen.sentences.append(f"{name} ({row.state}): {explanation.explanation}")
        del seen.sentences[TRANSACTIONS_MAX:]
        return seen


def _filled(sentence: str) -> str:
    return fill(sentence, WIDTH, break_on_hyphens=False, break_long_words=False)


@dataclass
class _Seen:
    """What the coordinator says: fences since the test began, and open transactions, by transactional id."""

    sentences: list[str] = field(default_factory=list)
    fences: dict[str, list[FenceExplained]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunningTest:
    """``within_s``: of every test, where its marker says nothing; ``report``: a file for who waits."""

    name: str
    within_s: float | None
    report: str


@contextlib.contextmanager
def leased(
    wanted: Mapping[str, Any], shared: Callable[[], RunningCluster], test: RunningTest
) -> Iterator[Lease]:
    """A lease of the session's cluster, or of the test's own one. Raises ClusterFailed for a wrong marker."""
    unknown = sorted(set(wanted) - set(OPTIONS))
    if unknown:
        raise ClusterFailed(f"the marker fencepost has no {', '.join(unknown)}; it has {', '.join(OPTIONS)}")
    with contextlib.ExitStack() as stack:
        if wanted.keys() & OF_A_CLUSTER:
            tls = wanted.get("tls", False)
            nodes, config = wanted.get("nodes", 3), wanted.get("config")
            own = Cluster(nodes=nodes, config=config, faults=tls != MUTUAL, tls=tls)
            cluster = stack.enter_context(own)
        else:
            cluster = shared()
            stack.callback(_whole, cluster)
        lease = Lease(cluster)
        if cluster.proxies is not None:
            stack.callback(_require_disarmed, lease)
            within_s = wanted.get("within", test.within_s)
            after_s, ends = (NOTICE_S, False) if within_s is None else (within_s, True)
            stack.enter_context(cluster.proxies.watched(test.name, test.report, after_s, ends=ends))
        elif "within" in wanted:
            raise ClusterFailed("the marker's within= needs proxies, which tls='mutual' has not")
        if "kill" in wanted:
            stack.enter_context(Killer(cluster, wanted["kill"], every_s=wanted.get("every", EVERY_S)))
        yield lease


def _require_disarmed(lease: Lease) -> None:
    """Clear the faults. Those of a test that failed may be armed still, for its failure."""
    left = lease.cluster.faults.clear()
    if left and not lease.has_failed:
        raise ClusterFailed("left armed by the test: " + "; ".join(map(str, left)))


def _whole(cluster: RunningCluster) -> None:
    cluster.heal()
    cluster.resume()
    cluster.start()
