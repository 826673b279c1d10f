"""``fencepost bench transactions``: what the cluster commits per second, beside librdkafka's mock cluster.

The mock cluster (``test.mock.num.brokers``) is a process of its own, as many brokers, everything in memory:
no Raft, no fsync, no partition log. Row by row the same process loads first the one, then the other.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fencepost.bench.history import percentile
from fencepost.bench.load import cpu_seconds, machine_cpu_seconds
from fencepost.bench.own_cluster import own_cluster
from fencepost.bench.process import Child, child
from fencepost.bench.transaction_load import Load, Loaded, Mock
from fencepost.cluster.console import Failed, table

PRODUCERS_MAX: Final = 256
MESSAGES_MAX: Final = 10_000
WARM_UP_SECONDS: Final = 0.5
PARTITIONS: Final = 4  # of each topic: what the mock cluster makes, too
LOAD_MODULE: Final = "fencepost.bench.transaction_load"

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """``figures``: the document. ``faults``: per row that was not verified, why.

    ``other_cores``: what programs that are none of the bench's used meanwhile; 0 where that is not known.
    """

    figures: dict[str, list[dict[str, Any]]]
    faults: list[str]
    other_cores: float


def measure(
    producers: Sequence[int],
    messages: Sequence[int],
    seconds: float,
    *,
    work: Path,
    node_count: int,
    port: int | None,
    directory: Path | None,
    bootstrap: str | None,
    show: Show,
) -> Measured:
    """One row per pair of numbers, of the cluster (its own, or the one at ``bootstrap``) and of the mock."""
    rows: list[dict[str, Any]] = []
    baseline: list[dict[str, Any]] = []
    faults: list[str] = []
    run = secrets.token_hex(3)  # no topic or transactional id of a cluster that runs is touched
    with ExitStack() as stack:
        mocking = stack.enter_context(child("mock cluster", LOAD_MODULE))
        mock = mocking.ask(Mock(node_count), str)
        load = stack.enter_context(child("load", LOAD_MODULE))
        ours = [os.getpid(), mocking.pid, load.pid]
        is_own = bootstrap is None
        if bootstrap is None:
            settings = (f"num.partitions={PARTITIONS}",)
            own = stack.enter_context(own_cluster(work, node_count, port, directory, settings))
            bootstrap = own.cluster.bootstrap
            ours += [process.pid for process in own.children.values()]
        began, others_began = time.monotonic(), _others_cpu_seconds(ours)
        for count in producers:
            for size in messages:
                for name, servers, found in (("cluster", bootstrap, rows), ("mock", mock, baseline)):
                    show(f"{count} producers, {size} messages, {name}")
                    row, fault = _row(
                        load, servers, f"bench-{run}", count, size, seconds, hides_aborted=name == "cluster"
                    )
                    found.append(row)
                    if fault:
                        faults.append(f"{name}, {count} producers, {size} messages: {fault}")
        other_cores = (_others_cpu_seconds(ours) - others_began) / (time.monotonic() - began)
    return Measured({"rows": rows, "baseline": baseline}, faults, other_cores if is_own else 0.0)


def _others_cpu_seconds(ours: Sequence[int]) -> float:
    return machine_cpu_seconds() - sum(cpu_seconds(pid) or 0.0 for pid in ours)


def _row(
    load: Child,
    bootstrap: str,
    prefix: str,
    producers: int,
    messages: int,
    seconds: float,
    *,
    hides_aborted: bool,
) -> tuple[dict[str, Any], str]:
    """The figures of one row, and what is wrong with what was read back."""
    loaded = load.ask(
        Load(
            bootstrap=bootstrap,
            topic=f"{prefix}-{producers}-{messages}",
            producers=producers,
            messages=messages,
            warm_up_s=WARM_UP_SECONDS,
            seconds=seconds,
            hides_aborted=hides_aborted,
        ),
        Loaded,
    )
    latencies_ns = sorted(loaded.latencies_ns)
    p50_ns, p99_ns = percentile(latencies_ns, 0.50), percentile(latencies_ns, 0.99)
    if p50_ns is None or p99_ns is None:
        raise Failed(f"{producers} producers of {messages} messages committed nothing in {seconds:.0f} s")
    row = {
        "producers": producers,
        "messages": messages,
        "txn_per_s": round(len(latencies_ns) / seconds, 1),
        "p50_ms": round(p50_ns / 1e6, 3),
        "p99_ms": round(p99_ns / 1e6, 3),
        "verified": not loaded.fault,
    }
    return row, loaded.fault


def lines(figures: dict[str, list[dict[str, Any]]]) -> str:
    """The document as a table; X MOCK is the cluster's rate over the mock cluster's."""
    rows = [
        (
            row["producers"],
            row["messages"],
            f"{row['txn_per_s']:.0f}",
            f"{row['txn_per_s'] / mock['txn_per_s']:.2f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            "yes" if row["verified"] else "NO",
            f"{mock['txn_per_s']:.0f}",
            f"{mock['p50_ms']:.2f}",
            f"{mock['p99_ms']:.2f}",
        )
        for row, mock in zip(figures["rows"], figures["baseline"], strict=True)
    ]
    columns = ("PRODUCERS", "MESSAGES", "TXN/S", "X MOCK", "P50 MS", "P99 MS", "VERIFIED")
    return table((*columns, "MOCK TXN/S", "MOCK P50 MS", "MOCK P99 MS"), rows)
