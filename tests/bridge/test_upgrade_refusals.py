"""The upgrade's commands: what is refused with which words, dry runs, files, and what status says."""

from typing import Any

import pytest

import fencepost.bridge.migrator
import fencepost.bridge.upgrade
from fencepost.bridge.live_port import block_content, fence_content
from fencepost.bridge.upgrade_status import STANDING_MAX
from fencepost.bridge.zookeeper_port import Fence, Refused, Unavailable, Unnamed, Unreadable
from fencepost.controller.errors import CoordinatorLoadInProgress, InvalidRequest
from fencepost.controller.migration_phase import NEXT_COMMAND, Intent, Phase
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import PRODUCER_ID_MAX, ProducerId
from fencepost.wire.k20021_migrate import MIGRATE, LoggedFence, SeenZnode
from fencepost.wire.private_api import JSON_BYTES_MAX
from tests.bridge.migration_bench import Bench, Crash, stopped
from tests.zookeeper.kafka_rule import kafkas_content
from tests.zookeeper.model import take_directly, znode

FORWARD = ("bridge", "import", "fence", "finalize")
RESTING = ("waiting", "bridge", "imported", "quorum", "finalized")


@pytest.fixture
def bench() -> Bench:
    """Phase waiting; brokers took [0, 5000) from ZooKeeper."""
    made = Bench()
    for _ in range(5):
        take_directly(made.znode)
    return made


# -- a znode that nothing explains --------------------------------------------------------------------------

UNEXPLAINED = [
    pytest.param(
        kafkas_content(7, PRODUCER_ID_MAX - 1999, PRODUCER_ID_MAX - 999),
        "no fence of this cluster explains it",
        id="the-end-of-the-ids",
    ),
    pytest.param(
        kafkas_content(7, PRODUCER_ID_MAX - 999, PRODUCER_ID_MAX), "all producer ids end", id="the-last-id"
    ),
    pytest.param(
        fence_content(Fence("other", Intent(4999, 6))), "fenced by fencepost cluster other", id="others-fence"
    ),
    pytest.param(b"[]", "latest_producer_id_block", id="not-kafkas"),
    pytest.param(None, "it was written before", id="wiped"),
]


@pytest.mark.parametrize(("content", "says"), UNEXPLAINED)
@pytest.mark.parametrize(
    ("phase", "command"),
    [(Phase.WAITING, "bridge"), (Phase.BRIDGE, "import"), (Phase.IMPORTED, "fence")],
    ids=["bridge", "import", "fence"],
)
def test_a_znode_that_nothing_explains_stops_the_upgrade(
    bench: Bench, phase: Phase, command: str, content: bytes | None, says: str
) -> None:
    bench.go_to(phase)
    bench.znode.content, bench.znode.version = content, 7
    records = list(bench.records)
    with pytest.raises(InvalidRequest, match=says):
        bench.run(command)
    assert (bench.records, bench.znode.version, bench.row.phase) == (records, 7, phase)
    (blocking,) = bench.run("status").blocking
    assert says.partition(" by")[0] in blocking


# -- out of order, elsewhere, not there ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "command"),
    [
        pytest.param(phase, command, id=f"{command}-in-{phase.label}")
        for phase in (Phase.WAITING, Phase.BRIDGE, Phase.IMPORTED, Phase.QUORUM, Phase.FINALIZED)
        for command in (*FORWARD, "rollback")
        if (phase, command)
        not in {
            (Phase.WAITING, "bridge"),
            (Phase.BRIDGE, "bridge"),
            (Phase.BRIDGE, "import"),
            (Phase.BRIDGE, "rollback"),
            (Phase.IMPORTED, "bridge"),
            (Phase.IMPORTED, "import"),
            (Phase.IMPORTED, "fence"),
            (Phase.IMPORTED, "rollback"),
            (Phase.QUORUM, "fence"),
            (Phase.QUORUM, "finalize"),
            (Phase.QUORUM, "rollback"),
            (Phase.FINALIZED, "finalize"),
        }
    ],
)
def test_a_command_out_of_order_writes_nothing(bench: Bench, phase: Phase, command: str) -> None:
    bench.go_to(phase)
    records, version = list(bench.records), bench.znode.version
    with pytest.raises(InvalidRequest) as refusal:
        bench.run(command)
    assert (bench.records, bench.znode.version) == (records, version)
    following = NEXT_COMMAND[phase]
    advice = f"next: fencepost migrate {following}" if following else "the upgrade is over"
    assert advice in str(refusal.value)


