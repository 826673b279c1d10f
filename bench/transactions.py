"""``fencepost bench transactions``: what a cluster commits per second, beside librdkafka's mock or a peer.

Mock      (``test.mock.num.brokers``) is a process of its own, as many brokers, everything in memory: no Raft,
          no fsync, no partition log. It serves librdkafka alone: other clients cannot read what it answers
          to requests that are newer than librdkafka's, as Metadata 13.
Peer      another cluster that runs, as Apache Kafka.
Windows   each row has ``windows`` on each of both, in the order cluster, other, other, cluster, ...; the same
          processes load both. A window has a topic and producers of its own. Topics are deleted after their
          row, in which several gigabytes may be written; the mock, in memory, has no DeleteTopics.
"""

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import structs

from fencepost.bench import transaction_subjects
from fencepost.bench.history import percentile
from fencepost.bench.load import cpu_seconds, machine_cpu_seconds
from fencepost.bench.own_cluster import own_cluster
from fencepost.bench.process import Child, child
from fencepost.bench.transaction_load import CLIENT, CONFLUENT, Delete, Loaded, Mock
from fencepost.bench.transaction_records import Load
from fencepost.bench.transaction_subjects import CLUSTER, MOCK, PEER, Subject
from fencepost.cluster.console import Failed, table
from fencepost.cluster.target import Target

PRODUCERS_MAX: Final = 256
MESSAGES_MAX: Final = 10_000
RAMP_SECONDS: Final = 0.5  # of each window's producers, before it begins
PARTITIONS: Final = 4  # of each topic: what the mock cluster makes, too
LOAD_MODULE: Final = "fencepost.bench.transaction_load"

Show = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured. ``warm_up_s``: of the same load on each cluster, before a row's first window."""

    clients: Sequence[str]
    protocol: str | None
    producers: Sequence[int]
    messages: Sequence[int]
    message_bytes: int
    seconds: float
    warm_up_s: float
    windows: int
    java_classpath: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """``figures``: the document. ``faults``: per row that was not verified, why.

    ``other_cores``: what programs that are none of the bench's used meanwhile; 0 where that is not known.
    """

    figures: dict[str, list[Row]]
    faults: list[str]
    other_cores: float


@dataclass(slots=True)
class _Windows:
    """What one row has of one cluster. ``cpu_s``: in all windows. ``pids``: of the client."""

    latencies_ns: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    def load(self, child: Child, load: Load, *, is_counted: bool) -> bool:
        """Whether it could be loaded; if not, the reason is among the faults."""
        try:
            loaded = child.ask(load, Loaded)
        except Failed as error:
            self.faults.append(error.message)
            return False
        if is_counted:
            self.add(loaded, load.seconds)
        return True

    def add(self, loaded: Loaded, seconds: float) -> None:
        """The figures of one window."""
        self.latencies_ns += loaded.latencies_ns
        self.rates.append(len(loaded.latencies_ns) / seconds)
        for name, used_s in loaded.cpu_s.items():
            self.cpu_s[name] = self.cpu_s.get(name, 0.0) + used_s
        self.pids |= set(loaded.pids)
        if loaded.fault:
            self.faults.append(loaded.fault)
        if not loaded.latencies_ns:
            self.faults.append(f"no transaction was begun and committed in {seconds:.1f} s")

    def row(self, subject: Subject, load: Load) -> Row:
        """The figures; None for each that there is not."""
        ordered = sorted(self.latencies_ns)
        p50_ns, p99_ns = percentile(ordered, 0.50), percentile(ordered, 0.99)
        cpu_s = self.cpu_s if ordered else {}
        return {
            "cluster": subject.name,
            "client": load.client,
            "protocol": subject.protocol(load.client),
            "producers": load.producers,
            "messages": load.messages,
            "message_bytes": load.message_bytes,
            "txn_per_s": round(median(self.rates), 1) if self.rates else None,
            "windows": [round(each, 1) for each in self.rates],
            "p50_ms": None if p50_ns is None else round(p50_ns / 1e6, 3),
            "p99_ms": None if p99_ns is None else round(p99_ns / 1e6, 3),
            "cpu_ms": {name: round(used * 1000 / len(ordered), 3) for name, used in cpu_s.items()},
            "leader": subject.leader,
            "verified": not self.faults,
        }


