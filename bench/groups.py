"""``fencepost bench groups``: how soon groups are stable, and what they commit, beside another cluster.

Peer      the cluster at ``--bootstrap-server``, as Apache Kafka: row by row the same processes load first the
          bench's own cluster, then the peer.
Rows      see bench/group_rows.py; loops are bench/loop_load.py's, commits bench/offset_load.py's.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from fencepost.bench import group_subjects
from fencepost.bench.group_rows import Row, Sizes, commit_row, loop_row, stable_row, warm_up
from fencepost.bench.group_subjects import CLUSTER, PEER, Own, Peer, Subject
from fencepost.bench.own_cluster import own_cluster
from fencepost.cluster.console import table

MEMBERS_MIN: Final = 2  # one is killed
MEMBERS_MAX: Final = 2_000  # of one group: controller/groups/joining.py
LOOPS_MAX: Final = 64
CLIENTS_MAX: Final = 2_000
STABLE: Final = "stable"
LOOPS: Final = "loops"
COMMITS: Final = "commits"
PARTS: Final = (LOOPS, COMMITS, STABLE)  # in this order: the last one kills nodes
STALLS_SHOWN: Final = 3
OWN_SETTINGS: Final = ("group.initial.rebalance.delay.ms=3000",)  # Kafka's default and ours; ``up`` writes 0

Show = Callable[[str], None]
Measure = Callable[[Subject], tuple[Row, str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and with how many."""

    parts: Sequence[str]
    members: Sequence[int]
    sizes: Sizes
    loops: Sequence[int]
    clients: Sequence[int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """``figures``: the document. ``faults``: by subject, of rows without figures or with wrong ones, why."""

    figures: dict[str, Any]
    faults: dict[str, list[str]]


def measure(
    plan: Plan,
    *,
    work: Path,
    node_count: int,
    port: int | None,
    directory: Path | None,
    peer: Peer | None,
    show: Show,
) -> Measured:
    """Each row of the plan, of a new cluster and of the peer, one after the other. Raises Failed."""
    if peer is not None:
        peer.require_whole(group_subjects.PEER_SECONDS_MAX)
    with own_cluster(work, node_count, port, directory, OWN_SETTINGS) as started:
        own = Own(started, show)
        subjects: list[Subject] = [own] if peer is None else [own, peer]
        figures: dict[str, Any] = {each.name: {part: [] for part in plan.parts} for each in subjects}
        faults: dict[str, list[str]] = {each.name: [] for each in subjects}
        for subject in subjects:
            warm_up(subject)
        for part, name, row in _rows(plan, f"bench-{secrets.token_hex(3)}"):
            for subject in subjects:
                show(f"{name}, {subject.name}")
                found, fault = row(subject)
                figures[subject.name][part].append(found)
                if fault:
                    faults[subject.name].append(f"{name}: {fault}")
        for node in started.cluster.nodes:
            own.note_stalls(node.node_id)
    figures["stalls_ms"] = dict(sorted(own.stalls_ms.items()))
    return Measured(figures, faults)


def _rows(plan: Plan, prefix: str) -> Iterator[tuple[str, str, Measure]]:
    """(part, name, what measures it); no group or topic that a cluster already has is touched."""
    if LOOPS in plan.parts:
        for loops in plan.loops:
            yield LOOPS, f"{loops} loops", partial(loop_row, prefix=prefix, loops=loops, seconds=plan.seconds)
    if COMMITS in plan.parts:
        for clients in plan.clients:
            for is_transactional in (False, True):
                kind = "transactional" if is_transactional else "plain"
                commits = partial(
                    commit_row,
                    prefix=prefix,
                    clients=clients,
                    seconds=plan.seconds,
                    transactional=is_transactional,
                )
                yield COMMITS, f"{clients} clients, {kind} commits", commits
    if STABLE in plan.parts:
        for members in plan.members:
            row = partial(stable_row, prefix=prefix, members=members, sizes=plan.sizes)
            yield STABLE, f"{members} members", row


def lines(figures: Mapping[str, Any]) -> str:
    """The document as tables, one for each part, and the longest holds of an event loop.

    X PEER is the cluster's rate over the peer's, or the peer's time over the cluster's: above 1 is faster.
    """
    own, peer = figures[CLUSTER], figures.get(PEER)
    shown = []
    if own.get(STABLE):
        times = (("COLD MS", "cold_ms"), ("MEMBER KILLED MS", "member_killed_ms"))
        shown.append(
            _table(
                {"MEMBERS": "members"},
                dict((*times, ("LEADER KILLED MS", "leader_killed_ms"))),
                (own[STABLE], peer and peer[STABLE]),
                is_time=True,
            )
        )
    if own.get(LOOPS):
        shown.append(_rates({"LOOPS": "loops"}, (own[LOOPS], peer and peer[LOOPS])))
    if own.get(COMMITS):
        keys = {"CLIENTS": "clients", "COMMITS": "kind"}
        shown.append(_rates(keys, (own[COMMITS], peer and peer[COMMITS])))
    longest = sorted(figures["stalls_ms"].items(), key=lambda each: -each[1])[:STALLS_SHOWN]
    stalls = ", ".join(f"{work} {held_ms:.0f} ms" for work, held_ms in longest)
    return "\n\n".join((*shown, f"Longest holds of a node's event loop: {stalls}"))


def _rates(keys: Mapping[str, str], rows: tuple[list[Row], list[Row] | None]) -> str:
    return _table(keys, {"PER S": "per_s"}, rows, is_time=False)


def _table(
    keys: Mapping[str, str],
    values: Mapping[str, str],
    rows: tuple[list[Row], list[Row] | None],
    *,
    is_time: bool,
) -> str:
    """A row for each of the cluster's; beside each value the peer's and their ratio, if there is a peer."""
    own, peer = rows
    columns = list(keys)
    for title in values:
        columns += [title] if peer is None else [title, "PEER", "X PEER"]
    if not is_time:
        columns += ["P50 MS", "P99 MS", "VERIFIED"]
    cells = []
    for position, row in enumerate(own):
        line: list[object] = [row[name] for name in keys.values()]
        for name in values.values():
            line.append(_number(row[name]))
            if peer is not None:
                line += [
                    _number(peer[position][name]),
                    _ratio(row[name], peer[position][name], is_time=is_time),
                ]
        if not is_time:
            line += [_number(row["p50_ms"], 2), _number(row["p99_ms"], 2), "yes" if row["verified"] else "NO"]
        cells.append(line)
    return table(columns, cells)


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratio(own: float | None, peer: float | None, *, is_time: bool) -> str:
    if not own or not peer:
        return "-"
    return f"{peer / own if is_time else own / peer:.2f}"
