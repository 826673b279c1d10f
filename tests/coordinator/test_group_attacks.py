"""Applications that misuse a group: two with one id, one that wakes too late, a reset while members join."""

import random
from collections.abc import Callable

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import tables
from fencepost.controller.groups.offset_messages import UNSTABLE_OFFSET, DeleteGroups, DeleteOffsets
from tests.coordinator.attack_bench import SESSION_MS, Application, Arena
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.group_bench import GROUP

CODE = ErrorCode
NOTHING = (-1, CODE.NONE)
WAITS = (UNSTABLE_OFFSET, CODE.UNSTABLE_OFFSET_COMMIT)
STEPS = 120


@pytest.fixture
def arena(bench: Bench) -> Arena:
    return Arena(bench)


def members(arena: Arena, *transactional_ids: str) -> list[Application]:
    """Members of a stable group, each with a producer."""
    names = [f"client-{number}" for number in range(len(transactional_ids))]
    ids = arena.groups.stable(*names)
    generation = arena.groups.row.generation
    found = [
        Application(arena, transactional_id, member_id, generation)
        for transactional_id, member_id in zip(transactional_ids, ids, strict=True)
    ]
    for each in found:
        assert each.init() == CODE.NONE
    return found


# -- two applications with one transactional id ------------------------------------------------------------

BEFORE: dict[str, tuple[Callable[[Application], ErrorCode], ...]] = {
    "it began": (),
    "AddOffsetsToTxn": (Application.add_offsets,),
    "TxnOffsetCommit": (Application.add_offsets, lambda alice: alice.send_offsets(7)),
}


@pytest.mark.parametrize("before", BEFORE)
def test_of_two_members_with_one_transactional_id_the_later_fences_the_earlier(
    arena: Arena, before: str
) -> None:
    """The earlier one is a member of the current generation all the time: that helps it nothing."""
    alice, bob = members(arena, "one", "other")
    bob.transactional_id = "one"
    for step in BEFORE[before]:
        assert step(alice) == CODE.NONE
    assert bob.init() in (CODE.NONE, CODE.CONCURRENT_TRANSACTIONS)
    assert bob.init() == CODE.NONE
    assert alice.heartbeat() == CODE.NONE
    assert alice.add_offsets() == CODE.PRODUCER_FENCED
    assert alice.send_offsets(8) == CODE.PRODUCER_FENCED
    assert alice.end() == CODE.PRODUCER_FENCED
    assert arena.fetch() == NOTHING
    assert (bob.add_offsets(), bob.send_offsets(9), bob.end()) == (CODE.NONE,) * 3
    assert arena.fetch() == (9, CODE.NONE)


@pytest.mark.parametrize("seed", range(10), ids="seed-{}".format)
def test_applications_with_one_transactional_id_commit_what_they_are_told_and_nothing_else(
    arena: Arena, seed: int
) -> None:
    """Goal: what is committed is that of the last EndTxn that was answered with success.

    Method: three members with one transactional id take steps of their loops in any order, and start again
    at any time; now and then the coordinator fails over. Replay: the seed is the test's.
    """
    rng = random.Random(seed)
    applications = members(arena, *["one"] * 3)
    pending: dict[int, int] = {}  # what each has sent in its open transaction
    committed, commits, fenced = -1, 0, 0
    for number in range(STEPS):
        who = rng.randrange(len(applications))
        each = applications[who]
        step = rng.choices(["init", "send", "commit", "abort", "fail over"], [2, 6, 4, 1, 1])[0]
        if step == "fail over":
            arena.fail_over()
        elif step == "init":
            if each.init() == CODE.NONE:
                pending.clear()  # an open transaction of another one is aborted
        elif step == "send":
            if (code := each.add_offsets()) == CODE.NONE:
                code = each.send_offsets(number)
            if code == CODE.NONE:
                pending[who] = number
            fenced += code == CODE.PRODUCER_FENCED
        elif each.end(committed=step == "commit") == CODE.NONE and who in pending:
            sent = pending.pop(who)
            if step == "commit":
                committed, commits = sent, commits + 1
        assert len(pending) <= 1
        assert arena.fetch(stable=False) == (committed, CODE.NONE)
        assert arena.fetch() == (WAITS if pending else (committed, CODE.NONE))
    assert commits
    assert fenced


