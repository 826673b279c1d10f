"""The upgrade proves before it depends: who may not write, what no block means, what a word weighs."""

import pytest

import fencepost.bridge.upgrade
from fencepost.bridge.upgrade_ways import Obstructed
from fencepost.bridge.zookeeper_port import Conflict
from fencepost.controller.errors import CoordinatorLoadInProgress, InvalidRequest
from fencepost.controller.migration_phase import Intent, Phase
from tests.bridge.migration_bench import Bench
from tests.zookeeper.kafka_rule import KafkaExhausted, kafkas_content
from tests.zookeeper.model import ZnodeModel, take_directly


@pytest.fixture
def bench() -> Bench:
    """Phase waiting; brokers took [0, 5000) from ZooKeeper."""
    made = Bench()
    for _ in range(5):
        take_directly(made.znode)
    return made


# -- who may not write -------------------------------------------------------------------------------------


@pytest.mark.row("beyond.2")
def test_a_fence_that_may_not_be_written_logs_nothing(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.may_write = False
    records = list(bench.records)
    with pytest.raises(InvalidRequest, match=r"ZooKeeper refuses: .* NoAuthError"):
        bench.run("fence")
    assert (bench.records, bench.row.phase) == (records, Phase.IMPORTED)
    assert "NoAuthError" in bench.run("status").blocking[0], "what was refused last"
    bench.lead()
    bench.port.may_write = False
    assert "lets no one write it: world:anyone:r" in bench.run("status").blocking[0], "what the list says"
    bench.port.may_write = True
    assert bench.run("fence").phase == "quorum"
    assert bench.run("status").blocking == ()


@pytest.mark.row("beyond.2")
def test_a_rollback_that_may_not_write_does_not_stop_the_quorum(bench: Bench) -> None:
    bench.go_to(Phase.QUORUM)
    bench.port.may_write = False
    with pytest.raises(InvalidRequest, match="NoAuthError"):
        bench.run("rollback")
    assert bench.allocate(1) == ["[5000, 6000)"]
    bench.port.may_write = True
    assert bench.run("rollback").phase == "bridge"


@pytest.mark.row("beyond.2")
def test_a_rollback_without_a_write_needs_a_znode_past_the_fence(bench: Bench) -> None:
    """At the intent's version a fence can still be on its way; a broker that writes ends that."""
    bench.go_to(Phase.IMPORTED)
    bench.port.spoil.extend(["ok", "late"])
    bench.crash_at = "fence:fence-written"
    bench.port.may_write = True
    fence = bench.command("fence")
    while bench.port.writes < 2:
        bench.apply()
    assert not fence.all
    late = bench.port
    bench.lead()
    bench.port.may_write = False
    with pytest.raises(InvalidRequest, match="NoAuthError"):
        bench.run("rollback")
    assert bench.row.phase is Phase.ROLLING_BACK
    take_directly(bench.znode)
    assert bench.run("rollback").phase == "bridge"
    assert all(isinstance(landed, Conflict) for landed in late.land())
    assert take_directly(bench.znode) == (6000, 6999)


@pytest.mark.row("beyond.2")
@pytest.mark.parametrize("exists", [True, False], ids=["made-anew", "gone"])
@pytest.mark.parametrize("command", ["bridge", "import", "fence"])
def test_the_word_that_there_is_no_block_is_held_against_the_log(
    bench: Bench, command: str, exists: bool
) -> None:
    """Brokers would begin at 0 again."""
    for each in ("bridge", "import"):
        bench.run(each)
    bench.znode.exists, bench.znode.content, bench.znode.version = exists, None, 0
    with pytest.raises(InvalidRequest, match=r"are given out|is gone"):
        bench.run(command, no_block_yet=True)
    assert (bench.znode.exists, bench.znode.version) == (exists, 0)


def test_a_fence_again_sees_whether_it_is_there(bench: Bench) -> None:
    bench.go_to(Phase.QUORUM)
    assert "fenced already" in bench.run("fence").message
    bench.znode.content = kafkas_content(1, 4000, 4999)
    with pytest.raises(InvalidRequest, match="the fence is gone"):
        bench.run("fence")


def test_while_nothing_can_be_written_zookeeper_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.bridge.upgrade, "FENCE_TRIES_MAX", 3)
    bench.go_to(Phase.IMPORTED)
    bench.port.before_write = lambda: take_directly(bench.znode)
    with pytest.raises(CoordinatorLoadInProgress, match=r"3 tries in .* ZooKeeper goes on giving out ids"):
        bench.run("fence")
    assert bench.row.phase is Phase.IMPORTED
    bench.port.before_write = lambda: None
    assert bench.allocate(1) == ["[8000, 9000)"]


# -- no block -----------------------------------------------------------------------------------------------


def test_where_no_block_was_ever_written() -> None:
    bench = Bench()
    for command in ("bridge", "import", "fence"):
        with pytest.raises(Obstructed, match="--no-block-yet"):
            bench.run(command)
        bench.run(command, no_block_yet=True)
    assert bench.row.intent == Intent(999, 1), "the first block is wasted on the proof that we may write"
    assert bench.allocate(1) == ["[1000, 2000)"]
    with pytest.raises(KafkaExhausted):
        take_directly(bench.znode)


def test_where_there_is_no_znode_the_bridge_makes_it() -> None:
    bench = Bench(znode=ZnodeModel(exists=False))
    with pytest.raises(Obstructed, match="--no-block-yet"):
        bench.run("bridge")
    assert "would be made" in bench.run("bridge", dry_run=True, no_block_yet=True).message
    assert not bench.znode.exists
    assert "it was made" in bench.run("bridge", no_block_yet=True).message
    assert take_directly(bench.znode) == (0, 999)
    assert bench.allocate(1) == ["[1000, 2000)"]
