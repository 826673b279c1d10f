"""Many groups, and members at their limits: how soon the next coordinator commits, and what holds a loop.

Groups     of one offset each, some first, then many: the coordinator's node is killed a few times with each.
Members    a group that takes all the bytes that one may have is formed, loses a member, and its coordinator.
Expiry     the nodes are started again with the shortest retention, and forget all offsets and groups.
Figures    what the nodes measured themselves (bench/stalls.py), killed ones too, in all of this.
"""

import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from fencepost.bench.group_fill import Count, Fill, FirstCommit, Where
from fencepost.bench.group_rows import Sizes, stable_row
from fencepost.bench.group_subjects import Own, bootstrap_of
from fencepost.bench.loop_load import Create
from fencepost.bench.own_cluster import OwnCluster
from fencepost.bench.process import Child, child
from fencepost.bench.stalls import STALL_MS
from fencepost.cluster.console import Failed, table
from fencepost.cluster.lifecycle import start_nodes, stop_nodes
from fencepost.cluster.local_cluster import CONFIG
from fencepost.cluster.state import await_live, leader_id
from fencepost.controller.groups.joining import GROUP_BYTES_MAX

FEW: Final = 10
KILLS: Final = 3  # with each number of groups
PARTITIONS: Final = 10
MEMBERS: Final = 1_000
MEMBER_BYTES: Final = 320  # of a member beside subscription and assignment, at most: ids, lengths
COMMIT_SECONDS_MAX: Final = 60.0
EXPIRED_SECONDS_MAX: Final = 1_200.0
RETENTION: Final = "offsets.retention.minutes"
SETTINGS: Final = (f"{RETENTION}=10080", "offsets.retention.check.interval.ms=5000", "log.level=warning")
LOOK_SECONDS: Final = 5.0

Show = Callable[[str], None]


def measure(own: OwnCluster, groups: int, show: Show) -> dict[str, Any]:
    """``takeovers`` (a row for each number of groups), ``members``, ``expiry`` and ``stalls_ms``.

    ``own`` was made with SETTINGS. Raises Failed.
    """
    subject = Own(own, show)
    name = f"bench-{secrets.token_hex(3)}"
    where = Where(bootstrap=subject.addresses, prefix=f"{name}-groups", topic=name, partitions=PARTITIONS)
    with child("topics", "fencepost.bench.loop_load") as topics:
        topics.ask(Create(bootstrap_of(subject), name, PARTITIONS), type(None))
    with child("groups", "fencepost.bench.group_fill") as load:
        takeovers, first = [], 0
        for count in (FEW, groups):
            show(f"{count} groups")
            load.ask(Fill(where, first, count), type(None))
            first = count
            takeovers.append(_takeovers(subject, load, where, count))
        show(f"{MEMBERS} members of one group, at its limit")
        each = GROUP_BYTES_MAX // MEMBERS - MEMBER_BYTES
        members, fault = stable_row(subject, name, MEMBERS, Sizes(each // 2, each // 2))
        if fault:
            raise Failed(f"{MEMBERS} members: {fault}")
        expiry = _expire(subject, load, where, groups)
    stalls_ms = dict(sorted(subject.stalls_ms.items()))
    return {"takeovers": takeovers, "members": members, "expiry": expiry, "stalls_ms": stalls_ms}


def _takeovers(subject: Own, load: Child, where: Where, groups: int) -> dict[str, Any]:
    """From SIGKILL of the coordinator's node to the answer of the first commit."""
    found_ms = []
    for _ in range(KILLS):
        leader = leader_id(subject.cluster.cluster)
        if leader is None:
            raise Failed("the cluster has no leader")
        before_ns = subject.kill(leader)
        at_ns = load.ask(FirstCommit(where, COMMIT_SECONDS_MAX), int)
        found_ms.append(round((at_ns - before_ns) / 1e6, 1))
        subject.restore(leader)
    return {"groups": groups, "takeover_ms": statistics.median(found_ms), "takeovers_ms": found_ms}


def _expire(subject: Own, load: Child, where: Where, groups: int) -> dict[str, Any]:
    """Start the nodes with a retention of one minute, and wait until all of the groups are forgotten."""
    own, show = subject.cluster, subject.show
    for node in own.cluster.nodes:
        subject.note_stalls(node.node_id)
    stop_nodes(own.cluster.nodes)
    for node in own.cluster.nodes:
        file = node.directory / CONFIG
        lines = file.read_text("utf-8").splitlines()
        kept = [line for line in lines if not line.startswith(RETENTION)]
        file.write_text("\n".join([*kept, f"{RETENTION}=1", ""]), "utf-8")
    own.children.update(start_nodes(own.cluster, own.cluster.nodes))
    await_live(own.cluster, own.children, show)
    began_s = time.monotonic()
    left = load.ask(Count(where), int)
    while left:
        if time.monotonic() > began_s + EXPIRED_SECONDS_MAX:
            raise Failed(f"{left} of {groups} groups are left after {EXPIRED_SECONDS_MAX:.0f} s")
        show(f"{left} of {groups} groups are left")
        time.sleep(LOOK_SECONDS)
        left = load.ask(Count(where), int)
    for node in own.cluster.nodes:
        subject.note_stalls(node.node_id)
    return {"groups": groups, "seconds": round(time.monotonic() - began_s, 1)}


def is_sound(figures: dict[str, Any]) -> bool:
    """Nothing held a loop for too long."""
    return all(held_ms < STALL_MS for held_ms in figures["stalls_ms"].values())


def lines(figures: dict[str, Any]) -> str:
    """The figures as tables, and what held a loop, the longest first."""
    takeovers = [
        (row["groups"], f"{row['takeover_ms']:.0f}", ", ".join(f"{each:.0f}" for each in row["takeovers_ms"]))
        for row in figures["takeovers"]
    ]
    members, expiry = figures["members"], figures["expiry"]
    times = [f"{members[each]:.0f}" for each in ("cold_ms", "member_killed_ms", "leader_killed_ms")]
    stalls = sorted(figures["stalls_ms"].items(), key=lambda each: -each[1])
    return "\n\n".join(
        (
            table(("GROUPS", "TAKEOVER MS", "EACH"), takeovers),
            table(
                ("MEMBERS", "COLD MS", "MEMBER KILLED MS", "LEADER KILLED MS"), [(members["members"], *times)]
            ),
            f"{expiry['groups']} groups were forgotten in {expiry['seconds']:.0f} s, with {RETENTION}=1",
            table(("WORK", "MS"), [(work, f"{held_ms:.1f}") for work, held_ms in stalls]),
        )
    )
