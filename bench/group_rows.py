"""The rows of ``bench groups``: each loads one cluster once, from processes that are made for it.

Stable    every member has its assignment in one generation. Cold: from before the first member is made.
          Member: from the last heartbeat of a process that is killed then, less its session timeout. Leader:
          from SIGKILL of the coordinator's node until each member has an answer to a heartbeat that it sent
          since. group.initial.rebalance.delay.ms is the cluster's, and is part of the first.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fencepost.bench import loop_load, offset_load
from fencepost.bench.group_load import AwaitHeard, AwaitStable, Enter, Leave, Ready, Refresh, Stable, Where
from fencepost.bench.group_subjects import Subject, bootstrap_of
from fencepost.bench.history import percentile
from fencepost.bench.loop_load import Create, Looped
from fencepost.bench.offset_load import Loaded
from fencepost.bench.process import Child, child
from fencepost.cluster.console import Failed

GROUP_MODULE: Final = "fencepost.bench.group_load"
OFFSET_MODULE: Final = "fencepost.bench.offset_load"
LOOP_MODULE: Final = "fencepost.bench.loop_load"
STABLE_SECONDS_MAX: Final = 120.0
HEARD_SECONDS_MAX: Final = 120.0
GENERATIONS_MAX: Final = 20  # that two processes' members may be apart by, one after the other
SESSION_MS: Final = 45_000  # Kafka's default
VICTIM_SESSION_MS: Final = 6_000  # the shortest that Kafka's default allows
WARM_UP_SECONDS: Final = 1.0
TOPIC_PARTITIONS: Final = 10  # of the topic that offsets are committed of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of each member."""

    subscription: int
    assignment: int


def warm_up(subject: Subject) -> None:
    """Let a group come and go: Kafka makes the topic of groups when it is first needed. Raises Failed."""
    with child("first members", GROUP_MODULE) as load:
        load.ask(_enter(subject, "bench-first", 1, Sizes(0, 0)), type(None))
        load.ask(AwaitStable(0, STABLE_SECONDS_MAX), Stable)
        load.ask(Leave(), type(None))


def stable_row(subject: Subject, prefix: str, members: int, sizes: Sizes) -> tuple[Row, str]:
    """Three times in milliseconds; ``leader_killed_ms`` None: the subject's nodes cannot be killed."""
    row: Row = {"members": members, "cold_ms": None, "member_killed_ms": None, "leader_killed_ms": None}
    try:
        with child("members", GROUP_MODULE) as load, child("member to kill", GROUP_MODULE) as victim:
            _measure_stable(subject, f"{prefix}-{members}", members, sizes, (load, victim), row)
    except Failed as error:
        return row, error.message
    return row, ""


def _measure_stable(
    subject: Subject, group_id: str, members: int, sizes: Sizes, children: tuple[Child, Child], row: Row
) -> None:
    load, victim = children
    enter = _enter(subject, group_id, members - 1, sizes)
    for each in children:
        each.ask(Ready(), type(None))
    began_ns = time.monotonic_ns()
    load.ask(enter, type(None))
    victim.ask(msgspec.structs.replace(enter, members=1, session_ms=VICTIM_SESSION_MS), type(None))
    stable = _all_stable(children)
    row["cold_ms"] = _ms(stable.at_ns - began_ns)

    heard_ns = victim.ask(Refresh(), int)
    os.kill(victim.pid, signal.SIGKILL)  # our own child
    without = load.ask(AwaitStable(stable.generation + 1, STABLE_SECONDS_MAX), Stable)
    row["member_killed_ms"] = _ms(without.at_ns - heard_ns - VICTIM_SESSION_MS * 1_000_000)

    if subject.can_kill:
        node_id = load.ask(Where(), int)
        before_ns = subject.kill(node_id)
        try:
            heard_ns = load.ask(AwaitHeard(time.monotonic_ns(), HEARD_SECONDS_MAX), int)
        finally:
            subject.restore(node_id)
        row["leader_killed_ms"] = _ms(heard_ns - before_ns)
    load.ask(Leave(), type(None))


def _enter(subject: Subject, group_id: str, members: int, sizes: Sizes) -> Enter:
    return Enter(
        bootstrap=subject.addresses,
        group_id=group_id,
        topic=group_id,
        members=members,
        subscription_bytes=sizes.subscription,
        assignment_bytes=sizes.assignment,
        session_ms=SESSION_MS,
    )


def _all_stable(children: Sequence[Child]) -> Stable:
    """When the members of all processes are in one generation."""
    generation_min = 0
    for _ in range(GENERATIONS_MAX):
        each = [one.ask(AwaitStable(generation_min, STABLE_SECONDS_MAX), Stable) for one in children]
        generation_min = max(found.generation for found in each)
        if all(found.generation == generation_min for found in each):
            return Stable(generation_min, max(found.at_ns for found in each))
    raise Failed(f"the group never comes to rest; its generation is {generation_min}")


def loop_row(subject: Subject, prefix: str, loops: int, seconds: float) -> tuple[Row, str]:
    """Loops per second, with latencies."""
    load = loop_load.Load(
        bootstrap=bootstrap_of(subject),
        prefix=f"{prefix}-loops-{loops}",
        loops=loops,
        warm_up_s=WARM_UP_SECONDS,
        seconds=seconds,
    )
    row: Row = {"loops": loops}
    try:
        with child("loops", LOOP_MODULE) as looping:
            looped = looping.ask(load, Looped)
    except Failed as error:
        return row | _rate([], seconds, error.message), error.message
    return row | _rate(looped.latencies_ns, seconds, looped.fault), looped.fault


def commit_row(
    subject: Subject, prefix: str, clients: int, seconds: float, *, transactional: bool
) -> tuple[Row, str]:
    """Offset commits per second, with latencies."""
    kind = "transactional" if transactional else "plain"
    topic = f"{prefix}-{kind}-{clients}"
    load = offset_load.Load(
        bootstrap=subject.addresses,
        prefix=topic,
        topic=topic,
        partitions=TOPIC_PARTITIONS,
        clients=clients,
        transactional=transactional,
        warm_up_s=WARM_UP_SECONDS,
        seconds=seconds,
    )
    row: Row = {"clients": clients, "kind": kind}
    try:
        with child("topics", LOOP_MODULE) as topics:
            topics.ask(Create(bootstrap_of(subject), topic, TOPIC_PARTITIONS), type(None))
        with child("commits", OFFSET_MODULE) as committing:
            loaded = committing.ask(load, Loaded)
    except Failed as error:
        return row | _rate([], seconds, error.message), error.message
    return row | _rate(loaded.latencies_ns, seconds, loaded.fault), loaded.fault


def _rate(latencies_ns: Sequence[int], seconds: float, fault: str) -> Row:
    ordered = sorted(latencies_ns)
    p50_ns, p99_ns = percentile(ordered, 0.50), percentile(ordered, 0.99)
    return {
        "per_s": round(len(ordered) / seconds, 1),
        "p50_ms": None if p50_ns is None else round(p50_ns / 1e6, 3),
        "p99_ms": None if p99_ns is None else round(p99_ns / 1e6, 3),
        "verified": not fault,
    }


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 1)
