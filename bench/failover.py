"""How long no block is given out when the active controller dies, or stands still.

A round   the load runs; the leader gets the signal; the load sees its first success; the node is started
          again (or goes on); the cluster is healthy; a random pause, so that rounds do not keep step.
Gap       from just before the signal to the first success of any request sent after the signal.
Counted   from the history, after the load; then the nodes are ended, and the clients' responses are compared
          with the archives: see ``fencepost.bench.history`` and ``fencepost.bench.archive_audit``.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fencepost.bench.archive_audit import Findings, compare
from fencepost.bench.history import count_duplicates, first_successes, percentile, read_history
from fencepost.bench.load import FirstSuccess, Flush, Measured, Setup, Start, Stop, Window
from fencepost.bench.load_client import PAUSE_S
from fencepost.bench.own_cluster import OwnCluster, controllers, register_brokers
from fencepost.bench.process import Child, child
from fencepost.cluster.console import Failed, Unreadable
from fencepost.cluster.controllers import ask
from fencepost.cluster.lifecycle import start_nodes, stop_nodes
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.cluster.node_process import wait_until
from fencepost.cluster.state import await_live, leader_id
from fencepost.cluster.target import Target, controllers_of
from fencepost.records.types import BrokerId, NodeId
from fencepost.snapshots.history import producer_id_history
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum

TIMEOUT_S: Final = 0.1  # of a client
WARM_UP_SECONDS: Final = 1.0
SUCCESS_SECONDS_MAX: Final = 30.0
CAUGHT_UP_SECONDS_MAX: Final = 60.0
ASK_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = (0.3, 0.8)
UNSOUND: Final = ("duplicates", "refused_but_done", "granted_but_missing")  # 0, all of them

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kill:
    """One leader that got the signal."""

    node_id: NodeId
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class FailedOver:
    """The figures, in the shape of the JSON."""

    figures: dict[str, Any]

    @property
    def is_sound(self) -> bool:
        """No id was given twice, and clients received what the log says."""
        return not any(self.figures[name] for name in UNSOUND)


def measure(
    own: OwnCluster, number: signal.Signals, kill_count: int, clients: int, history: Path, show: Show
) -> FailedOver:
    """Signal the leader ``kill_count`` times under load. Ends the cluster's nodes."""
    target = controllers_of(own.cluster)
    askers = register_brokers(target, clients)
    kills: list[Kill] = []
    with child("load", "fencepost.bench.load") as load:
        setup = Setup(*controllers(target), askers, str(history), TIMEOUT_S, {}, max(PAUSE_S))
        load.ask(setup, type(None))
        load.ask(Start(clients), int)
        load.ask(Window(0.0, WARM_UP_SECONDS), Measured)
        for _ in range(kill_count):
            kill = _kill_leader(own.cluster, number)
            gap_ms = _await_success(load, kill)
            kills.append(kill)
            show(f"{len(kills)} of {kill_count}: node {kill.node_id}, {gap_ms:.0f} ms; waiting for health")
            _restore(own, kill, number, show)
            load.ask(Flush(), type(None))
            load.ask(Window(0.0, random.uniform(*PAUSE_SECONDS)), Measured)
        load.ask(Stop(), type(None))
    show("ending the nodes, reading their archives")
    stop_nodes(own.cluster.nodes)
    brokers = {client: BrokerId(askers[client][0]) for client in range(clients)}
    return FailedOver(_figures(kills, history, _audit(own.cluster, history, brokers)))


def _kill_leader(cluster: LocalCluster, number: signal.Signals) -> Kill:
    found: list[NodeId] = []

    def leads() -> bool:  # after an election by chance there may be no leader for a moment
        found[:] = [leader for leader in (leader_id(cluster),) if leader is not None]
        return bool(found)

    if not wait_until(leads, SUCCESS_SECONDS_MAX):
        raise Failed(f"no node has led for {SUCCESS_SECONDS_MAX:.0f} s")
    leader = found[0]
    pid = cluster.node(leader).pid()
    if pid is None:
        raise Failed(f"node {leader} led, and died unasked")
    before_ns = time.monotonic_ns()
    os.kill(pid, number)  # our own child: the pid cannot be another's
    return Kill(leader, before_ns, time.monotonic_ns())


def _await_success(load: Child, kill: Kill) -> float:
    command = FirstSuccess(kill.after_ns, SUCCESS_SECONDS_MAX)
    received_ns = load.ask(command, int | None)  # type: ignore[arg-type]  # convert() takes unions
    if received_ns is None:
        raise Failed(
            f"no block was granted for {SUCCESS_SECONDS_MAX:.0f} s after node {kill.node_id} got the signal"
        )
    return (received_ns - kill.before_ns) / 1e6


def _restore(own: OwnCluster, kill: Kill, number: signal.Signals, show: Show) -> None:
    """Bring the node back, and wait until every broker is live and every voter has the whole log."""
    node = own.cluster.node(kill.node_id)
    if number == signal.SIGSTOP:
        os.kill(own.children[kill.node_id].pid, signal.SIGCONT)
    else:
        own.children[kill.node_id].wait()
        own.children.update(start_nodes(own.cluster, [node]))
    back_ms = time.time_ns() // 1_000_000
    await_live(own.cluster, own.children, show)
    target = controllers_of(own.cluster)
    if not wait_until(lambda: _have_caught_up(target, back_ms), CAUGHT_UP_SECONDS_MAX):
        raise Failed(f"node {kill.node_id} has not caught up in {CAUGHT_UP_SECONDS_MAX:.0f} s")


def _have_caught_up(target: Target, since_ms: int) -> bool:
    """Whether every voter had the whole log since then. False, too, while no controller says it."""
    try:
        answer = ask(target, DESCRIBE_QUORUM, DescribeQuorum(), timeout_s=ASK_SECONDS)
    except Unreadable:  # a busy machine may elect a leader at any time
        return False
    voters = () if answer.partition is None else answer.partition.current_voters
    return bool(voters) and all(voter.last_caught_up_timestamp >= since_ms for voter in voters)


def _audit(cluster: LocalCluster, history: Path, brokers: dict[int, BrokerId]) -> Findings:
    directories = [node.config.directory for node in cluster.nodes]
    return compare(read_history(history), producer_id_history(directories), brokers)


def _figures(kills: list[Kill], history: Path, findings: Findings) -> dict[str, Any]:
    firsts = first_successes(read_history(history), [kill.after_ns for kill in kills])
    gaps_ms = [
        round((first - kill.before_ns) / 1e6, 1)
        for kill, first in zip(kills, firsts, strict=True)
        if first is not None  # each was seen by ``_await_success``
    ]
    return {
        "kills": [
            {"node": kill.node_id, "gap_ms": gap_ms} for kill, gap_ms in zip(kills, gaps_ms, strict=True)
        ],
        "p50_ms": percentile(sorted(gaps_ms), 0.50),
        "p90_ms": percentile(sorted(gaps_ms), 0.90),
        "duplicates": count_duplicates(read_history(history)),
        "refused_but_done": findings.refused_but_done,
        "granted_but_missing": findings.granted_but_missing,
    }
