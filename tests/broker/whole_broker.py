"""A whole broker between a scripted controller and clients on its listener: what the tests stand on."""

import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from fencepost.broker.main import Broker
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.node.metrics import NodeMetrics
from fencepost.records.types import NodeId
from fencepost.settings.config import Address, ListenerAddress, NodeConfig
from fencepost.settings.credentials import read_credentials
from fencepost.settings.node_identity import Identity
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection
from fencepost.wire.k60_describe_cluster import ClusterNode
from fencepost.wire.secret_proof import COORDINATOR, prove
from tests.broker.fake_controller import CLUSTER_ID, FakeController, captured_log
from tests.ports import free_port
from tests.secret import known_secret, secret_file

DIRECTORY_ID = uuid.UUID(int=77)
CALL_TIMEOUT_S = 20.0


def config_for(
    controller: FakeController, directory: Path, *, broker_heartbeat_interval_ms: int = 20, **settings: Any
) -> NodeConfig:
    listener = ListenerAddress("PLAINTEXT", Address("127.0.0.1", free_port()))
    return NodeConfig(
        node_id=NodeId(1),
        roles=("broker",),
        log_directories=(directory,),
        listeners=(listener,),
        controller_bootstrap=(Address(*controller.address),),
        secret_file=secret_file(),
        broker_heartbeat_interval_ms=broker_heartbeat_interval_ms,
        **settings,
    )


class Stage:
    """A broker, started, and what it logged."""

    def __init__(self, controller: FakeController, config: NodeConfig) -> None:
        identity = Identity(
            cluster_id=CLUSTER_ID,
            node_id=NodeId(1),
            directory_id=DIRECTORY_ID,
            voter_id=DIRECTORY_ID,
            initial_voters=None,
        )
        credentials = read_credentials(config, CLUSTER_ID)
        log, self.logged = captured_log()
        self.controller = controller
        self.metrics = NodeMetrics()
        self.broker = Broker(config, identity, credentials, log, self.metrics, rng=Random(9))
        assert config.client_listener is not None
        self.port = config.client_listener.address.port
        self.itself = ClusterNode(1, "127.0.0.1", self.port)

    async def client(self, sasl: Login | None = None) -> Connection:
        return await Connection.open("127.0.0.1", self.port, sasl=sasl)

    async def coordinator(self) -> Connection:
        """A connection that proved the cluster's secret."""
        client = await self.client()
        assert await prove(
            client, known_secret(2, CLUSTER_ID), COORDINATOR, node_id=1, timeout_s=CALL_TIMEOUT_S
        )
        return client

    async def call(self, api: Any, request: Any, version: int | None = None, *, proved: bool = False) -> Any:
        client = await (self.coordinator() if proved else self.client())
        try:
            return await client.call(api, request, version=version)
        finally:
            client.close()

    async def until(self, api: Any, request: Any, *codes: ErrorCode) -> Any:
        """Ask again while the answer is one of these errors, as clients do."""
        while True:
            try:
                return await self.call(api, request)
            except ApiError as error:
                if error.code not in codes:
                    raise

    def events(self, name: str) -> list[Any]:
        return [entry for entry in self.logged.entries if entry["event"] == name]


@asynccontextmanager
async def stage(
    controller: FakeController, directory: Path | None = None, **settings: Any
) -> AsyncIterator[Stage]:
    """Without a directory it has one of its own, and no logs."""
    with tempfile.TemporaryDirectory() as made:
        async with controller:
            staged = Stage(controller, config_for(controller, directory or Path(made), **settings))
            await staged.broker.start()
            try:
                yield staged
            finally:
                await staged.broker.stop()
