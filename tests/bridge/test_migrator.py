"""The bridge: blocks from ZooKeeper's conditional write; what is never answered, adopted or given twice."""

import pytest

import fencepost.bridge.migrator
from fencepost.bridge.live_port import block_content, fence_content
from fencepost.bridge.zookeeper_port import Fence, Unavailable, Written
from fencepost.controller.migration import DIRECT_WRITERS
from fencepost.controller.migration_phase import Intent, Phase
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import PRODUCER_ID_MAX, ProducerId
from tests.bridge.migration_bench import CLUSTER, Bench
from tests.zookeeper.kafka_rule import kafkas_content
from tests.zookeeper.model import ZnodeModel, take_directly, znode


@pytest.fixture
def bridged() -> Bench:
    """Blocks come from ZooKeeper, where brokers took [0, 2000) themselves."""
    bench = Bench()
    bench.go_to(Phase.BRIDGE)
    for _ in range(2):
        take_directly(bench.znode)
    return bench


def given(bench: Bench) -> list[tuple[int, int]]:
    """(broker, end) of every allocation in the log."""
    return [
        (r.broker_id, r.producer_id_end) for r in bench.records if isinstance(r, AllocateProducerIdsRecord)
    ]


# -- ranges ------------------------------------------------------------------------------------------------


def test_a_block_is_answered_when_its_record_is_applied(bridged: Bench) -> None:
    (asked,) = bridged.ask(1)
    assert bridged.znode.block_end == 2999, "it is written in ZooKeeper"
    assert asked.codes == [], "but not in our log"
    bridged.apply()
    assert asked.codes == ["[2000, 3000)"]
    assert given(bridged) == [(DIRECT_WRITERS, 2000), (1, 3000)]


def test_who_waits_together_shares_one_write(bridged: Bench) -> None:
    bridged.port.holding = True
    first = bridged.ask(1)
    waiting = bridged.ask(2, 1, 2)
    assert [a.codes for a in (*first, *waiting)] == [[], [], [], []]
    writes = bridged.port.writes
    bridged.port.release()
    bridged.settle()
    assert [a.codes for a in first] == [["[2000, 3000)"]]
    assert [a.codes for a in waiting] == [["[3000, 4000)"], ["[4000, 5000)"], ["[5000, 6000)"]]
    assert bridged.port.writes == writes + 2
    assert bridged.znode.content == block_content(ProducerIdBlock(ProducerId(3000), 3000))


def test_what_was_written_last_need_not_be_read(bridged: Bench) -> None:
    bridged.allocate(1)
    reads = bridged.port.reads
    assert bridged.allocate(1, 2) == ["[3000, 4000)", "[4000, 5000)"]
    assert bridged.port.reads == reads


@pytest.mark.parametrize("looks", [True, False], ids=["conflicts-show-the-znode", "conflicts-say-nothing"])
def test_a_rival_was_faster_so_its_block_comes_first(bridged: Bench, looks: bool) -> None:
    bridged.port.looks_after_conflict = looks
    rivals = iter([True, True, False])
    bridged.port.before_write = lambda: take_directly(bridged.znode) if next(rivals, False) else None
    assert bridged.allocate(1) == ["[4000, 5000)"]
    assert given(bridged) == [(DIRECT_WRITERS, 4000), (1, 5000)]


def test_rivals_that_are_always_faster_do_not_hold_anybody_up(
    bridged: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.bridge.migrator, "RANGE_TRIES_MAX", 3)
    bridged.port.before_write = lambda: take_directly(bridged.znode)
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]
    assert bridged.port.writes == 3
    bridged.port.before_write = lambda: None
    assert bridged.allocate(1) == ["[5000, 6000)"]


def test_no_further_try_after_the_time_is_over(bridged: Bench) -> None:
    def slow_rival() -> None:
        take_directly(bridged.znode)
        bridged.now += fencepost.bridge.migrator.RANGE_S_MAX

    bridged.port.before_write = slow_rival
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]
    assert bridged.port.writes == 2


# -- unknown outcomes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoilt", "expected"),
    [
        pytest.param("lost", "[3000, 4000)", id="done-but-not-heard-is-wasted"),
        pytest.param("dropped", "[2000, 3000)", id="not-done"),
        pytest.param("late", "[2000, 3000)", id="not-done-yet"),
    ],
)
def test_after_an_unknown_write_another_range_is_taken(bridged: Bench, spoilt: str, expected: str) -> None:
    bridged.port.spoil.append(spoilt)
    assert bridged.allocate(1) == [expected]
    assert not any(isinstance(landed, Written) for landed in bridged.port.land())