def measure(
    plan: Plan,
    *,
    work: Path,
    node_count: int,
    port: int | None,
    directory: Path | None,
    target: Target | None,
    peer: Target | None,
    show: Show,
) -> Measured:
    """A row for each client and pair of numbers: of the cluster (its own, or ``target``) and of the other."""
    with ExitStack() as stack:
        others = [] if peer is None else [transaction_subjects.running(PEER, peer, plan.protocol)]
        if target is None:
            started = stack.enter_context(own_cluster(work, node_count, port, directory))
            cluster = transaction_subjects.own(started.cluster, plan.protocol)
        else:
            cluster = transaction_subjects.running(CLUSTER, target, plan.protocol)
        if peer is None and CONFLUENT in plan.clients:
            others = [stack.enter_context(_mock(node_count))]
        loads = {each: stack.enter_context(child(f"{each} load", LOAD_MODULE)) for each in plan.clients}
        return _measure(plan, [cluster, *others], loads, show)


@contextmanager
def _mock(brokers: int) -> Iterator[Subject]:
    with child("mock cluster", LOAD_MODULE) as mocking:
        bootstrap = mocking.ask(Mock(brokers), str)
        yield Subject(name=MOCK, bootstrap=bootstrap, hides_aborted=False, pids={MOCK: mocking.pid})


def _measure(plan: Plan, subjects: Sequence[Subject], loads: Mapping[str, Child], show: Show) -> Measured:
    rows: list[Row] = []
    baseline: list[Row] = []
    faults: list[str] = []
    run = f"bench-{secrets.token_hex(3)}"  # no topic or transactional id of a cluster that runs is touched
    ours = {os.getpid(), *(each.pid for each in loads.values())}
    ours |= {pid for subject in subjects for pid in subject.pids.values()}
    began, others_began = time.monotonic(), _others_cpu_seconds(ours)
    for producers, messages, client in product(plan.producers, plan.messages, plan.clients):
        load = Load(
            client=client,
            bootstrap="",
            topic=f"{run}-{client}-{producers}-{messages}",
            producers=producers,
            messages=messages,
            message_bytes=plan.message_bytes,
            warm_up_s=RAMP_SECONDS,
            seconds=plan.seconds,
            hides_aborted=True,
            java_classpath=plan.java_classpath,
        )
        loaded = [each for each in subjects if each.name != MOCK or client == CONFLUENT]
        measured = _windows(plan, load, loads[client], loaded, show)
        for subject, windows in zip(loaded, measured, strict=True):
            found = rows if subject.name == CLUSTER else baseline
            found.append(windows.row(subject, load))
            ours |= windows.pids
            faults += [f"{subject.name}, {_name(load)}: {fault}" for fault in windows.faults]
    other_cores = (_others_cpu_seconds(ours) - others_began) / (time.monotonic() - began)
    is_known = all(subject.pids for subject in subjects)
    return Measured({"rows": rows, "baseline": baseline}, faults, other_cores if is_known else 0.0)


