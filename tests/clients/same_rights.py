"""Every API key x operation x resource, allowed and denied, at a node of Apache Kafka and at ours.

Principals and requests follow from the table of docs/authorization.md: tests/rights. Kafka's answers, of its
broker and of its controller, must be those that tests/rights/kafka-4.1.1.json has, by which the fast tests
judge both listeners of ours; here the answers of a broker of ours, by its socket, are judged, too.
FENCEPOST_RECORD_RIGHTS=FILE writes Kafka's answers to a file, in place of the comparison with what was kept.
"""

import asyncio
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fencepost.cluster.local_cluster import create_cluster
from fencepost.controller.acl_types import CreateAcls
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import BROKER, CONTROLLER, ListenerKind
from fencepost.wire.k02_list_offsets import ListOffsets
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinator
from fencepost.wire.registry import APIS
from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.stories import StoryFailed
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean
from tests.hostile.insider_world import World
from tests.ports import cluster_port, free_port
from tests.rights.answers import Answered, Answers, Seen, differences, encoded, kafkas, seen_in
from tests.rights.page import NAMES, SUPER, State, states
from tests.rights.reasons import without_reason
from tests.rights.requests import Request, of_set

CLIENTS: Final = 50  # the port of the listener with logins, from the cluster's on
ANSWER_S: Final = 20.0
SILENCE_S: Final = 5.0  # then there is no answer
SILENT: Final = tuple(Seen(names=(each.__name__,)) for each in (ConnectionLost, NotConnected, RequestTimeout))
SILENCE_AGAIN_S: Final = 1.0  # of a request that had none before
PAUSE_S: Final = 0.1
ACLS_AT_ONCE: Final = 100
NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
PASSWORD: Final = "x"
SUPER_USERS: Final = f"User:ANONYMOUS;User:{SUPER}"
RECORD: Final = "FENCEPOST_RECORD_RIGHTS"
Scenario = Callable[[Nodes], str]


class Side:
    """One of the two clusters: a super user's connection, as InsiderNode for World, and a principal's.

    ``ports``: of the listeners with logins.
    """

    def __init__(self, root: Connection, ports: dict[ListenerKind, int]) -> None:
        self._root = root
        self._ports = ports
        self._by: dict[ListenerKind, Connection] = {}
        self._silent: set[str] = set()  # requests that were not answered
        self.world = World(self)  # type: ignore[arg-type]  # of it World has ``root`` alone

    async def root(self, key: int, request: Any, **_who: Any) -> Any:
        """As InsiderNode; until the coordinator is there."""
        if isinstance(request, ListOffsets):  # Kafka refuses a partition that is there twice
            rows = [
                row
                for each in request.partitions
                for row in (await self._call(key, ListOffsets((each,)))).partitions
            ]
            return replace(await self._call(key, ListOffsets(request.partitions[:1])), partitions=tuple(rows))
        return await self._call(key, request)

    async def _call(self, key: int, request: Any) -> Any:
        async with asyncio.timeout(ANSWER_S):
            while True:
                try:
                    return await self._root.call(APIS[key], request, timeout_s=ANSWER_S)
                except ApiError as error:
                    if error.code not in NOT_YET:
                        raise
                await self._root.call(FIND_COORDINATOR, FindCoordinator(0, (NAMES.group,)))
                await self._root.call(FIND_COORDINATOR, FindCoordinator(1, (NAMES.transactional_id,)))
                await asyncio.sleep(PAUSE_S)

    async def become(self, state: State) -> None:
        """From now on requests are this principal's."""
        self._login = Login(state.user, PASSWORD)
        for kind in self._ports:
            await self._connect(kind)

    async def _connect(self, kind: ListenerKind) -> None:
        if kind in self._by:
            self._by[kind].close()
        self._by[kind] = await Connection.open("127.0.0.1", self._ports[kind], sasl=self._login)

    def version_of(self, request: Request) -> int | None:
        """The newest that both know, and that means what the request does; None: it is not served."""
        by = self._by.get(request.kind)
        if by is None or request.key not in by.versions:
            return None
        served = by.versions[request.key]
        return min(APIS[request.key].versions[-1], served[-1], request.version_max)

    async def see(self, request: Request, version: int) -> Seen:
        """What its answer shows. No answer is one where it does not come when it is requested again."""
        seen = await self._see(request, version)
        if seen in SILENT and request.name not in self._silent:
            seen = await self._see(request, version)
            if seen in SILENT:
                self._silent.add(request.name)
        return seen

    async def _see(self, request: Request, version: int) -> Seen:
        by = self._by[request.kind]
        silence_s = SILENCE_AGAIN_S if request.name in self._silent else SILENCE_S
        try:
            outcome = await by.call(APIS[request.key], request.value, version=version, timeout_s=silence_s)
        except ApiError as error:
            outcome = error
        except (ConnectionLost, NotConnected, RequestTimeout) as error:
            await self._connect(request.kind)
            return Seen(names=(type(error).__name__,))
        return seen_in(outcome)

    async def answers(self, versions: dict[str, int]) -> Answers:
        """Of all principals to all requests, in these versions, or else the newest that this side serves."""
        found: Answers = {}
        everyone = tuple(states())
        acls = [acl for state in everyone for acl in state.acls]
        for at in range(0, len(acls), ACLS_AT_ONCE):
            await self.root(30, CreateAcls(tuple(acls[at : at + ACLS_AT_ONCE])))
        for state in everyone:
            await self.world.renew(0)
            await self.become(state)
            for request in of_set(self.world):
                newest = self.version_of(request)
                version = versions.get(request.name, newest)
                if newest is None or version is None:
                    continue
                row = found.setdefault(request.name, Answered(version, {}))
                row.by_state[state.name] = await self.see(request, version)
        return found

    def close(self) -> None:
        """All connections."""
        for each in (self._root, *self._by.values()):
            each.close()


