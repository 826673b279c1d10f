"""Every API key x operation x resource, allowed and denied, at a node of Apache Kafka and at ours.

Principals  one for each state of the ACLs: none; all; all by a prefix; all by the wildcard; each operation
            on each type of resource alone; all but one, which is denied; a super user.
Requests    what an honest client sends about a topic, a group with a member, a transactional id, and about
            the cluster; of each key that both serve to clients, at the newest version that both know.
Compared    the codes of denials, the names that an answer shows, and authorized operations.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.cluster.local_cluster import create_cluster
from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    Acl,
    CreateAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.describe import DescribeGroups
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.k02_list_offsets import ListOffsets
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinator
from fencepost.wire.k60_describe_cluster import DescribeCluster
from fencepost.wire.registry import APIS
from tests.broker.access.test_needs import DENIALS
from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.stories import StoryFailed
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean
from tests.hostile import insider_requests
from tests.hostile.insider_world import Names, World
from tests.hostile.largest import names_of
from tests.ports import cluster_port, free_port
from tests.wire.sample_messages import SAMPLES

T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
OP = Operation
_CONFIGS: Final = (OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS)
OPERATIONS: Final = {
    T: (OP.READ, OP.WRITE, OP.CREATE, OP.DELETE, OP.ALTER, OP.DESCRIBE, *_CONFIGS),
    G: (OP.READ, OP.DELETE, OP.DESCRIBE, *_CONFIGS),
    X: (OP.WRITE, OP.DESCRIBE, OP.TWO_PHASE_COMMIT),
    C: (OP.CREATE, OP.ALTER, OP.DESCRIBE, OP.CLUSTER_ACTION, OP.IDEMPOTENT_WRITE, *_CONFIGS),
}
NAMES: Final = Names(0)
CLIENTS: Final = 50  # the port of the listener with logins, from the cluster's on
ANSWER_S: Final = 20.0
SILENCE_S: Final = 5.0  # then there is no answer
PAUSE_S: Final = 0.1
NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
LAST: Final = (20, 42)  # what they delete is not there for those that follow
OF_THE_CLUSTER: Final = (35, 43, 46, 48, 55, 60, 74)  # whose samples change nothing
PASSWORD: Final = "x"
SUPER: Final = "User:ANONYMOUS;User:super"
Scenario = Callable[[Nodes], str]


Codes = tuple[int, ...]
REASONS: Final[dict[tuple[int, int], tuple[Codes, Codes]]] = {
    (50, 0): ((), (31,)),
}
"""The differences, as the codes of Kafka and ours, by API key and number of the request.

50, 0   DescribeUserScramCredentials of all users: without the right Kafka answers nothing, not even an error.
"""


class State(NamedTuple):
    """What a principal may do."""

    name: str
    acls: tuple[Acl, ...]

    @property
    def user(self) -> str:
        """Its name."""
        return self.name.lower().replace(" ", "-").replace("_", "-")


class Seen(NamedTuple):
    """What is compared of an answer."""

    codes: tuple[int, ...]
    names: tuple[str, ...]
    operations: tuple[int, ...]


class Case(NamedTuple):
    """A principal's request."""

    key: int
    number: int
    state: str


def states() -> Iterator[State]:
    """All principals."""
    yield State("nothing", ())
    yield State("super", ())
    yield State("all", tuple(_acl("all", of, OP.ALL) for of in OPERATIONS))
    yield State(
        "prefixed",
        tuple(_acl("prefixed", of, OP.ALL, name="secret", pattern=PatternType.PREFIXED) for of in (T, G, X)),
    )
    yield State("wildcard", tuple(_acl("wildcard", of, OP.ALL, name="*") for of in (T, G, X)))
    for of, operations in OPERATIONS.items():
        for operation in operations:
            user = f"only {operation.name} on {of.name}"
            yield State(user, (_acl(user, of, operation),))
            user = f"all but {operation.name} on {of.name}"
            denied = _acl(user, of, operation, permission=Permission.DENY)
            yield State(user, (*(_acl(user, each, OP.ALL) for each in OPERATIONS), denied))