def _windows(plan: Plan, load: Load, child: Child, subjects: Sequence[Subject], show: Show) -> list[_Windows]:
    """Of one row, for each of the clusters."""
    loads = [
        structs.replace(
            load,
            bootstrap=each.bootstrap,
            topic=f"{load.topic}-{each.name}",
            hides_aborted=each.hides_aborted,
            partitions=0 if each.name == MOCK else PARTITIONS,  # the mock knows no CreateTopics
            nodes=each.pids,
            access=each.access,
        )
        for each in subjects
    ]
    found = [_Windows() for _ in subjects]
    topics: dict[str, list[str]] = {each.bootstrap: [] for each in loads if each.partitions}
    access = {each.bootstrap: each.access for each in loads}
    if plan.warm_up_s:
        for windows, each in zip(found, loads, strict=True):
            show(f"{_name(load)}, warm-up")
            topic = f"{each.topic}-warm-up"
            warming = structs.replace(each, seconds=plan.warm_up_s, topic=topic, is_verified=False)
            if windows.load(child, warming, is_counted=False):
                topics.get(each.bootstrap, []).append(topic)
    for window in range(plan.windows):
        order = range(len(subjects))
        for position in order if window % 2 == 0 else reversed(order):
            show(f"{_name(load)}, {subjects[position].name}, window {window + 1} of {plan.windows}")
            each = structs.replace(loads[position], topic=f"{loads[position].topic}-{window}")
            if found[position].load(child, each, is_counted=True):
                topics.get(each.bootstrap, []).append(each.topic)
    for bootstrap, names in topics.items():
        with suppress(Failed):  # the figures are worth more than topics that stay
            child.ask(Delete(bootstrap, names, access[bootstrap]), type(None))
    return found


def _name(load: Load) -> str:
    return f"{load.client}, {load.producers} producers, {load.messages} messages"


def _others_cpu_seconds(ours: Collection[int]) -> float:
    return machine_cpu_seconds() - sum(cpu_seconds(pid) or 0.0 for pid in ours)


def lines(figures: Mapping[str, Sequence[Row]]) -> str:
    """The document as a table. X MOCK, X PEER: the cluster's rate over the other's, of the same client.

    CPU MS is of all nodes for one transaction, LEADER MS of the one that leads, CLIENT MS of the producers.
    """
    baseline = {_key(row): row for row in figures["baseline"]}
    other = figures["baseline"][0]["cluster"].upper() if baseline else ""
    ranges = ("RANGE",) if any(len(row["windows"]) > 1 for row in figures["rows"]) else ()
    columns = ["CLIENT", "PROTOCOL", "PRODUCERS", "MESSAGES", "TXN/S", *ranges, "P50 MS", "P99 MS"]
    columns += ["CPU MS", "LEADER MS", "CLIENT MS", "VERIFIED"]
    if other:
        columns.append(f"X {other}")
        columns += [f"{other} {each}" for each in ("TXN/S", *ranges, "P50 MS", "P99 MS", "CPU MS")]
    cells = []
    for row in figures["rows"]:
        line = [row["client"], row["protocol"], row["producers"], row["messages"]]
        line += _measured(row, with_range=bool(ranges))
        line += [_number(row["cpu_ms"].get(each)) for each in (row["leader"], CLIENT)]
        line.append("yes" if row["verified"] else "NO")
        beside = baseline.get(_key(row))
        if beside is not None:
            line.append(_ratio(row["txn_per_s"], beside["txn_per_s"]))
            line += _measured(beside, with_range=bool(ranges))
        cells.append(line + ["-"] * (len(columns) - len(line)))
    return table(columns, cells)


def _key(row: Row) -> tuple[str, int, int]:
    return row["client"], row["producers"], row["messages"]


def _measured(row: Row, *, with_range: bool) -> list[str]:
    """Rate, range of the windows, latencies, and CPU time: the sum over the nodes."""
    windows = row["windows"]
    ranges = [f"{min(windows):.0f}-{max(windows):.0f}" if windows else "-"] if with_range else []
    nodes_ms = [ms for name, ms in row["cpu_ms"].items() if name != CLIENT]
    latencies = (_number(row["p50_ms"]), _number(row["p99_ms"]))
    return [_number(row["txn_per_s"], 0), *ranges, *latencies, _number(sum(nodes_ms) if nodes_ms else None)]


def _ratio(rate: float | None, other: float | None) -> str:
    return f"{rate / other:.2f}" if rate and other else "-"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