async def _answers(port: int, ports: dict[ListenerKind, int], versions: dict[str, int]) -> Answers:
    side = Side(await Connection.open("127.0.0.1", port, client_id=NAMES.client_id), ports)
    try:
        return await side.answers(versions)
    finally:
        side.close()


def _ours(directory: Path, users: list[str]) -> Nodes:
    port = cluster_port()
    named = (("PLAINTEXT", port), ("CLIENTS", port + CLIENTS), ("CONTROLLER", port + 100))
    own = (
        f"listeners={','.join(f'{name}://127.0.0.1:{at}' for name, at in named)}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"sasl.plain.users.file={directory / 'users'}",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        f"super.users={SUPER_USERS}",
        "group.initial.rebalance.delay.ms=0",
        "transaction.max.timeout.ms=7200000",
    )
    files = {"users": "".join(f"{user}={PASSWORD}\n" for user in users)}
    return Nodes(create_cluster(directory, 1, port, (JSON_LOGS, NO_QUOTA), own={1: own}, files=files))


def _kafka(folder: Path, users: list[str], clients_port: int, controller_port: int) -> kafka_broker.Broker:
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    own = f'username="{SUPER}" password="{PASSWORD}"'  # the node's, at its controller
    settings = (
        f"{SETTINGS}listener.security.protocol.map="
        "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "sasl.mechanism.controller.protocol=PLAIN\n"
        f"listener.name.clients.plain.sasl.jaas.config={module} required {known};\n"
        f"listener.name.controller.plain.sasl.jaas.config={module} required {own} {known};\n"
        f"authorizer.class.name={STANDARD_AUTHORIZER}\n"
        f"super.users={SUPER_USERS}\n"
        "group.initial.rebalance.delay.ms=0\ntransaction.max.timeout.ms=7200000\n"
        "transaction.two.phase.commit.enable=true\n"
    )
    controllers = {1: controller_port}
    return kafka_broker.Broker(
        folder, settings, node_id=1, port=free_port(), controllers=controllers, clients_port=clients_port
    )


def kafkas_answers(folder: Path, users: list[str]) -> Answers:
    """Of a node of its own, which is killed."""
    clients_port, controller_port = free_port(), free_port()
    kafka = _kafka(folder, users, clients_port, controller_port)
    kafka.start()
    try:
        return asyncio.run(_answers(kafka.port, {BROKER: clients_port, CONTROLLER: controller_port}, {}))
    finally:
        kafka.kill()


def our_answers(folder: Path, users: list[str], versions: dict[str, int]) -> Answers:
    """Of a cluster of its own, whose broker is requested."""
    ours = _ours(folder, users)
    with ended_clean(ours):
        ours.up()
        port = ours.cluster.port
        return asyncio.run(_answers(port, {BROKER: port + CLIENTS}, versions))


def same_rights(_cluster: Nodes) -> str:
    """On clusters of its own."""
    kafka_broker.fetch()
    users = [state.user for state in states()]
    with tempfile.TemporaryDirectory(prefix="fencepost-rights-") as home:
        theirs = kafkas_answers(Path(home) / "kafka", users)
        if record := os.environ.get(RECORD):
            Path(record).write_text(encoded(theirs), "utf-8")
        versions = {name: version for name, (version, _) in theirs.items()}
        ours = our_answers(Path(home) / "cluster", users, versions)
    known = theirs if record else kafkas()
    lines = [
        f"{name}, {state}: kept {old}, now {new}"
        for (name, state), (old, new) in differences(known, theirs).items()
    ]
    if known.keys() != theirs.keys():
        lines.append(f"requests that are kept, or made, alone: {sorted(known.keys() ^ theirs.keys())}")
    differing = differences(theirs, ours)
    lines += without_reason(differing)
    denials = sum(bool(seen.codes) for _, by_state in theirs.values() for seen in by_state.values())
    if lines or denials < DENIALS_MIN:
        raise StoryFailed(f"{denials} denied, {len(lines)} wrong: " + "; ".join(lines))
    return (
        f"{len(theirs)} requests of {len(users)} principals, {denials} denied; {len(ours)} of them to "
        f"a broker of ours have one answer, but for {len(differing)} with a reason"
    )


DENIALS_MIN: Final = 2_000  # else they were not what they were meant to be

SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "rights: every API key as at Apache Kafka": (kafka_broker.VERSION, same_rights)
}
