"""A controller's server without a voter: its replica is an image, and a test takes what is submitted."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.zookeeper_port import ZookeeperPort
from fencepost.controller.authorization import Acls
from fencepost.controller.migration_phase import MIGRATION, Migration, Phase
from fencepost.controller.view import EmptyView, Overlay
from fencepost.node.metrics import NodeMetrics
from fencepost.node.server import ControllerServer
from fencepost.quorum.port import Decide
from fencepost.quorum.quarantine import Quarantine
from fencepost.quorum.replica import Replica
from fencepost.records.types import NodeId
from fencepost.settings.properties import parse_properties
from fencepost.wire.dispatch import Context, Reply
from tests.quorum.clients import Answers, Silence
from tests.zookeeper.model import ScriptedPort, ZnodeModel

ACLS = Acls.parse("User:operator ALTER\nUser:looker DESCRIBE\nUser:broker CLUSTER_ACTION\n")
CONFIG = """
node.id=1
process.roles=controller
listeners=CONTROLLER://127.0.0.1:9192
log.dirs=data
controller.quorum.voters=1@127.0.0.1:9292
controller.quorum.bootstrap.servers=127.0.0.1:9192
quorum.secret.file=secret
"""


def bare_replica(image: Overlay, *, active: bool = True) -> Any:
    """What a server reads of its replica."""
    return SimpleNamespace(
        image=image,
        raft=SimpleNamespace(leader_id=NodeId(1)),
        proposer=SimpleNamespace(active=active),
        quarantine=Quarantine(lambda: 0.0, lambda: 0),
    )


def bare_server(
    replica: Any,
    submit: Any,
    *,
    acls: Acls,
    settings: str = "",
    call_later: Callable[[float, Callable[[], None]], None] = lambda _seconds, _call: None,
    zookeeper: ZookeeperPort | None = None,
) -> ControllerServer:
    """Of node 1, which leads, and has been activated."""
    server = ControllerServer(
        parse_properties(CONFIG + settings, Path("/node.properties")),
        "the-cluster",
        cast(Replica, replica),
        submit,
        NodeMetrics(),
        acls,
        lambda: {NodeId(1): ("127.0.0.1", 9192)},
        call_later=call_later,
        zookeeper=zookeeper,
        clock=lambda: 0.0,
        reach=lambda _point: None,
        rng=Random(1),
        log=cast(FilteringBoundLogger, Silence()),
    )
    server.activated(0)
    return server


class BareServer:
    """Decisions of ``server`` are never made: they are in ``submitted``, with their replies."""

    def __init__(self, phase: Phase) -> None:
        self.image = Overlay(EmptyView())
        self.image.put(MIGRATION, 0, Migration(phase, ensemble="zk"))
        self.submitted: list[tuple[Decide[Any], Callable[[Any, int], None]]] = []
        self.port = ScriptedPort(ZnodeModel())
        self.replica = bare_replica(self.image)
        self.server = bare_server(self.replica, self._submit, acls=ACLS, zookeeper=self.port)

    def _submit(self, decide: Decide[Any], reply: Callable[[Any, int], None], **_how: Any) -> None:
        self.submitted.append((decide, reply))

    def ask(
        self, endpoint: Callable[[Any, Context, Reply[Any]], None], request: object, principal: str
    ) -> Answers:
        answers = Answers()
        endpoint(request, Context(principal, "CONTROLLER", None, "127.0.0.1:1"), cast(Reply[Any], answers))
        return answers