@pytest.mark.parametrize("command", ["bridge", "import", "fence", "finalize", "rollback"])
@pytest.mark.parametrize(
    ("told", "error", "says"),
    [
        pytest.param("elsewhere", InvalidRequest, "of Kafka cluster zk, but this", id="another-ensemble"),
        pytest.param(Unavailable("no route"), CoordinatorLoadInProgress, "no route", id="out-of-reach"),
        pytest.param(Unreadable("/cluster/id: bad"), InvalidRequest, "/cluster/id", id="not-a-kafka-cluster"),
        pytest.param(
            Unnamed("unnamed@zk:2181/kafk", "no /cluster/id; there is one below /kafka"),
            InvalidRequest,
            "there is one below /kafka",
            id="a-chroot-without-a-cluster",
        ),
        pytest.param(
            Refused("/x may not be read: NoAuthError"), InvalidRequest, "NoAuthError", id="no-access"
        ),
    ],
)
def test_the_wrong_ensemble_or_none(
    bench: Bench, command: str, told: Any, error: type[Exception], says: str
) -> None:
    in_quorum = {"fence": Phase.IMPORTED, "finalize": Phase.QUORUM, "rollback": Phase.QUORUM}
    bench.go_to(in_quorum.get(command, Phase.BRIDGE))
    records, version = list(bench.records), bench.znode.version
    bench.port.name = told
    with pytest.raises(error, match=says):
        bench.run(command)
    assert (bench.records, bench.znode.version) == (records, version)


def test_an_upgrade_that_began_without_a_cluster_id_goes_on(bench: Bench) -> None:
    """Earlier releases took an ensemble for its servers."""
    bench.port.name = "unnamed@zk:2181"
    bench.run("bridge")
    bench.port.name = Unnamed("unnamed@zk:2181", "there is no /cluster/id")
    for command, phase in (("import", "imported"), ("fence", "quorum"), ("rollback", "bridge")):
        assert bench.run(command).phase == phase


@pytest.mark.parametrize("command", ["bridge", "import", "fence"])
def test_without_zookeeper_connect_there_is_no_upgrade(bench: Bench, command: str) -> None:
    bench.lead(configured=False)
    with pytest.raises(InvalidRequest, match=r"zookeeper\.connect is not set"):
        bench.run(command)
    assert bench.run("status").blocking == ("zookeeper.connect is not set on the active controller",)


def test_an_outage_in_the_middle_of_a_fence_is_said_and_waited_for(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.spoil.append("unavailable")
    with pytest.raises(CoordinatorLoadInProgress, match="not connected"):
        bench.run("fence")
    assert bench.run("fence").phase == "quorum"


def test_one_command_too_many_is_sent_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.bridge.migrator, "COMMANDS_MAX", 2)
    asked = [bench.command("bridge") for _ in range(3)]
    others = [bench.command("import"), bench.command("fence")]
    looks = [bench.command("status") for _ in range(3)]
    assert [a.codes for a in asked] == [[], [], ["CoordinatorLoadInProgress"]]
    assert [a.codes for a in others] == [[], ["CoordinatorLoadInProgress"]]
    assert [a.codes for a in looks] == [[], [], ["CoordinatorLoadInProgress"]]
    bench.settle()
    assert bench.row.phase is Phase.IMPORTED


