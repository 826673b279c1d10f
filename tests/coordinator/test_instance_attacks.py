"""Two processes with one ``group.instance.id``: one of them is the member, and the other one knows it."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import tables
from fencepost.controller.groups.leaving import Leaver
from fencepost.records.group_metadata import GroupState
from tests.coordinator.attack_bench import SESSION_MS, Application, Arena
from tests.coordinator.bench import Bench
from tests.coordinator.coordinator_node import Answer
from tests.coordinator.group_bench import GROUP

CODE = ErrorCode
INSTANCE = "instance"
STEPS = 250
PROCESSES = 2


@pytest.fixture
def arena(bench: Bench) -> Arena:
    return Arena(bench)


def started(arena: Arena, transactional_id: str) -> Application:
    """A process with the instance id that has joined, and synced if it leads."""
    joined = arena.groups.join(client=transactional_id, instance_id=INSTANCE).answered()
    made = Application(arena, transactional_id, joined.member_id, joined.generation, INSTANCE)
    if arena.groups.state() is GroupState.COMPLETING_REBALANCE:
        arena.groups.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
    assert made.init() == CODE.NONE
    return made


@pytest.mark.parametrize("fails_over", [False, True], ids=["at-once", "after-a-failover"])
def test_whatever_the_replaced_process_sends_is_fenced_but_the_end_of_its_transaction(
    arena: Arena, fails_over: bool
) -> None:
    old = started(arena, "one")
    assert (old.add_offsets(), old.send_offsets(7)) == (CODE.NONE, CODE.NONE)
    new = started(arena, "other")
    assert (new.generation, arena.groups.members) == (old.generation, [new.member_id])
    if fails_over:
        arena.fail_over()
    groups = arena.groups
    fenced = CODE.FENCED_INSTANCE_ID
    assert old.heartbeat() == fenced
    assert old.commit(8) == fenced
    assert old.send_offsets(8) == fenced
    assert groups.sync(old.member_id, old.generation, {}, instance_id=INSTANCE).answered() == fenced
    assert groups.join(old.member_id, instance_id=INSTANCE).answered() == fenced
    assert groups.leave(Leaver(old.member_id, INSTANCE)) == [fenced]
    assert arena.fetch()[1] == CODE.UNSTABLE_OFFSET_COMMIT
    assert new.heartbeat() == CODE.NONE
    assert old.end() == CODE.NONE, "EndTxn names no member"
    assert arena.fetch() == (7, CODE.NONE)
    assert new.commit(9) == CODE.NONE
    assert arena.groups.members == [new.member_id]


@dataclass
class Process:
    """One process with the instance id: what it knows of itself, and its request that is parked."""

    application: Application
    parked: Answer | None = None
    dead_ids: set[str] = field(default_factory=set)


def take(process: Process, answer: Answer) -> bool:
    """A JoinGroup's answer, now or when it comes; whether it has joined."""
    if not answer.outcomes:
        process.parked = answer
        return False
    process.parked = None
    outcome: Any = answer.answered()
    own = process.application
    if outcome == CODE.FENCED_INSTANCE_ID:
        process.dead_ids.add(own.member_id)
        own.member_id, own.generation = "", -1
    elif outcome in (CODE.UNKNOWN_MEMBER_ID, CODE.NOT_COORDINATOR, CODE.REBALANCE_IN_PROGRESS):
        own.member_id, own.generation = "", -1
    else:
        own.member_id, own.generation = outcome.member_id, outcome.generation
        return True
    return False


@pytest.mark.parametrize("seed", range(10), ids="seed-{}".format)
def test_one_process_is_the_member_and_it_alone_is_not_fenced(arena: Arena, seed: int) -> None:
    """Goal: one member has the instance id at any time; it is never answered 82; who was, never commits.

    Method: two processes with one instance id, and a member without one, join, sync and commit in any order,
    sessions end, and the coordinator fails over. Replay: the seed is the test's.
    """
    rng = random.Random(seed)
    groups = arena.groups
    processes = [Process(Application(arena, f"t-{n}", instance_id=INSTANCE)) for n in range(PROCESSES)]
    other = Process(Application(arena, "other"))
    commits = fenced = 0
    for number in range(STEPS):
        process = rng.choice([*processes, other])
        own = process.application
        step = rng.choices(
            ["join", "join anew", "sync", "commit", "fail over", "expire"], [5, 2, 9, 9, 1, 1]
        )[0]
        holder = tables.static_member_id(arena.bench.replica.image, GROUP, INSTANCE)
        code = None
        if step == "fail over":
            arena.fail_over()
        elif step == "expire":
            arena.bench.wait(SESSION_MS / 1000 + 1.5)
        elif step.startswith("join"):
            if process.parked is None:
                member_id = "" if step == "join anew" else own.member_id
                answer = groups.join(
                    member_id, client=own.transactional_id, instance_id=own.instance_id,
                    rebalance_timeout_ms=1_000,
                )  # fmt: skip
                code = answer.answered() if answer.outcomes else None
                take(process, answer)
        elif own.generation >= 0 and step == "sync":
            answer = groups.sync(
                own.member_id, own.generation, {own.member_id: b"all"}, instance_id=own.instance_id
            )
            code = answer.answered() if answer.outcomes else None
        elif own.generation >= 0:
            code = own.commit(number)
            commits += code == CODE.NONE
            if own.member_id in process.dead_ids:
                assert code != CODE.NONE
        if code == CODE.FENCED_INSTANCE_ID:
            fenced += 1
            assert holder != own.member_id, "the member itself is fenced"
            process.dead_ids.add(own.member_id)
        for each in (*processes, other):
            if each.parked is not None:
                is_joined = take(each, each.parked)
                assert not is_joined or step == "expire" or each.application.member_id in groups.members
        static = [
            each for each in tables.members(arena.bench.replica.image, GROUP) if each.instance_id == INSTANCE
        ]
        assert len(static) <= 1
        assert not {each.member_id for each in static} & set().union(*(p.dead_ids for p in processes))
    assert commits
    assert fenced
