"""The controller's endpoints: who may command an upgrade, from where blocks come, who is fenced when."""

import uuid

import pytest

from fencepost.controller.brokers import BROKERS, Broker
from fencepost.controller.errors import ApiError, ClusterAuthorizationFailed, NotController
from fencepost.controller.migration_phase import Phase
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.k20021_migrate import COMMANDS, MIGRATE, Migrate
from tests.node.bare_server import BareServer
from tests.together import table

BLOCK = ProducerIdBlock(ProducerId(0), 1000)


def test_a_node_that_stood_still_fences_nobody_for_it() -> None:
    stage = BareServer(Phase.NONE)
    stage.image.put(
        BROKERS,
        BrokerId(1),
        Broker(BrokerId(1), BrokerEpoch(5), uuid.UUID(int=1), uuid.UUID(int=2), (), (), None, False, False),
    )
    for now_ms in range(500, 8_001, 500):
        stage.server.sweep(now_ms)
    assert stage.submitted == [], "its session is not over"
    stage.server.sweep(34_000)
    assert stage.submitted == [], "26 s without a call: this node's own stall"
    for now_ms in range(34_500, 43_000, 500):
        stage.server.sweep(now_ms)
    assert stage.submitted == [], "a whole session again"
    stage.server.sweep(43_000)
    assert len(stage.submitted) == 1, "and then it is over"


@pytest.mark.parametrize(
    ("phase", "outcome", "throttle_ms", "counted"),
    [
        pytest.param(Phase.NONE, BLOCK, 0, ["granted"], id="granted"),
        pytest.param(Phase.NONE, BLOCK, 7, ["throttled"], id="throttled"),
        pytest.param(Phase.NONE, NotController("deposed"), 0, [], id="not-decided"),
        pytest.param(Phase.BRIDGE, NotController("deposed"), 0, ["refused"], id="not-decided-by-zookeeper"),
    ],
)
def test_a_block_is_counted_when_its_reply_is_given(
    phase: Phase, outcome: ProducerIdBlock | ApiError, throttle_ms: int, counted: list[str]
) -> None:
    stage = BareServer(phase)
    request = AllocateProducerIds(BrokerId(1), BrokerEpoch(5))
    stage.server.migrator.deposed()  # so that blocks of a bridge are decided like all others
    answers = stage.ask(stage.server.allocate, request, "User:broker")
    ((_, reply),) = stage.submitted
    assert not any(stage.server._blocks.values())
    reply(outcome, throttle_ms)
    assert [each for each, count in stage.server._blocks.items() for _ in range(count)] == counted
    assert len(answers.all) == 1


@table("command", COMMANDS)
@table(
    ("principal", "may"),
    [
        ("User:operator", set(COMMANDS)),
        ("User:looker", {"status"}),
        ("User:broker", {"status"}),
        ("User:x", set()),
    ],
)
def test_the_upgrade_is_commanded_by_who_may_alter_the_cluster(
    command: str, principal: str, may: set[str]
) -> None:
    stage = BareServer(Phase.WAITING)
    if command in may:
        stage.ask(stage.server.migrate, Migrate(command), principal)
        assert stage.submitted
    else:
        with pytest.raises(ClusterAuthorizationFailed):
            stage.ask(stage.server.migrate, Migrate(command), principal)
        assert not stage.submitted


@table("phase", list(Phase), ids=lambda phase: phase.label)
def test_where_a_block_comes_from(phase: Phase) -> None:
    """On the bridge from ZooKeeper; the broker is not registered, so the decision is the quorum's at once."""
    stage = BareServer(phase)
    stage.ask(stage.server.allocate, AllocateProducerIds(BrokerId(1), BrokerEpoch(1)), "User:broker")
    assert len(stage.submitted) == 1
    assert stage.server.migrator.is_bridge == (phase in (Phase.BRIDGE, Phase.IMPORTED))
    assert (stage.port.reads, stage.port.writes) == (0, 0)


def test_the_api_is_served() -> None:
    assert MIGRATE.key in BareServer(Phase.NONE).server.service
