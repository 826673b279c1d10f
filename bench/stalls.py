"""How long one piece of work holds a node's event loop, under the largest requests that are legal.

Load      see bench/stalls_load.py: sent to the active controller's node; the others follow its log.
Figures   what the nodes measured themselves: ``fencepost_loop_stall_ms`` by request and other work, the CPU
          time of the loop's thread without flushes, so that a busy machine does not count.
"""

import asyncio
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fencepost.bench.own_cluster import OwnCluster
from fencepost.bench.stalls_load import FULL, Load, Size
from fencepost.cluster.console import table
from fencepost.wire.dispatch import ListenerKind

STALL_MS: Final = 50.0
"""What the bench fails at: a leader's heartbeat is due so often."""

METRIC: Final = "fencepost_loop_stall_ms{work="

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stalled:
    """The figures, in the shape of the JSON, and which requests were refused, or not answered in time.

    ``sent``: API keys, each with a listener that its largest request went to.
    """

    figures: dict[str, Any]
    refused: dict[str, str]
    sent: frozenset[tuple[int, ListenerKind]] = frozenset()

    @property
    def is_sound(self) -> bool:
        """Nothing held a loop for too long."""
        return all(max(row["leaders_ms"], row["followers_ms"]) < STALL_MS for row in self.figures["rows"])


def measure(own: OwnCluster, show: Show, size: Size = FULL) -> Stalled:
    """Load the cluster and ask its nodes for what held them. Raises Failed if it has no leader."""
    load = Load(own.cluster, size, show)
    asyncio.run(load.run())
    found = {int(node.node_id): stalls_of(node.config.metrics_port) for node in own.cluster.nodes}
    return Stalled(figures(found, load.leaders), load.refused, frozenset(load.sent))


def figures(found: dict[int, dict[str, float]], leaders: set[int]) -> dict[str, Any]:
    """A row for each work: the longest on a node that led at any time, and on one that never did."""
    works = sorted({work for stalls in found.values() for work in stalls})
    rows = [
        {
            "work": work,
            "leaders_ms": _longest(work, found, leaders),
            "followers_ms": _longest(work, found, found.keys() - leaders),
        }
        for work in works
    ]
    return {"leaders": sorted(leaders), "rows": rows}


def lines(stalled: Stalled) -> str:
    """The figures as a table, the longest first."""
    rows = sorted(stalled.figures["rows"], key=lambda row: -max(row["leaders_ms"], row["followers_ms"]))
    shown = [(row["work"], f"{row['leaders_ms']:.1f}", f"{row['followers_ms']:.1f}") for row in rows]
    return table(("WORK", "LEADER MS", "FOLLOWERS MS"), shown)


def _longest(work: str, found: dict[int, dict[str, float]], nodes: Iterable[int]) -> float:
    return max((found[node].get(work, 0.0) for node in nodes), default=0.0)


def stalls_of(port: int | None) -> dict[str, float]:
    """The longest time that each work held the loop of a node, in milliseconds, by its metrics port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        shown: list[str] = answer.read().decode().splitlines()
    found = {}
    for line in shown:
        if line.startswith(METRIC):
            name, value = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(value)
    return found
