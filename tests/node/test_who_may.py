"""Where an authorizer is configured, what only a broker may do needs CLUSTER_ACTION: Kafka's own keys."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.controller.brokers import Heartbeat, RegisterBroker
from fencepost.controller.errors import ClusterAuthorizationFailed
from fencepost.controller.migration_phase import Phase
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.node.server import ControllerServer
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.node.bare_server import BareServer
from tests.together import table

REGISTER = RegisterBroker(BrokerId(1), "the-cluster", uuid.UUID(int=1), uuid.UUID(int=2), ())
HEARTBEAT = Heartbeat(BrokerId(1), BrokerEpoch(5), BrokerEpoch(5))
ALLOCATE = AllocateProducerIds(BrokerId(1), BrokerEpoch(5))

BROKERS_ONLY: list[Any] = [
    pytest.param(lambda server: server.register, REGISTER, id="62-BrokerRegistration"),
    pytest.param(lambda server: server.heartbeat, HEARTBEAT, id="63-BrokerHeartbeat"),
    pytest.param(lambda server: server.allocate, ALLOCATE, id="67-AllocateProducerIds"),
]


@table(("endpoint_of", "request_"), BROKERS_ONLY)
@table(
    ("principal", "may"),
    [("User:broker", True), ("User:operator", False), ("User:looker", False), ("User:mallory", False)],
)
def test_only_a_broker_may(
    endpoint_of: Callable[[ControllerServer], Any], request_: object, principal: str, may: bool
) -> None:
    stage = BareServer(Phase.NONE)
    endpoint = endpoint_of(stage.server)
    if may:
        stage.ask(endpoint, request_, principal)
        assert len(stage.submitted) == 1
    else:
        with pytest.raises(ClusterAuthorizationFailed):
            stage.ask(endpoint, request_, principal)
        assert stage.submitted == []
