"""How many producer-id blocks per second, how long each takes, and what it costs, by number of clients.

Slices    a row's seconds are cut into slices of about one second. All rows take turns, and before each slice
          the baseline disk is measured for a moment: what else the machine does meets them alike.
Counted   from the history, after the load: see ``fencepost.bench.history``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fencepost.bench.baseline import AskLeader, Commits, Increment, Put
from fencepost.bench.history import OK, Count, Slice, count_rows, percentile, read_history
from fencepost.bench.load import Measured, Setup, Start, Stop, Window
from fencepost.bench.own_cluster import STOCK_PORT_OFFSET
from fencepost.bench.process import Child, child
from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import HOST
from fencepost.cluster.node_process import wait_until

TIMEOUT_S: Final = 5.0  # of a client: here nothing is killed
SLICE_SECONDS: Final = 1.0
WARM_UP_SECONDS: Final = 0.2
BASELINE_SECONDS: Final = 0.2  # per slice of load
STOCK_NODES: Final = 3
STOCK_CALLERS: Final = 64
STOCK_SECONDS: Final = 3.0
STOCK_LEADER_SECONDS_MAX: Final = 30.0

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """The cluster that the load generator measures."""

    controllers: dict[int, tuple[str, int]]
    leader: int
    asker: tuple[int, int]  # a registered broker's id and epoch
    pids: dict[str, int] = field(default_factory=dict)  # of the nodes, if they are ours


@dataclass(slots=True)
class _Row:
    clients: int
    seconds: float = 0.0
    cpu_s: Counter[str] = field(default_factory=Counter)
    machine_cpu_s: float = 0.0

    @property
    def other_cores(self) -> float:
        """What programs that are none of the bench's used meanwhile."""
        return max(0.0, self.machine_cpu_s - self.cpu_s.total()) / self.seconds


@dataclass(frozen=True, slots=True)
class Allocated:
    """The figures, in the shape of the JSON; and by row what went wrong on the way, and what disturbed it."""

    figures: dict[str, Any]
    mishaps: dict[int, dict[str, int]]  # clients -> outcome -> attempts, other than ok
    other_cores: float  # used by programs that are none of the bench's, on average

    @property
    def is_sound(self) -> bool:
        """Every row was granted something, and nothing twice."""
        return all(row["blocks_per_s"] > 0 and not row["duplicates"] for row in self.figures["rows"])


def measure(
    subject: Subject, clients: Sequence[int], seconds: float, work: Path, history: Path, show: Show
) -> Allocated:
    """Load the cluster as each row says, and the disk in between. ``work`` is on the cluster's disk."""
    rows = [_Row(count) for count in clients]
    slices: list[Slice] = []
    commits: list[Commits] = []
    pieces = max(1, round(seconds / SLICE_SECONDS))
    with ExitStack() as stack:
        disk_directory = work / "baseline"
        disk_directory.mkdir()
        disk = stack.enter_context(child("baseline", "fencepost.bench.baseline", "lmdb", str(disk_directory)))
        load = stack.enter_context(child("load", "fencepost.bench.load"))
        setup = Setup(
            subject.controllers, subject.leader, [subject.asker], str(history), TIMEOUT_S, subject.pids
        )
        load.ask(setup, type(None))
        for piece in range(pieces):
            for number, row in enumerate(rows):
                show(f"{row.clients} clients, slice {piece + 1} of {pieces}")
                commits.append(disk.ask(Put(BASELINE_SECONDS), Commits))
                slices.append(_one_slice(load, number, row, seconds / pieces))
    show("counting")
    counts = count_rows(read_history(history), slices, len(rows))
    return Allocated(
        figures={
            "rows": [_figures(row, count) for row, count in zip(rows, counts, strict=True)],
            "baseline": {"lmdb_commits_per_s": _rate(commits)},
        },
        mishaps={
            row.clients: {outcome: n for outcome, n in sorted(count.outcomes.items()) if outcome != OK}
            for row, count in zip(rows, counts, strict=True)
        },
        other_cores=sum(row.other_cores for row in rows) / len(rows),
    )


def _one_slice(load: Child, number: int, row: _Row, seconds: float) -> Slice:
    started_ns = load.ask(Start(row.clients), int)
    measured = load.ask(Window(WARM_UP_SECONDS, seconds), Measured)
    load.ask(Stop(), type(None))
    row.seconds += (measured.end_ns - measured.begin_ns) / 1e9
    row.cpu_s.update(measured.cpu_s)
    row.machine_cpu_s += measured.machine_cpu_s
    return Slice(number, started_ns, measured.begin_ns, measured.end_ns)


def _figures(row: _Row, count: Count) -> dict[str, Any]:
    latencies_ns = sorted(count.latencies_ns)
    return {
        "clients": row.clients,
        "blocks_per_s": round(len(latencies_ns) / row.seconds, 1),
        "p50_ms": _milliseconds(percentile(latencies_ns, 0.50)),
        "p99_ms": _milliseconds(percentile(latencies_ns, 0.99)),
        "duplicates": count.duplicates,
        "cores": {name: round(used / row.seconds, 2) for name, used in sorted(row.cpu_s.items())},
    }


def _milliseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1e6, 3)


def _rate(commits: Sequence[Commits]) -> float:
    return round(sum(each.count for each in commits) / sum(each.seconds for each in commits), 1)


def measure_stock(port: int, show: Show) -> float:
    """Increments per second of a replicated counter on three stock nodes. Nothing else should run."""
    show(f"stock pysyncobj, {STOCK_CALLERS} callers")
    addresses = [f"{HOST}:{port + STOCK_PORT_OFFSET + number}" for number in range(STOCK_NODES)]
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                child(
                    f"stock node {own}",
                    "fencepost.bench.baseline",
                    "stock",
                    own,
                    *(other for other in addresses if other != own),
                )
            )
            for own in addresses
        ]
        found: list[Child] = []

        def leads() -> bool:
            found[:] = [node for node in nodes if node.ask(AskLeader(), bool)]
            return bool(found)

        if not wait_until(leads, STOCK_LEADER_SECONDS_MAX):
            raise Failed(f"stock pysyncobj elected no leader in {STOCK_LEADER_SECONDS_MAX:.0f} s")
        return _rate([found[0].ask(Increment(STOCK_CALLERS, STOCK_SECONDS), Commits)])


def mishap_lines(mishaps: Mapping[int, Mapping[str, int]]) -> list[str]:
    """One sentence per row in which not every attempt was a success."""
    return [
        f"{clients} clients: " + ", ".join(f"{count} {outcome}" for outcome, count in found.items())
        for clients, found in mishaps.items()
        if found
    ]
