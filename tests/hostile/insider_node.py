"""One node in this process, broker and controller, with Kafka's authorizer: requests reach its dispatch.

No socket lies between: the principal and the address are what a test names.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fencepost.broker.main import Broker
from fencepost.controller.errors import RequestTimedOut
from fencepost.coordinator.announcer import Here
from fencepost.node.active_controller import Controller
from fencepost.node.metrics import NodeMetrics
from fencepost.records.types import BrokerId, NodeId
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from fencepost.settings.credentials import read_credentials
from fencepost.settings.node_identity import format_directory, id_text, random_id
from fencepost.settings.properties import parse_properties
from fencepost.wire.dispatch import BROKER, Context, ListenerKind, Service
from fencepost.wire.registry import APIS
from tests.broker.fake_controller import captured_log
from tests.ports import free_port
from tests.secret_files import write_secret

ROOT: Final = "User:ANONYMOUS"  # whom the node's own connections have for a principal
READY_S: Final = 20.0
ANSWER_S: Final = 60.0  # longer than any request of the node's own may take
TRIES_MAX: Final = 10


class Answer:
    """The reply to one request: what came of it, if something did."""

    def __init__(self) -> None:
        self.came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __call__(self, outcome: Any, _throttle_ms: int = 0, /) -> None:
        assert not self.came.done(), "it is answered twice"
        self.came.set_result(outcome)

    def close(self, reason: str, /) -> None:
        if not self.came.done():
            self.came.set_result(ConnectionError(reason))


class InsiderNode:
    """``services``: what each kind of listener serves."""

    def __init__(self, services: dict[ListenerKind, Service], node: Controller, logged: Any) -> None:
        self.services = services
        self.node = node
        self.logged = logged

    def send(self, kind: ListenerKind, key: int, request: Any, context: Context) -> Answer:
        """As a connection does with a request that it has read."""
        answer = Answer()
        try:
            self.services[kind][key][1](request, context, answer)
        except Exception as error:  # noqa: BLE001 - as a connection: it is the answer
            answer(error)
        return answer

    async def root(self, key: int, request: Any, **who: Any) -> Any:
        """What a super user is answered by the broker, at the newest version. Raises the ApiError."""
        api = APIS[key]
        version = api.versions[-1]
        request = api.decode_request(version, memoryview(api.encode_request(version, request)))
        context = Context(ROOT, "PLAINTEXT", who.get("client_id", "root"), who.get("peer", "127.0.0.1:1"))
        for _ in range(TRIES_MAX):
            try:
                async with asyncio.timeout(ANSWER_S):
                    outcome = await self.send(BROKER, key, request, context).came
            except TimeoutError as error:
                raise TimeoutError(f"{api.name} is not answered within {ANSWER_S:g} s: {request}") from error
            if not isinstance(
                outcome, RequestTimedOut
            ):  # else the machine was slow: what is made is made once
                break
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@asynccontextmanager
async def insider_node(folder: Path, *settings: str, super_users: str = ROOT) -> AsyncIterator[InsiderNode]:
    """The only node of a new cluster, which leads and is not fenced."""
    client, controller, raft = (free_port() for _ in range(3))
    lines = (
        "node.id=1",
        "process.roles=broker,controller",
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        f"log.dirs={folder / 'data'}",
        f"controller.quorum.voters=1@127.0.0.1:{raft}",
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
        f"quorum.secret.file={write_secret(folder / 'secret', 'the secret of this cluster')}",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        f"super.users={super_users}",
        "group.initial.rebalance.delay.ms=0",
        "transaction.two.phase.commit.enable=true",
        "transaction.max.timeout.ms=7200000",
        *settings,
    )
    config = parse_properties("\n".join(lines) + "\n", folder / "node.properties")
    directory = random_id()
    identity = format_directory(
        config.directory,
        id_text(random_id()),
        NodeId(1),
        directory_id=directory,
        initial_voters={NodeId(1): directory},
    )
    credentials = read_credentials(config, identity.cluster_id)
    log, logged = captured_log()
    node = Controller(config, identity, credentials, log)
    coordinator = node.coordinators.client_service
    broker = Broker(config, identity, credentials, log, NodeMetrics(), coordinator=coordinator)
    node.transactions.allocate_producer_id = broker.allocate_producer_id
    node.transactions.announcer.here = Here(BrokerId(1), broker.take_announcements)
    await node.start()
    await broker.start()
    try:
        async with asyncio.timeout(READY_S):
            await broker.ready()
        broker._acls._standstill_s = 3600.0  # a slow machine's pauses are not what is looked at
        services = {"broker": broker._listeners.all[0].apis, "controller": node._listeners.all[0].apis}
        yield InsiderNode(services, node, logged)  # type: ignore[arg-type]
    finally:
        await broker.stop()
        await node.stop()