# -- dry runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "command", "says"),
    [
        (Phase.WAITING, "bridge", "would give out the blocks of Kafka cluster zk"),
        (Phase.BRIDGE, "import", "would set the floor to 5000: the block in ZooKeeper ends at 4999"),
        (
            Phase.IMPORTED,
            "fence",
            "would write ZooKeeper's block again at version 5, then fence it; the block ends",
        ),
        (Phase.FENCING, "fence", "would switch after"),
        (Phase.QUORUM, "finalize", "would leave ZooKeeper for good"),
        (Phase.QUORUM, "rollback", "would let ZooKeeper go on from 6000"),
        (Phase.IMPORTED, "rollback", "nothing would be written"),
    ],
    ids=lambda value: value.label if isinstance(value, Phase) else None,
)
def test_a_dry_run_writes_nothing(bench: Bench, phase: Phase, command: str, says: str) -> None:
    if phase is Phase.FENCING:
        bench.go_to(Phase.IMPORTED)
        bench.crash_at = "fence:fence-written"
        with pytest.raises(Crash):
            bench.run("fence")
        bench.lead()
    bench.go_to(phase)
    if phase is Phase.QUORUM:
        bench.allocate(1)
    records, version = list(bench.records), bench.znode.version
    answer = bench.run(command, dry_run=True)
    assert answer.message.startswith(says) or says in answer.message
    assert answer.dry_run
    assert (bench.records, bench.znode.version, bench.row.phase) == (records, version, phase)


# -- from files --------------------------------------------------------------------------------------------


def test_files_of_a_stopped_zookeeper_are_import_fence_and_switch(bench: Bench) -> None:
    bench.lead(configured=False)
    answer = bench.run("import", stopped=stopped(4999))
    assert (answer.phase, answer.floor, answer.fence) == ("quorum", 5000, None)
    assert bench.allocate(1) == ["[5000, 6000)"]
    assert bench.run("import", stopped=stopped(4999)).floor == 5000, "again is as once"
    assert bench.run("finalize").phase == "finalized"


def test_files_without_the_operators_word_are_for_a_dry_run(bench: Bench) -> None:
    bench.lead(configured=False)
    records = list(bench.records)
    with pytest.raises(InvalidRequest, match="--zookeeper-is-stopped"):
        bench.run("import", stopped=stopped(4999, is_stopped=False))
    answer = bench.run("import", stopped=stopped(4999, is_stopped=False), dry_run=True)
    assert "from 5000 on" in answer.message
    assert (bench.records, bench.row.phase) == (records, Phase.WAITING)


def test_who_waits_for_a_zookeeper_that_was_stopped_is_let_go(bench: Bench) -> None:
    bench.run("bridge")
    bench.port.holding = True
    asked = bench.ask(1, 2)
    answers = bench.command("import", stopped=stopped(4999))
    bench.port.down = "stopped"
    bench.port.release()
    bench.settle()
    assert answers.all[0].phase == "quorum"
    assert sorted(a.codes[0] for a in asked) == ["CoordinatorLoadInProgress", "[5000, 6000)"]


def test_a_stopped_zookeeper_that_answers_is_said(bench: Bench) -> None:
    bench.run("import", stopped=stopped(4999))
    assert "said to be stopped, but it answers" in bench.run("status").blocking[0]
    with pytest.raises(InvalidRequest, match="the fence is gone"):
        bench.run("finalize", zookeeper_is_stopped=True)
    bench.port.down = "stopped"
    assert bench.run("status").blocking == ()
    assert bench.run("finalize").phase == "finalized", "the word was given at the import"


# -- status ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [p for p in Phase if p.label in RESTING], ids=lambda phase: phase.label)
def test_status_of_a_healthy_upgrade(bench: Bench, phase: Phase) -> None:
    bench.go_to(phase)
    answer = bench.run("status")
    assert (answer.phase, answer.next_command) == (phase.label, NEXT_COMMAND[phase])
    assert (answer.blocking, answer.progress) == ((), "")
    fenced = phase in (Phase.QUORUM, Phase.FINALIZED)
    assert answer.fence == (LoggedFence(4999, 6) if fenced else None)
    seen = SeenZnode(7 if fenced else 5, 4999, fenced)
    assert answer.zookeeper == (None if phase is Phase.FINALIZED else seen)
    assert answer.message