def test_what_the_znode_holds_after_an_unknown_write_is_never_taken_for_ours(bridged: Bench) -> None:
    """Our write is dropped; another leader of ours writes the very same bytes, for a broker of its own."""
    same = block_content(ProducerIdBlock(ProducerId(2000), 1000))
    bridged.port.spoil.append("dropped")
    bridged.port.before_write = lambda: bridged.znode.set(same, 2)
    assert bridged.allocate(1) == ["[3000, 4000)"], "[2000, 3000) is somebody else's"


def test_a_late_write_wastes_the_range_that_it_brings(bridged: Bench) -> None:
    bridged.port.spoil.extend(["late"])
    landed = []
    tries = iter(range(10))
    bridged.port.before_write = lambda: landed.extend(bridged.port.land()) if next(tries) == 1 else None
    assert bridged.allocate(1) == ["[3000, 4000)"]
    assert landed == [Written(3)]


# -- leadership --------------------------------------------------------------------------------------------


def test_a_leader_that_is_deposed_after_its_write_answers_nobody(bridged: Bench) -> None:
    asked = bridged.ask(1)
    bridged.depose()
    assert [a.codes for a in asked] == [["NotController"]]
    bridged.lead()
    assert bridged.allocate(1) == ["[3000, 4000)"], "what it took is wasted"


def test_a_leader_that_is_deposed_before_it_is_told_answers_nobody(bridged: Bench) -> None:
    bridged.port.holding = True
    asked = bridged.ask(1, 2)
    bridged.depose()
    assert [a.codes for a in asked] == [["NotController"], ["NotController"]]
    bridged.port.release()
    assert bridged.pending == [], "what it is told now is not heard"
    bridged.leads = True
    bridged.migrator.activated()
    assert bridged.allocate(1) == ["[2000, 3000)"]


def test_an_elected_leader_does_not_trust_what_it_knew(bridged: Bench) -> None:
    bridged.allocate(1)
    bridged.depose()
    bridged.leads = True
    bridged.migrator.activated()
    reads = bridged.port.reads
    assert bridged.allocate(1) == ["[3000, 4000)"]
    assert bridged.port.reads == reads + 1


def test_a_follower_refuses(bridged: Bench) -> None:
    bridged.depose()
    assert bridged.allocate(1) == ["NotController"]
    assert bridged.command("status").codes == ["NotController"]
    assert bridged.command("fence").codes == ["NotController"]


def test_the_bridge_is_left_while_a_block_is_on_its_way(bridged: Bench) -> None:
    bridged.run("import")
    (asked,) = bridged.ask(1)
    record, bridged.pending = bridged.pending, []
    bridged.run("fence")
    bridged.pending = record
    bridged.settle()
    assert asked.codes == ["CoordinatorLoadInProgress"]
    assert bridged.row.intent == Intent(2999, 4), "it is below the fence"
    assert bridged.allocate(1) == ["[3000, 4000)"]


# -- who is not given a block ------------------------------------------------------------------------------


def test_nobody_gets_a_block_before_the_bridge() -> None:
    assert Bench().allocate(1) == ["CoordinatorLoadInProgress"]


def test_no_ids_are_wasted_on_a_broker_of_an_old_epoch(bridged: Bench) -> None:
    assert bridged.allocate(-1) == ["StaleBrokerEpoch"]
    assert bridged.znode.block_end == 1999
    bridged.port.holding = True
    asked = bridged.ask(1, -1, 2)
    bridged.port.release()
    bridged.settle()
    assert [a.codes for a in asked] == [["[2000, 3000)"], ["StaleBrokerEpoch"], ["[3000, 4000)"]]