def _acl(
    state: str,
    of: ResourceType,
    operation: Operation,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    **resource: str,
) -> Acl:
    named = {T: NAMES.topic, G: NAMES.group, X: NAMES.transactional_id, C: CLUSTER_NAME}[of]
    principal = f"User:{State(state, ()).user}"
    return Acl(of, pattern, resource.get("name", named), principal, "*", operation, permission)


class Side:
    """One of the two clusters: a super user's connection, as InsiderNode for World, and a principal's."""

    def __init__(self, root: Connection, port: int) -> None:
        self._root = root
        self._port = port
        self.world = World(self)  # type: ignore[arg-type]  # of it World has ``root`` alone
        self.by: Connection = root

    @classmethod
    async def open(cls, port: int, clients_port: int) -> "Side":
        """Connect as the super user."""
        return cls(await Connection.open("127.0.0.1", port, client_id=NAMES.client_id), clients_port)

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
        if self.by is not self._root:
            self.by.close()
        self._login = Login(state.user, PASSWORD)
        self.by = await Connection.open("127.0.0.1", self._port, sasl=self._login)

    async def see(self, key: int, request: Any, version: int) -> Seen:
        """What its answer shows."""
        try:
            outcome = await self.by.call(APIS[key], request, version=version, timeout_s=SILENCE_S)
        except ApiError as error:
            outcome = error
        except (ConnectionLost, NotConnected, RequestTimeout) as error:
            self.by.close()
            self.by = await Connection.open("127.0.0.1", self._port, sasl=self._login)
            return Seen((), (type(error).__name__,), ())
        return seen_in(outcome)

    def close(self) -> None:
        """Both."""
        self.by.close()
        self._root.close()


def seen_in(outcome: Any) -> Seen:
    """Denials, names and authorized operations, wherever they stand."""
    if isinstance(outcome, ApiError):
        return Seen((int(outcome.code),) if outcome.code in DENIALS else (), (), ())
    found = sorted(_values_in(outcome))
    codes = tuple(sorted({int(value) for name, value in found if name == "code" and int(value) in DENIALS}))
    operations = tuple({int(value): None for name, value in found if name == "operations"})
    text = repr(outcome)
    marks = (NAMES.topic, NAMES.group, NAMES.transactional_id, NAMES.idle)
    return Seen(codes, tuple(each for each in marks if each in text), operations)


def _values_in(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, ErrorCode):
        yield "code", str(int(value))
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from _values_in(each)
    else:
        for name in names_of(value):
            found = getattr(value, name)
            if name in ("error_code", "code"):
                yield "code", str(int(found))
            elif "authorized_operations" in name:
                yield "operations", str(found)
            else:
                yield from _values_in(found)


def requests(side: Side) -> dict[int, tuple[Any, ...]]:
    """By API key, those of an honest client; the ids in them are this side's."""
    world, found = side.world, dict[int, tuple[Any, ...]]()
    state, (member, generation) = world.states[0], world.members[0]
    for part in (
        insider_requests._of_cluster("kept", "user"),
        insider_requests._of_topic(NAMES, state.topic_id, state.end),
        insider_requests._of_group(NAMES, member, generation),
        insider_requests._of_transaction(NAMES, member, *state.transaction[1:]),
        {key: (SAMPLES[key][0],) for key in OF_THE_CLUSTER},
        {
            3: (Metadata((TopicQuery(NAMES.topic),), include_topic_authorized_operations=True),),
            14: (SyncGroup(NAMES.group, generation, member, None, "consumer", "range"),),
            15: (DescribeGroups((NAMES.group,), include_authorized_operations=True),),
            60: (DescribeCluster(include_cluster_authorized_operations=True),),
        },
    ):
        for key, some in part.items():
            found[key] = found.get(key, ()) + some
    return dict(sorted(found.items(), key=lambda each: (each[0] in LAST, each[0])))