# -- a member that is paused for longer than its session ---------------------------------------------------


def taken_over(arena: Arena, paused: Application) -> Application:
    """Its session ends, and another member has its partitions."""
    arena.bench.wait(SESSION_MS / 1000 + 0.1)
    assert paused.member_id not in arena.groups.members
    (heir,) = members(arena, "heir")
    assert heir.generation > paused.generation
    return heir


def test_what_a_member_commits_that_wakes_after_its_session_is_refused(arena: Arena) -> None:
    (alice,) = members(arena, "one")
    assert alice.commit(3) == CODE.NONE
    assert alice.add_offsets() == CODE.NONE
    heir = taken_over(arena, alice)
    assert heir.commit(5) == CODE.NONE
    for generation in (alice.generation, heir.generation, -1):
        alice.generation = generation
        assert alice.commit(9) == CODE.UNKNOWN_MEMBER_ID
        assert alice.send_offsets(9) == CODE.UNKNOWN_MEMBER_ID
    assert alice.end() == CODE.NONE, "its transaction is its own, and has no offset"
    assert arena.fetch() == (5, CODE.NONE)


def test_it_is_refused_before_another_member_is_there_and_after_the_group_is_empty(arena: Arena) -> None:
    (alice,) = members(arena, "one")
    assert alice.add_offsets() == CODE.NONE
    arena.bench.wait(SESSION_MS / 1000 + 0.1)
    assert alice.commit(9) == CODE.UNKNOWN_MEMBER_ID
    assert alice.send_offsets(9) == CODE.UNKNOWN_MEMBER_ID
    assert arena.fetch() == NOTHING


@pytest.mark.parametrize("committed", [True, False], ids=["commits", "aborts"])
def test_what_it_had_sent_before_counts_and_its_heir_waits_for_the_outcome(
    arena: Arena, committed: bool
) -> None:
    """EndTxn names no generation: so the heir may not begin before it, wherever that leads."""
    (alice,) = members(arena, "one")
    assert (alice.add_offsets(), alice.send_offsets(7)) == (CODE.NONE, CODE.NONE)
    taken_over(arena, alice)
    assert arena.fetch() == WAITS
    arena.fail_over()
    assert arena.fetch() == WAITS
    assert alice.end(committed=committed) == CODE.NONE
    assert arena.fetch() == ((7, CODE.NONE) if committed else NOTHING)


@pytest.mark.parametrize("first", ["heir", "paused"])
def test_an_heir_that_did_not_wait_is_not_set_back(arena: Arena, first: str) -> None:
    """It cannot wait (an old client): whichever transaction ends first, what was sent last counts."""
    (alice,) = members(arena, "one")
    assert (alice.add_offsets(), alice.send_offsets(7)) == (CODE.NONE, CODE.NONE)
    heir = taken_over(arena, alice)
    assert (heir.add_offsets(), heir.send_offsets(9)) == (CODE.NONE, CODE.NONE)
    for each in (heir, alice) if first == "heir" else (alice, heir):
        assert each.end() == CODE.NONE
    assert arena.fetch() == (9, CODE.NONE)


# -- a reset while members join ----------------------------------------------------------------------------


def test_offsets_are_reset_before_the_first_member_is_in_and_not_later(arena: Arena) -> None:
    arena.groups.server.operations.initial_delay_s = 3.0
    assert arena.reset(1) == CODE.NONE
    joining = arena.groups.join(client="alice")
    assert arena.reset(2) == CODE.NONE, "no member has read an offset yet"
    arena.bench.wait(3.1)
    joined = joining.answered()
    assert arena.reset(3) == CODE.UNKNOWN_MEMBER_ID
    arena.groups.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
    assert arena.fetch() == (2, CODE.NONE)
    assert arena.reset(4) == CODE.UNKNOWN_MEMBER_ID


