"""The upgrade's commands against a model of ZooKeeper: there and back, spoilt writes, rivals, crashes."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import fencepost.bridge.migrator
import fencepost.bridge.upgrade
from fencepost.bridge.live_port import fence_content
from fencepost.bridge.zookeeper_port import Conflict, Fence
from fencepost.controller.errors import CoordinatorLoadInProgress, InvalidRequest, RequestTimedOut
from fencepost.controller.migration_phase import Intent, Phase
from fencepost.quorum.crash_points import CONTROLLER_POINTS
from fencepost.wire.k20021_migrate import LoggedFence
from tests.bridge.migration_bench import CLUSTER, Bench, Crash
from tests.zookeeper.kafka_rule import KafkaExhausted, kafkas_content, next_block_of_kafka
from tests.zookeeper.model import take_directly

Block = tuple[int, int]


@pytest.fixture
def bench() -> Bench:
    """Phase waiting; brokers took [0, 5000) from ZooKeeper."""
    made = Bench()
    for _ in range(5):
        take_directly(made.znode)
    return made


def first_of(answer: str) -> int:
    """``[5000, 6000)`` -> 5000."""
    return int(answer[1:].split(",", maxsplit=1)[0])


# -- there -------------------------------------------------------------------------------------------------


def test_the_whole_way(bench: Bench) -> None:
    assert bench.allocate(1) == ["CoordinatorLoadInProgress"]
    answer = bench.run("bridge")
    assert (answer.phase, answer.next_command, answer.ensemble) == ("bridge", "import", "zk")
    assert bench.allocate(1) == ["[5000, 6000)"]
    assert take_directly(bench.znode) == (6000, 6999), "old brokers go on beside it"
    answer = bench.run("import")
    assert (answer.phase, answer.next_command, answer.floor) == ("imported", "fence", 7000)
    assert take_directly(bench.znode) == (7000, 7999)
    assert bench.allocate(2) == ["[8000, 9000)"]
    assert take_directly(bench.znode) == (9000, 9999)
    answer = bench.run("fence")
    assert (answer.phase, answer.next_command, answer.floor) == ("quorum", "finalize", 10_000)
    assert answer.fence == LoggedFence(9999, 11), "behind the proof that we may write"
    with pytest.raises(KafkaExhausted):
        take_directly(bench.znode)
    assert bench.allocate(1) == ["[10000, 11000)"], "block_end + 1 of the fenced version"
    answer = bench.run("finalize")
    assert (answer.phase, answer.next_command) == ("finalized", "")
    assert bench.allocate(2) == ["[11000, 12000)"]


@pytest.mark.parametrize("command", ["bridge", "import", "fence", "finalize"])
def test_a_command_twice_is_as_once(bench: Bench, command: str) -> None:
    for each in ("bridge", "import", "fence", "finalize"):
        bench.run(each)
        if each == command:
            break
    records, version = list(bench.records), bench.znode.version
    assert bench.run(command).phase == bench.row.phase.label
    assert (bench.records, bench.znode.version) == (records, version)


def test_a_command_that_is_asked_again_while_it_runs_is_done_once(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    asked = [bench.command("fence") for _ in range(3)]
    bench.settle()
    assert [len(answers.all) for answers in asked] == [1, 1, 1]
    assert len(bench.znode.fenced) == 1


def test_ids_that_logs_show_are_below_the_floor(bench: Bench) -> None:
    bench.run("bridge")
    assert bench.run("import", at_least=7777).floor == 7777
    assert bench.allocate(1) == ["[7777, 8777)"]
    assert bench.run("fence").floor == 8777


# -- the fence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [True, False], ids=["conflicts-show-the-znode", "conflicts-say-nothing"])
def test_a_fence_among_rivals_takes_the_last_block_before_it(bench: Bench, looks: bool) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.looks_after_conflict = looks
    rivals = iter(range(20))
    bench.port.before_write = lambda: take_directly(bench.znode) if next(rivals, None) is not None else None
    assert bench.run("fence").floor == 25_000
    assert bench.row.intent == Intent(24_999, 26)
    assert bench.allocate(1) == ["[25000, 26000)"]


def test_among_rivals_the_fence_is_written_right_behind_a_write_of_ours(bench: Bench) -> None:
    """They leave no time for an intent: while one is applied, somebody writes, and reads again."""
    bench.go_to(Phase.IMPORTED)
    known, intents = [bench.znode.version], [0]

    def rival() -> None:
        applied = bench.reached.count("fence:intent-applied")
        if applied > intents[0]:
            if bench.znode.version == known[0]:
                take_directly(bench.znode)
            known[0], intents[0] = bench.znode.version, applied

    bench.port.before_write = rival
    assert bench.run("fence").floor == 5000
    assert bench.row.intent == Intent(4999, 6), "the block ends where it did, one version later"
    assert bench.znode.writes[-2] == kafkas_content(-1, 4000, 4999), "nobody's"


def test_a_fence_that_never_gets_through_says_so_and_can_be_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rivals that write after each intent; the quorum gives out no ids from the first one on."""
    monkeypatch.setattr(fencepost.bridge.upgrade, "FENCE_TRIES_MAX", 3)
    bench.go_to(Phase.IMPORTED)
    bench.port.before_write = lambda: take_directly(bench.znode) if bench.port.writes % 2 == 0 else None
    with pytest.raises(CoordinatorLoadInProgress, match=r"fence: 3 tries in .* run fence again, or rollback"):
        bench.run("fence")
    assert bench.row.phase is Phase.FENCING
    assert bench.allocate(1) == ["CoordinatorLoadInProgress"]
    bench.port.before_write = lambda: None
    assert bench.run("fence").floor == 8000


