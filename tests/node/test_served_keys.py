"""What a node's two listeners serve is what the registry of API keys says of each."""

import asyncio
from pathlib import Path

import pytest
import structlog

from fencepost.broker.access.unguarded import EVERY
from fencepost.broker.main import Broker
from fencepost.controller.acl_types import ResourceType
from fencepost.node.active_controller import Controller
from fencepost.node.metrics import NodeMetrics
from fencepost.records.types import NodeId
from fencepost.settings.credentials import read_credentials
from fencepost.settings.node_identity import format_directory, id_text, random_id
from fencepost.settings.properties import parse_properties
from fencepost.wire.dispatch import BROKER, CONTROLLER, Context, ListenerKind
from fencepost.wire.errors import UnsupportedEndpointType
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.registry import APIS
from tests.ports import free_port
from tests.secret_files import write_secret
from tests.wire.answering import Answering

COORDINATORS = {20027, 20065, 20066}
"""Private keys of the coordinator: a broker alone does not serve them."""


def listed(kind: ListenerKind) -> list[int]:
    return [key for key, api in APIS.items() if kind in api.listeners]


def test_each_listener_serves_the_keys_that_are_registered_for_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    write_secret(secret, "the secret of this cluster\n")
    client, controller, raft = (free_port() for _ in range(3))
    config = parse_properties(
        "node.id=1\nprocess.roles=broker,controller\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"log.dirs={tmp_path / 'data'}\ncontroller.quorum.voters=1@127.0.0.1:{raft}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}\nquorum.secret.file={secret}\n",
        tmp_path / "node.properties",
    )
    directory = random_id()
    identity = format_directory(
        config.directory,
        id_text(random_id()),
        NodeId(1),
        directory_id=directory,
        initial_voters={NodeId(1): directory},
    )

    credentials = read_credentials(config, identity.cluster_id)

    operations: list[int] = []

    async def served() -> tuple[list[int], list[int], list[int]]:
        node = Controller(config, identity, credentials)
        log = structlog.get_logger()
        both = Broker(
            config, identity, credentials, log, NodeMetrics(), coordinator=node.coordinators.client_service
        )
        alone = Broker(config, identity, credentials, log, NodeMetrics())
        describe = node._listeners.all[0].apis[DESCRIBE_CLUSTER.key][1]
        request = DescribeCluster(CONTROLLERS, include_cluster_authorized_operations=True)
        sender = Context("User:ANONYMOUS", "CONTROLLER", None, "127.0.0.1:1")
        reply = Answering(lambda answer, _: operations.append(answer.cluster_authorized_operations))
        describe(request, sender, reply)
        with pytest.raises(UnsupportedEndpointType):
            describe(DescribeCluster(endpoint_type=3), sender, reply)
        by_node, by_both, by_alone = (sorted(each._listeners.all[0].apis) for each in (node, both, alone))
        return by_node, by_both, by_alone

    by_controller, by_node, by_broker = asyncio.run(served())
    assert operations == [EVERY[ResourceType.CLUSTER]], "as it has no authorizer"
    assert by_controller == listed(CONTROLLER)
    assert by_node == listed(BROKER)
    assert by_broker == [key for key in listed(BROKER) if key not in COORDINATORS]