def test_a_group_whose_first_members_join_is_not_deleted(arena: Arena) -> None:
    """Kafka: it is in PreparingRebalance. They would begin anew, past what was committed."""
    arena.groups.server.operations.initial_delay_s = 3.0
    assert arena.reset(7) == CODE.NONE
    joining = arena.groups.join(client="alice")
    answer = arena.outcome(arena.bench.ask(arena.offsets.server.delete_groups, DeleteGroups((GROUP,))))
    assert answer.results == ((GROUP, CODE.NON_EMPTY_GROUP),)
    arena.bench.wait(3.1)
    joined = joining.answered()
    arena.groups.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
    assert arena.fetch() == (7, CODE.NONE)


def test_a_deletion_that_has_begun_goes_to_its_end(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.controller.groups.offset_deletion.TOMBSTONES_MAX", 1)
    assert [arena.reset(7, each) for each in range(2)] == [CODE.NONE] * 2
    said = iter((False, True, True, True))
    arena.offsets.server.is_preparing = lambda _group_id: next(said)
    answer = arena.outcome(arena.bench.ask(arena.offsets.server.delete_groups, DeleteGroups((GROUP,))))
    assert answer.results == ((GROUP, CODE.NONE),)
    assert arena.offsets.kept() == 0


@pytest.mark.parametrize("seed", range(10), ids="seed-{}".format)
def test_no_reset_goes_between_a_member_that_has_joined_and_what_it_reads(arena: Arena, seed: int) -> None:
    """Goal: from the answer to a join until the group is empty, its offsets are its members' alone.

    Method: resets, deletions of the group and of offsets at any moment while members join, sync, leave and
    expire, and the coordinator fails over. Replay: the seed is the test's.
    """
    rng = random.Random(seed)
    server = arena.offsets.server
    committed, resets, refused = -1, 0, 0
    for number in range(STEPS):
        has_members = bool(tables.member_ids(arena.bench.replica.image, GROUP))
        joins = arena.groups.server.operations.is_preparing(GROUP)
        step = rng.choices(
            ["reset", "delete offset", "delete group", "join", "wait", "expire", "fail over"],
            [6, 2, 2, 6, 6, 1, 1],
        )[0]
        if step == "join":
            arena.groups.server.operations.initial_delay_s = rng.choice([0.0, 0.5])
            arena.groups.join(client=f"client-{number}", rebalance_timeout_ms=1_000)
        elif step == "wait":
            arena.bench.wait(0.3)
        elif step == "expire":
            arena.bench.wait(SESSION_MS / 1000 + 1.2)
        elif step == "fail over":
            arena.fail_over()
        elif step == "reset":
            code = arena.reset(number)
            assert code == (CODE.UNKNOWN_MEMBER_ID if has_members else CODE.NONE)
            committed = committed if has_members else number
            resets, refused = resets + (not has_members), refused + has_members
        elif step == "delete group":
            answer = arena.outcome(arena.bench.ask(server.delete_groups, DeleteGroups((GROUP,))))
            ((_, code),) = answer.results
            assert (code == CODE.NON_EMPTY_GROUP) == (has_members or joins)
            committed = -1 if code == CODE.NONE else committed
        else:
            outcome = arena.outcome(
                arena.bench.ask(server.delete_offsets, DeleteOffsets(GROUP, ((TOPIC, 0),)))
            )
            gone = not isinstance(outcome, ErrorCode) and outcome.rows[0].code == CODE.NONE
            assert not (gone and has_members), "the members' subscription cannot be read: it may be any topic"
            committed = -1 if gone else committed
        assert arena.fetch() == (committed, CODE.NONE)
    assert resets
    assert refused