async def compare(kafka: Side, ours: Side) -> tuple[Counter[bool], dict[Case, tuple[Seen, Seen]]]:
    """How many requests, by whether Kafka denies them, and those that are answered otherwise."""
    count, differing = Counter[bool](), dict[Case, tuple[Seen, Seen]]()
    everyone = tuple(states())
    for side in (kafka, ours):
        acls = [acl for state in everyone for acl in state.acls]
        for at in range(0, len(acls), 100):
            await side.root(30, CreateAcls(tuple(acls[at : at + 100])))
    for state in everyone:
        for side in (kafka, ours):
            await side.world.renew(0)
            await side.become(state)
        theirs, own = requests(kafka), requests(ours)
        for key in theirs:
            if not all(key in side.by.versions for side in (kafka, ours)):
                continue
            for number, (request, same) in enumerate(zip(theirs[key], own[key], strict=True)):
                version = min(side.by.version_for(APIS[key], request) for side in (kafka, ours))
                pair = (await kafka.see(key, request, version), await ours.see(key, same, version))
                count[bool(pair[0].codes)] += 1
                if pair[0] != pair[1]:
                    differing[Case(key, number, state.name)] = pair
    return count, differing


async def _compared(
    kafka_ports: tuple[int, int], our_ports: tuple[int, int]
) -> tuple[Counter[bool], dict[Case, tuple[Seen, Seen]]]:
    kafka, ours = await Side.open(*kafka_ports), await Side.open(*our_ports)
    try:
        return await compare(kafka, ours)
    finally:
        kafka.close()
        ours.close()


def _ours(directory: Path, users: list[str]) -> Nodes:
    port = cluster_port()
    named = (("PLAINTEXT", port), ("CLIENTS", port + CLIENTS), ("CONTROLLER", port + 100))
    own = (
        f"listeners={','.join(f'{name}://127.0.0.1:{at}' for name, at in named)}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        f"sasl.plain.users.file={directory / 'users'}",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        f"super.users={SUPER}",
        "group.initial.rebalance.delay.ms=0",
        "transaction.max.timeout.ms=7200000",
    )
    files = {"users": "".join(f"{user}={PASSWORD}\n" for user in users)}
    return Nodes(create_cluster(directory, 1, port, (JSON_LOGS, NO_QUOTA), own={1: own}, files=files))


def _kafka(folder: Path, users: list[str], clients_port: int) -> kafka_broker.Broker:
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = (
        f"{SETTINGS}listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.clients.plain.sasl.jaas.config={module} required {known};\n"
        f"authorizer.class.name={STANDARD_AUTHORIZER}\n"
        f"super.users={SUPER}\n"
        "group.initial.rebalance.delay.ms=0\ntransaction.max.timeout.ms=7200000\n"
    )
    return kafka_broker.Broker(
        folder, settings, node_id=1, port=free_port(), controllers={1: free_port()}, clients_port=clients_port
    )


def same_rights(_cluster: Nodes) -> str:
    """On clusters of its own."""
    kafka_broker.fetch()
    users = [state.user for state in states()]
    with tempfile.TemporaryDirectory(prefix="fencepost-rights-") as home:
        clients_port = free_port()
        kafka = _kafka(Path(home) / "kafka", users, clients_port)
        ours = _ours(Path(home) / "cluster", users)
        kafka.start()
        try:
            with ended_clean(ours):
                ours.up()
                port = ours.cluster.port
                count, differing = asyncio.run(_compared((kafka.port, clients_port), (port, port + CLIENTS)))
        finally:
            kafka.kill()
    lines = without_reason(differing)
    if lines or min(count[True], count[False]) < 500:
        raise StoryFailed(f"{len(lines)} of {count} requests differ: " + "; ".join(lines))
    return (
        f"{count.total()} requests of {len(users)} principals, {count[True]} denied, have one answer; "
        f"{len(differing)} differ with a reason"
    )


def without_reason(differing: dict[Case, tuple[Seen, Seen]]) -> list[str]:
    """What differs and is not among REASONS, in words."""
    return [
        f"{APIS[case.key].name}[{case.number}] of a principal with {case.state}: Kafka {kafka}, ours {ours}"
        for case, (kafka, ours) in differing.items()
        if REASONS.get((case.key, case.number)) != (kafka.codes, ours.codes)
    ]


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "rights: every API key as at Apache Kafka": (kafka_broker.VERSION, same_rights)
}
