"""What insiders attack: for each right a set of resources, and a principal with all other rights on it.

A set has a topic with a record, a group with a member and an offset, one without members, and an open
transaction. Its names, its member's client id and address, its record and a setting are marks that occur
nowhere else. OPERATOR has rights on the cluster, and on no set: ACLs and users are the cluster's.
"""

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    CreateAcls,
    DeleteAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.config_changes import AlterConfigs, ConfigChange, ResourceChanges
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.describe import DescribeGroups
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.offset_messages import (
    CommitOffsets,
    DeleteGroups,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.scram_types import (
    AlterScram,
    DescribeScram,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
)
from fencepost.controller.topics import CreateTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.batch import decode_batch, encode_batch
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.k00_produce import PartitionData, Produce
from fencepost.wire.k01_fetch import Fetch, FetchPartition
from fencepost.wire.k02_list_offsets import ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k32_describe_configs import TOPIC_RESOURCE, ConfigResource, DescribeConfigs
from tests.hostile.insider_node import TRIES_MAX, InsiderNode

T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
OP = Operation
RETENTION: Final = "retention.ms"
EARLIEST, LATEST = -2, -1
THERE: Final = frozenset((ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS))  # forwarded again
TIMEOUT_MS: Final = 7_200_000  # longer than a campaign
SESSION_MS: Final = 1_800_000
PAUSE_S: Final = 0.2
OFFSET: Final = 4_711
"""Committed by no insider: one of theirs may be kept for a moment alone, and go when others are judged."""
OPERATOR: Final = "User:operator"
USER: Final = "secret-user"
KEPT: Final = "secret-kept"  # a resource with an ACL
MADE: Final = "made"  # what is made of the cluster, and goes again


class Right(NamedTuple):
    """An operation on a type of resource."""

    operation: Operation
    of: ResourceType


RIGHTS: Final = (
    *(Right(each, T) for each in (OP.READ, OP.WRITE, OP.CREATE, OP.DELETE, OP.ALTER, OP.DESCRIBE)),
    *(Right(each, T) for each in (OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS)),
    *(Right(each, G) for each in (OP.READ, OP.DELETE, OP.DESCRIBE)),
    *(Right(each, X) for each in (OP.WRITE, OP.DESCRIBE, OP.TWO_PHASE_COMMIT)),
)


@dataclass(frozen=True)
class Names:
    """The marks of set ``n``; those of ``absent`` are as long, and are nowhere."""

    n: int
    word: str = "secret"

    def _name(self, what: str) -> str:
        return f"{self.word}-{what}-{self.n:02}"

    @property
    def topic(self) -> str:
        return self._name("topic")

    @property
    def fresh(self) -> str:
        """A topic that is not there, and that the principal may do everything to but what it lacks."""
        return self._name("fresh")

    @property
    def group(self) -> str:
        return self._name("group")

    @property
    def idle(self) -> str:
        """A group that has offsets and no member."""
        return self._name("idle")

    @property
    def transactional_id(self) -> str:
        return self._name("id")

    @property
    def client_id(self) -> str:
        return self._name("client")

    @property
    def host(self) -> str:
        return f"10.77.{self.n}.9"

    @property
    def record(self) -> bytes:
        return self._name("record").encode()

    @property
    def setting(self) -> str:
        return f"98765432{self.n:02}1"

    @property
    def principal(self) -> str:
        return f"User:insider-{self.n:02}"


@dataclass(frozen=True)
class State:
    """What a super user sees of a set."""

    topic_id: Any = None
    partitions: int = 0
    has_fresh: bool = False
    setting: str | None = None
    first: int = 0
    end: int = 0
    members: tuple[str, ...] = ()
    offset: int = -1
    idle: int = -1  # what the group without members committed
    transaction: tuple[Any, ...] = ()
    written_to: tuple[tuple[str, int], ...] = ()
    timeout_ms: int = 0


class World:
    """``missing`` of a set is the right that its principal lacks; the last set's principal lacks none."""

    def __init__(self, node: InsiderNode) -> None:
        self.node = node
        self.missing: tuple[Right | None, ...] = (*RIGHTS, None)
        self.names = tuple(Names(n) for n in range(len(self.missing)))
        self.states: list[State] = [State()] * len(self.names)
        self.cluster: frozenset[Any] = frozenset()
        self.members: list[tuple[str, int]] = [("", -1)] * len(self.names)
        self.pending: dict[str, list[str]] = {}  # ids that groups gave to insiders, who may not have joined

    async def build(self) -> None:
        """All sets, and the ACLs of their principals."""
        for names, missing in zip(self.names, self.missing, strict=True):
            await self.node.root(30, CreateAcls(tuple(_acls(names, missing))))
        operator = [
            Acl(C, PatternType.LITERAL, CLUSTER_NAME, OPERATOR, "*", operation, Permission.ALLOW)
            for operation in (OP.ALTER, OP.DESCRIBE)
        ]
        await self.node.root(30, CreateAcls(tuple(operator)))
        await self.renew_cluster()
        await asyncio.gather(*(self.renew(n) for n in range(len(self.names))))

    async def renew_cluster(self) -> None:
        """Make what is missing of the cluster, and remove what was made."""
        kept = Acl(T, PatternType.LITERAL, KEPT, "User:kept", "*", OP.ALL, Permission.ALLOW)
        await self.node.root(30, CreateAcls((kept,)))
        await self.node.root(31, DeleteAcls((AclFilter(name=MADE),)))
        await self.node.root(51, AlterScram((), (user_of(USER),)))
        await self.node.root(51, AlterScram((ScramDeletion(MADE, Mechanism.SCRAM_SHA_256),)))
        self.cluster = await self.look_at_cluster()

    async def renew(self, n: int) -> None:
        """Make what is missing of a set, or was changed; none but its own member is in its group."""
        tries = []
        for _ in range(TRIES_MAX):
            try:
                await self._renew(n)
                if not self._joined(n, self.states[n]):
                    return
                tries.append(f"others joined: {self.states[n].members}")
            except TimeoutError as error:  # its own member waits for one that joined late
                tries.append(str(error))
            await self.regroup(n)
        raise AssertionError(f"others go on joining the group of set {n}: {tries}")

    def _joined(self, n: int, state: State) -> list[str]:
        """Members that joined late: they would leave by their session's timeout, when others are judged."""
        return [each for each in state.members if not each.startswith(self.names[n].client_id)]

    async def _renew(self, n: int) -> None:
        names, state = self.names[n], await self.look(n)
        if state.topic_id is None:
            made = NewTopic(names.topic, 2, 1, configs=((RETENTION, names.setting),))
            (row,) = (await self.node.root(19, CreateTopics((made,)))).topics
            assert row.error_code in THERE, row
        elif state.setting != names.setting:
            changes = ResourceChanges(TOPIC_RESOURCE, names.topic, (ConfigChange(RETENTION, names.setting),))
            await self.node.root(44, AlterConfigs((changes,)))
        if state.topic_id is None or state.first == state.end:
            await self._write(names)
        if not state.members:
            await self._join(n)
        if state.offset != OFFSET:
            offsets = (OffsetToCommit(names.topic, 0, OFFSET),)
            member, generation = self.members[n]
            identity = Identity(member, None, generation)
            await self.node.root(8, CommitOffsets(names.group, offsets, identity))
        if state.idle != OFFSET:
            await self.node.root(8, CommitOffsets(names.idle, (OffsetToCommit(names.topic, 0, OFFSET),)))
        if state.transaction[:1] != ("Ongoing",) or state.timeout_ms != TIMEOUT_MS:
            await self._begin(names)
        self.states[n] = await self.look(n)

    async def _write(self, names: Names) -> None:
        batch = encode_batch([(None, names.record, ())], timestamp_ms=1_790_000_000_000)
        for _ in range(TRIES_MAX):  # a topic that was just made has no log yet
            (row,) = (await self.node.root(0, _produce(names.topic, batch))).partitions
            if not row.error_code:
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(row)

    async def _join(self, n: int) -> None:
        names = self.names[n]
        who = {"client_id": names.client_id, "peer": f"{names.host}:5"}
        request = JoinGroup(names.group, SESSION_MS, SESSION_MS, "", "consumer", (("range", b"m"),))
        for _ in range(2):
            try:
                joined = await self.node.root(11, request, **who)
                break
            except ApiError as error:
                request = replace(request, member_id=error.member_id)  # type: ignore[attr-defined]
        assignments = ((joined.member_id, b"a"),)
        await self.node.root(
            14,
            SyncGroup(
                names.group, joined.generation, joined.member_id, None, "consumer", "range", assignments
            ),
        )
        self.members[n] = (joined.member_id, joined.generation)

    async def regroup(self, n: int) -> None:
        """The set's group begins anew: who has joined it is out, and who is about to.

        A group waits for an id that it gave, as Kafka's do: up to half an hour, by the session's timeout.
        """
        group = self.names[n].group
        members = (await self.node.root(15, DescribeGroups((group,)))).groups[0].members
        leavers = [*(each.member_id for each in members), *self.pending.pop(group, ())]
        if leavers:
            await self.node.root(13, LeaveGroup(group, tuple(map(Leaver, leavers))))
        await self.node.root(42, DeleteGroups((group,)))

    async def _begin(self, names: Names) -> None:
        init = await self.node.root(22, InitProducerId(names.transactional_id, TIMEOUT_MS))
        topics = (TopicPartitions(names.topic, (0,)),)
        added = AddPartitions(names.transactional_id, init.producer_id, init.producer_epoch, topics)
        request = AddPartitionsToTxn((added,))
        await self.node.root(24, request)

    async def look(self, n: int) -> State:
        """The set's state now."""
        names, root = self.names[n], self.node.root
        queries = (TopicQuery(names.topic), TopicQuery(names.fresh))
        topic, fresh = (await root(3, Metadata(queries, allow_auto_topic_creation=False))).topics
        groups = await root(15, DescribeGroups((names.group,)))
        (transaction,) = (await root(65, DescribeTransactions((names.transactional_id,)))).transactions
        state = State(
            has_fresh=not fresh.error_code,
            members=tuple(each.member_id for each in groups.groups[0].members),
            transaction=(transaction.state, transaction.producer_id, transaction.producer_epoch),
            written_to=tuple(
                (each.topic, part) for each in transaction.partitions for part in each.partition_ids
            ),
            timeout_ms=transaction.transaction_timeout_ms,
        )
        if topic.error_code:
            return state
        settings = await root(
            32, DescribeConfigs((ConfigResource(TOPIC_RESOURCE, names.topic, (RETENTION,)),))
        )
        ends = await root(2, ListOffsets(tuple(OffsetQuery(names.topic, 0, at) for at in (EARLIEST, LATEST))))
        if not settings.results[0].configs or ends.partitions[0].error_code:
            return await self.look(n)  # it was just deleted
        queries_ = tuple(GroupQuery(each, ((names.topic, 0),)) for each in (names.group, names.idle))
        offset, idle = (each.offsets[0].offset for each in (await root(9, FetchOffsets(queries_))).groups)
        return dataclasses.replace(
            state,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            setting=settings.results[0].configs[0].value,
            first=ends.partitions[0].offset,
            end=ends.partitions[1].offset,
            offset=offset,
            idle=idle,
        )

    async def look_at_cluster(self) -> frozenset[Any]:
        """ACLs, and users' credentials."""
        acls = (await self.node.root(29, AclFilter())).acls
        users = (await self.node.root(50, DescribeScram())).results
        return frozenset((*acls, *((each.user, each.credentials) for each in users)))

    async def has_new_records(self, n: int, before: State, now: State) -> bool:
        """Data was written between two states of a topic that is the same one."""
        position = max(before.end, now.first)
        while position < now.end:
            part = FetchPartition(None, now.topic_id, 0, -1, position, -1, -1, 1 << 20)
            (row,) = (await self.node.root(1, Fetch(-1, 0, 1, 1 << 20, 0, 0, -1, (part,)))).partitions
            raw, at = bytes(row.records), 0
            if not raw:
                return False
            while at < len(raw):
                batch, size = decode_batch(raw, at)
                at += size
                position = batch.base_offset + batch.last_offset_delta + 1
                if not batch.is_control:
                    return True
        return False


def user_of(name: str) -> ScramUpsertion:
    """A user as kafka-configs sets it."""
    return ScramUpsertion(name, Mechanism.SCRAM_SHA_256, 4096, b"salt", b"salted password")


def _produce(topic: str, batch: bytes, transactional_id: str | None = None) -> Produce:
    return Produce(transactional_id, -1, 5_000, (PartitionData(topic, 0, batch),))


def _acls(names: Names, missing: Right | None) -> list[Acl]:
    resources = (
        (T, names.topic), (T, names.fresh), (G, names.group), (G, names.idle), (X, names.transactional_id)
    )  # fmt: skip
    rows = [_acl(names, of, name, OP.ALL, Permission.ALLOW) for of, name in resources]
    if missing is not None:
        rows += [
            _acl(names, of, name, missing.operation, Permission.DENY)
            for of, name in resources
            if of == missing.of
        ]
    return rows


def _acl(names: Names, of: ResourceType, name: str, operation: Operation, permission: Permission) -> Acl:
    return Acl(of, PatternType.LITERAL, name, names.principal, "*", operation, permission)