def test_a_fence_tries_for_so_long_and_no_longer(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)

    def slow_rival() -> None:
        take_directly(bench.znode)
        bench.now += 40

    bench.port.before_write = slow_rival
    with pytest.raises(CoordinatorLoadInProgress, match=r"2 tries in 80\.0 s"):
        bench.run("fence")


@pytest.mark.parametrize("spoilt", ["lost", "dropped", "late"])
@pytest.mark.parametrize("before", [[], ["ok"]], ids=["the-proof", "the-fence"])
def test_a_fence_whose_outcome_is_unknown_is_looked_for(bench: Bench, before: list[str], spoilt: str) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.spoil.extend([*before, spoilt])
    assert bench.run("fence").floor == 5000
    is_written_twice = not before and spoilt == "lost"
    assert bench.znode.version == (8 if is_written_twice else 7)
    assert not any(isinstance(landed, Conflict) is False for landed in bench.port.land())


def test_a_rival_was_faster_than_a_fence_that_was_not_heard_of(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.spoil.extend(["ok", "late"])
    rivals = iter([False, False, True])
    bench.port.before_write = lambda: take_directly(bench.znode) if next(rivals, False) else None
    assert bench.run("fence").floor == 6000
    assert bench.row.intent == Intent(5999, 8)


def test_those_who_wait_for_zookeeper_are_let_go_when_it_is_fenced(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    fence = bench.command("fence")
    asked = bench.ask(1, 2)
    bench.settle()
    assert fence.all[0].phase == "quorum"
    refused = ["CoordinatorLoadInProgress"]
    assert [a.codes for a in asked] == [refused, refused], "at once, not when the fence is done"


def test_a_fence_that_the_log_does_not_explain_is_refused(bench: Bench) -> None:
    """Somebody wrote it by hand, or from a backup."""
    bench.go_to(Phase.IMPORTED)
    model = bench.znode
    model.set(fence_content(Fence(CLUSTER, Intent(4999, model.version))), model.version)
    with pytest.raises(InvalidRequest, match="the znode was written by hand"):
        bench.run("fence")
    assert bench.row.phase is Phase.IMPORTED


# -- back --------------------------------------------------------------------------------------------------


def test_a_rollback_goes_on_above_every_id_that_was_given_out(bench: Bench) -> None:
    bench.go_to(Phase.QUORUM)
    assert bench.allocate(1, 2) == ["[5000, 6000)", "[6000, 7000)"]
    answer = bench.run("rollback")
    assert (answer.phase, answer.next_command, answer.fence) == ("bridge", "import", None)
    assert take_directly(bench.znode) == (7000, 7999)
    assert bench.allocate(1) == ["[8000, 9000)"]
    bench.go_to(Phase.QUORUM)
    assert bench.allocate(1) == ["[9000, 10000)"], "and there again"


def test_a_rollback_of_a_fence_that_is_in_place(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    take_directly(bench.znode)
    bench.crash_at = "fence:fence-written"
    with pytest.raises(Crash):
        bench.run("fence")
    bench.lead()
    bench.run("rollback")
    assert take_directly(bench.znode) == (6000, 6999), "above what direct writers had before the fence"


def test_a_rollback_of_a_fence_that_is_on_its_way(bench: Bench) -> None:
    """It was sent, then its leader died; it gets to the server after the rollback."""
    bench.go_to(Phase.IMPORTED)
    bench.port.spoil.extend(["ok", "late"])
    bench.port.holding = True
    bench.command("fence")
    while bench.port.writes < 2:
        bench.settle()
        bench.port.release()
        bench.port.holding = True
    bench.depose()
    late = bench.port
    bench.lead()
    bench.run("rollback")
    assert isinstance(late.land()[0], Conflict), "it must not fence what was rolled back"
    assert take_directly(bench.znode) == (5000, 5999)


def test_a_rollback_of_a_fence_while_direct_writers_go_on(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.crash_at = "fence:intent-applied"
    with pytest.raises(Crash):
        bench.run("fence")
    bench.lead()
    rivals = iter(range(5))
    bench.port.before_write = lambda: take_directly(bench.znode) if next(rivals, None) is not None else None
    bench.run("rollback")
    assert take_directly(bench.znode) == (10_000, 10_999)


@pytest.mark.parametrize("spoilt", ["lost", "dropped", "late"])
def test_a_rollback_whose_write_is_not_heard_of_writes_again(bench: Bench, spoilt: str) -> None:
    bench.go_to(Phase.QUORUM)
    bench.allocate(1)
    bench.port.spoil.append(spoilt)
    bench.run("rollback")
    assert take_directly(bench.znode) == (6000, 6999)
    assert all(isinstance(landed, Conflict) for landed in bench.port.land())


def test_a_rollback_against_rivals_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.bridge.upgrade, "WRITE_TRIES_MAX", 3)
    bench.go_to(Phase.IMPORTED)
    bench.crash_at = "fence:intent-applied"
    with pytest.raises(Crash):
        bench.run("fence")
    bench.lead()
    bench.port.before_write = lambda: take_directly(bench.znode)
    with pytest.raises(CoordinatorLoadInProgress, match="rollback: 3 tries"):
        bench.run("rollback")
    assert bench.row.phase is Phase.ROLLING_BACK
    assert bench.allocate(1) == ["CoordinatorLoadInProgress"]
    bench.port.before_write = lambda: None
    assert bench.run("rollback").phase == "bridge"


@pytest.mark.parametrize("phase", [Phase.BRIDGE, Phase.IMPORTED], ids=lambda phase: phase.label)
def test_where_zookeeper_gives_out_the_ids_a_rollback_writes_nothing(bench: Bench, phase: Phase) -> None:
    bench.go_to(phase)
    version = bench.znode.version
    assert bench.run("rollback").phase == "bridge"
    assert bench.znode.version == version


def test_a_rollback_does_not_touch_the_fence_of_others(bench: Bench) -> None:
    bench.go_to(Phase.QUORUM)
    bench.znode.content = fence_content(Fence("other", Intent(4999, 5)))
    with pytest.raises(InvalidRequest, match="fenced by fencepost cluster other, this is the-cluster"):
        bench.run("rollback")
    assert bench.row.phase is Phase.ROLLING_BACK, "nobody gives out ids until somebody has looked"
    assert "cluster other" in bench.run("status").blocking[0]


# -- crashes -----------------------------------------------------------------------------------------------

THERE_AND_BACK = ("bridge", "import", "fence", "rollback", "import", "fence", "finalize")


@pytest.mark.parametrize("point", CONTROLLER_POINTS)
@pytest.mark.parametrize("spoilt", ["ok", "lost", "late"])
def test_after_a_crash_at_any_point_the_same_command_completes(bench: Bench, point: str, spoilt: str) -> None:
    """Blocks are taken by both sides between all steps; nobody ever gets an id twice."""
    blocks: list[Block] = [(0, 4999)]
    crashed = []

    def somebody_asks() -> None:
        try:
            first, last = take_directly(bench.znode)
            blocks.append((first, last))
        except KafkaExhausted:
            assert bench.row.phase not in (Phase.BRIDGE, Phase.IMPORTED), "a fence in the wrong phase"
        told = guarded(lambda: bench.allocate(1, 2)) or []
        blocks.extend((first_of(each), first_of(each) + 999) for each in told if each.startswith("["))

    def guarded(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Crash:
            crashed.append(point)
            late = bench.port
            bench.lead()
            late.land()
            return None

    bench.crash_at = point
    for command in THERE_AND_BACK:
        somebody_asks()
        bench.port.spoil.append(spoilt)
        while guarded(partial(bench.run, command)) is None:
            somebody_asks()
            assert bench.run("status").blocking == ()
        bench.port.spoil.clear()
    somebody_asks()
    assert crashed == [point]
    assert bench.row.phase is Phase.FINALIZED
    assert bench.allocate(1)[0].startswith("[")
    ordered = sorted(blocks)
    assert [pair for pair in pairwise(ordered) if pair[1][0] <= pair[0][1]] == []


@pytest.mark.parametrize("point", [p for p in CONTROLLER_POINTS if p.startswith("fence:")])
def test_the_new_era_begins_right_after_the_fenced_block_whatever_crashes(bench: Bench, point: str) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.crash_at = point
    with pytest.raises(Crash):
        bench.run("fence")
    bench.lead()
    if point in ("fence:block-read", "fence:intent-applied"):
        take_directly(bench.znode)
    bench.run("fence")
    ((version, before),) = bench.znode.fenced
    end = next_block_of_kafka(before)[0]
    assert bench.row.intent == Intent(end - 1, version)
    assert bench.allocate(1) == [f"[{end}, {end + 1000})"]


def test_a_deposed_leader_leaves_its_command_to_the_next(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    asked = bench.command("fence")
    bench.apply()
    bench.depose()
    assert asked.codes == ["NotController"]
    assert bench.migrator._upgrade.progress == ""
    bench.lead()
    assert bench.run("fence").phase == "quorum"


def test_an_intent_of_unknown_fate_fences_nothing(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    asked = bench.command("fence")
    bench.apply()  # the preview
    ((_, reply),) = bench.pending
    bench.pending = []
    reply(RequestTimedOut("unknown"), 0)
    assert asked.codes == ["RequestTimedOut"]
    assert bench.znode.fenced == []