def test_one_request_too_many_is_sent_away(bridged: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.bridge.migrator, "WAITING_MAX", 2)
    bridged.port.holding = True
    asked = bridged.ask(1, 1, 1, 1)
    assert [a.codes for a in asked] == [[], [], [], ["CoordinatorLoadInProgress"]]
    bridged.port.release()
    bridged.settle()
    assert [len(a.all) for a in asked] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "limit", "ranges"),
    [
        pytest.param("RANGE_BLOCKS_MAX", 2, [1, 2, 1], id="blocks"),
        pytest.param("RANGE_IDS_MAX", 2500, [1, 2, 1], id="ids"),
        pytest.param("RANGE_IDS_MAX", 500, [1, 1, 1, 1], id="one-at-least"),
    ],
)
def test_a_range_is_so_long_and_no_longer(
    bridged: Bench, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, ranges: list[int]
) -> None:
    monkeypatch.setattr(fencepost.bridge.migrator, name, limit)
    bridged.port.holding = True
    asked = bridged.ask(1, 2, 1, 2)
    before = len(bridged.znode.writes)
    bridged.port.release()
    bridged.settle()
    assert [a.codes[0] for a in asked] == [f"[{n}, {n + 1000})" for n in range(2000, 6000, 1000)]
    assert len(bridged.znode.writes) - before == len(ranges)


def test_near_the_end_of_the_ids_those_get_a_block_for_whom_there_is_room() -> None:
    end = PRODUCER_ID_MAX - 2500
    bench = Bench(znode=ZnodeModel(content=kafkas_content(1, end - 1000, end - 1), version=3))
    bench.go_to(Phase.BRIDGE)
    bench.port.holding = True
    asked = bench.ask(1, 2, 1, 2)
    bench.port.release()
    bench.settle()
    assert [a.codes for a in asked] == [
        [f"[{end}, {end + 1000})"],
        [f"[{end + 1000}, {end + 2000})"],
        ["ProducerIdsExhausted"],
        ["ProducerIdsExhausted"],
    ]
    bench.lead()
    assert bench.allocate(1) == ["ProducerIdsExhausted"]


@pytest.mark.parametrize(
    "cluster_id",
    [
        pytest.param(CLUSTER, id="another-leader-of-ours-is-further"),
        pytest.param("other", id="another-cluster"),
    ],
)
def test_behind_a_fence_nobody_gets_a_block(bridged: Bench, cluster_id: str) -> None:
    model = bridged.znode
    model.set(fence_content(Fence(cluster_id, Intent(1999, model.version))), model.version)
    before = model.version
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]
    assert model.version == before


@pytest.mark.parametrize(
    ("content", "version"),
    [
        pytest.param(b"{}", 3, id="not-kafkas"),
        pytest.param(None, 3, id="wiped"),
    ],
)
def test_a_znode_that_cannot_be_read_gives_no_blocks(content: bytes | None, version: int) -> None:
    bench = Bench()
    bench.go_to(Phase.BRIDGE)
    bench.znode.content, bench.znode.version = content, version
    assert bench.allocate(1) == ["CoordinatorLoadInProgress"]
    assert bench.znode.version == version


def test_a_znode_that_is_gone_gives_no_blocks(bridged: Bench) -> None:
    bridged.znode.exists = False
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]


def test_another_ensemble_gives_no_blocks(bridged: Bench) -> None:
    """zookeeper.connect of the new leader names the wrong one: brokers would share its ids."""
    bridged.lead()
    bridged.port.name = "another"
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]
    assert bridged.znode.block_end == 1999


def test_a_leader_without_zookeeper_gives_no_blocks(bridged: Bench) -> None:
    bridged.lead(configured=False)
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]


def test_an_outage_is_complained_of_once_and_is_over_when_it_is_over(bridged: Bench) -> None:
    bridged.port.down = "no connection"
    assert bridged.allocate(1) == ["CoordinatorLoadInProgress"]
    assert bridged.allocate(2) == ["CoordinatorLoadInProgress"]
    assert bridged.log.events == ["bridge_gives_no_blocks"]
    bridged.port.down = ""
    assert bridged.allocate(1) == ["[2000, 3000)"]
    bridged.port.name = Unavailable("no connection")
    assert bridged.allocate(1) == ["[3000, 4000)"], "which ensemble it is was asked once"


def test_a_zookeeper_that_went_back_goes_on_above_what_the_log_has(bridged: Bench) -> None:
    """Somebody restored it from an old backup."""
    bridged.allocate(1)
    bridged.lead()
    bridged.znode.content = kafkas_content(9, 0, 999)
    assert bridged.allocate(1) == ["[3000, 4000)"]
    assert znode(bridged.znode).block_end == 3999
    assert bridged.log.events == ["zookeeper_was_behind"]