def test_status_of_a_cluster_that_does_not_upgrade() -> None:
    bench = Bench(Phase.NONE)
    answer = bench.run("status")
    assert (answer.phase, answer.next_command, answer.blocking) == ("none", "", ())


def test_status_says_how_far_a_fence_is_while_it_runs(bench: Bench) -> None:
    bench.go_to(Phase.IMPORTED)
    bench.port.before_write = lambda: take_directly(bench.znode) if bench.port.writes <= 3 else None
    fence = bench.command("fence")
    bench.apply()
    status = bench.command("status")
    bench.apply()
    assert not fence.all
    assert status.all[0].progress.startswith("fence: 3 tries in 0.0 s; the last: BadVersion")
    assert (status.all[0].phase, status.all[0].next_command) == ("fencing", "fence")
    bench.settle()
    assert fence.all[0].phase == "quorum"


@pytest.mark.parametrize(
    ("phase", "spoil", "says"),
    [
        (Phase.BRIDGE, {"exists": False}, "is gone"),
        (Phase.QUORUM, {"content": kafkas_content(1, 5000, 5999), "version": 7}, "the fence is gone"),
        (Phase.BRIDGE, {"content": b"?"}, "latest_producer_id_block"),
    ],
    ids=["no-znode", "no-fence", "unreadable"],
)
def test_status_says_what_is_wrong_with_the_znode(
    bench: Bench, phase: Phase, spoil: dict[str, Any], says: str
) -> None:
    bench.go_to(phase)
    for name, value in spoil.items():
        setattr(bench.znode, name, value)
    assert says in bench.run("status").blocking[0]


def test_status_names_an_ensemble_that_is_out_of_reach(bench: Bench) -> None:
    bench.run("bridge")
    bench.port.down = "no route to host"
    assert bench.run("status").blocking == ("ZooKeeper does not answer: no route to host",)


@pytest.mark.parametrize("phase", [Phase.QUORUM, Phase.FINALIZED], ids=lambda phase: phase.label)
def test_status_counts_the_brokers_that_stand_still(bench: Bench, phase: Phase) -> None:
    bench.go_to(phase)
    bench.port.brokers = (1, 2, 3)
    answer = bench.run("status")
    assert answer.standing_still == (1, 2, 3)
    assert "brokers 1, 2, 3 are registered in ZooKeeper, which is fenced" in answer.blocking[0]
    if phase is Phase.QUORUM:
        assert "brokers 1, 2, 3 are still registered" in bench.run("finalize", dry_run=True).message
    bench.port.brokers = ()
    assert bench.run("status").blocking == ()


def test_so_many_brokers_are_named_and_no_more(bench: Bench) -> None:
    bench.go_to(Phase.QUORUM)
    bench.port.brokers = tuple(range(2**31 - 5_000, 2**31))
    answer = bench.run("status")
    assert len(answer.standing_still) == STANDING_MAX
    assert "and 4980 more are registered" in answer.blocking[0]
    assert len(MIGRATE.encode_response(0, answer, 0)) < JSON_BYTES_MAX


def test_brokers_that_get_blocks_do_not_stand_still(bench: Bench) -> None:
    bench.port.brokers = (1, 2, 3)
    for command in ("bridge", "import"):
        bench.run(command)
        assert bench.run("status").standing_still == ()


def test_a_block_of_the_bridge_is_nobodys_in_zookeeper(bench: Bench) -> None:
    """A broker before 3.0 adopts a block in its own name that it meant to write and finds there."""
    bench.run("bridge")
    bench.allocate(1)
    assert bench.znode.content == block_content(ProducerIdBlock(ProducerId(5000), 1000))
    assert bench.znode.content == kafkas_content(-1, 5000, 5999)
    assert znode(bench.znode).block_end == 5999
