"""A consumer's membership in its group (Kafka's classic protocol).

Generation   changes inside ``Consumer.poll`` alone: what the application reads between two polls belongs to
             the generation that ``group_metadata`` says, so its transactional offsets are fenced if the group
             has moved on (KIP-447).
Heartbeats   are sent between polls, by a task. An application that does not poll for ``max_poll_interval_ms``
             leaves the group, as it may be stuck.
Static       a member with an instance id keeps its place when it is closed and starts again (KIP-345).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fencepost.client.assignors import (
    ASSIGNORS,
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fencepost.client.coordinators import Coordinator, cancelled
from fencepost.client.errors import ClientError, FatalError, NotReachable, RequestTimedOut, number_of, refused
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.types import TopicPartition
from fencepost.records.invariant import CorruptData
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.requests import (
    ApiError,
    ErrorCode,
    HeartbeatGroup,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    Leaver,
    MemberIdRequired,
    SyncGroup,
)

JOIN_SLACK_S: Final = 5.0  # beyond the rebalance timeout, until a join counts as lost
LEAVE_S_MAX: Final = 3.0

_AGAIN: Final = frozenset(
    (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer is a member."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_s: float
    max_poll_interval_ms: int
    assignors: tuple[str, ...]
    request_timeout_s: float


class Joined(NamedTuple):
    """A generation that the member is in, and its partitions."""

    generation: int
    member_id: str
    partitions: list[TopicPartition]


class Membership:
    """One member. ``must_join`` says that the next poll joins."""

    def __init__(
        self,
        coordinator: Coordinator,
        metadata: ClusterMetadata,
        settings: GroupSettings,
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._coordinator = coordinator
        self._metadata = metadata
        self._settings = settings
        self._heartbeats: asyncio.Task[None] | None = None
        self._polled_s = 0.0
        self.member_id = ""
        self.generation = -1
        self.must_join = True
        self.lost = False
        """The partitions may be another member's by now."""
        self.failure: ClientError | None = None

    def polled(self) -> None:
        """The application polls: it is not stuck."""
        self._polled_s = asyncio.get_running_loop().time()

    async def join(self, topics: Sequence[str]) -> Joined:
        """Join and sync until the group is stable; ``adopt`` takes the generation over.

        Raises FatalError (another member has the instance id), Refused, NotReachable, RequestTimedOut.
        """
        await self._pause()
        while True:
            try:
                joined = await self._join(topics)
                partitions = await self._sync(joined)
                return Joined(joined.generation, joined.member_id, partitions)
            except MemberIdRequired as required:
                self.member_id = required.member_id
            except ApiError as error:
                code = number_of(error)
                if code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                elif code == ErrorCode.FENCED_INSTANCE_ID:
                    fenced = f"{self._settings.instance_id!r} of group {self._settings.group_id!r}: {error}"
                    raise FatalError(fenced, code) from error
                elif code not in _AGAIN:
                    raise refused(code, f"group {self._settings.group_id!r}: {error}") from error

    def adopt(self, joined: Joined) -> None:
        """The member is in this generation from now on."""
        self.generation, self.member_id = joined.generation, joined.member_id
        self.must_join = self.lost = False
        self._heartbeats = asyncio.create_task(self._send_heartbeats())

    def lose(self, *, member_too: bool = True) -> None:
        """The generation is over without a rebalance of the member's own; ``member_too``: its id as well."""
        self.must_join = self.lost = True
        self.generation = -1
        if member_too:
            self.member_id = ""
        self._on_change()

    async def leave(self) -> None:
        """Leave the group, unless the member is static. Errors are left alone: the session ends it."""
        await self._pause()
        if self.member_id and self._settings.instance_id is None:
            await self._leave("the consumer was closed")
        self.lose()

    def end_heartbeats(self) -> None:
        """Send none any more: the session ends the membership, if nothing else did."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()

    async def _leave(self, reason: str) -> None:
        request = LeaveGroup(self._settings.group_id, (Leaver(self.member_id, None, reason),))
        try:
            await self._coordinator.call(LEAVE_GROUP, request, timeout_s=LEAVE_S_MAX)
        except (ApiError, ClientError):
            pass

    async def _pause(self) -> None:
        """No heartbeat while the member joins or leaves: the coordinator waits for it."""
        await cancelled(self._heartbeats)
        self._heartbeats = None

    async def _join(self, topics: Sequence[str]) -> JoinGroupAnswer:
        settings = self._settings
        subscription = encode_subscription(topics)
        request = JoinGroup(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple((name, subscription) for name in settings.assignors),
            instance_id=settings.instance_id,
        )
        wait_s = settings.max_poll_interval_ms / 1000 + JOIN_SLACK_S
        answer = await self._coordinator.call(JOIN_GROUP, request, timeout_s=wait_s, attempt_s=wait_s)
        self.member_id = answer.member_id
        return answer

    async def _sync(self, joined: JoinGroupAnswer) -> list[TopicPartition]:
        assignments: Mapping[str, list[TopicPartition]] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        request = SyncGroup(
            self._settings.group_id,
            joined.generation,
            joined.member_id,
            self._settings.instance_id,
            PROTOCOL_TYPE,
            joined.protocol,
            tuple((member, encode_assignment(partitions)) for member, partitions in assignments.items()),
        )
        wait_s = self._settings.max_poll_interval_ms / 1000 + JOIN_SLACK_S
        answer = await self._coordinator.call(SYNC_GROUP, request, timeout_s=wait_s, attempt_s=wait_s)
        try:
            return decode_assignment(answer.assignment)
        except CorruptData as error:
            raise FatalError(f"group {self._settings.group_id!r}: {error}") from error

    async def _assign(self, joined: JoinGroupAnswer) -> Mapping[str, list[TopicPartition]]:
        """As the group's leader: who reads what. Every member's topics are looked up."""
        members = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
        topics = sorted({topic for names in members.values() for topic in names})
        counts: dict[str, int] = {}
        if self._metadata.want(*topics):
            await self._metadata.refresh(self._settings.request_timeout_s)
        for name in topics:
            topic = self._metadata.topic(name)
            counts[name] = 0 if topic is None else len(topic.leaders)
        return ASSIGNORS[joined.protocol or ""](members, counts)

    async def _send_heartbeats(self) -> None:
        """Heartbeats of one generation, until it is over for this member."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        request = HeartbeatGroup(settings.group_id, self.generation, self.member_id, settings.instance_id)
        while True:
            await asyncio.sleep(settings.heartbeat_interval_s)
            if loop.time() - self._polled_s > settings.max_poll_interval_ms / 1000:
                if settings.instance_id is None:
                    await self._leave("no poll for max_poll_interval_ms")
                self.lose()
                return
            try:
                await self._coordinator.call(HEARTBEAT, request, timeout_s=settings.request_timeout_s)
            except ApiError as error:
                code = number_of(error)
                if code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self.must_join = True
                    self._on_change()
                    continue
                if code == ErrorCode.FENCED_INSTANCE_ID:
                    self.failure = FatalError(f"{settings.instance_id!r} is another member's: {error}", code)
                elif code not in _AGAIN:
                    self.failure = refused(code, f"heartbeat of group {settings.group_id!r}: {error}")
                self.lose(member_too=code != ErrorCode.ILLEGAL_GENERATION)
                return
            except (NotReachable, RequestTimedOut):
                continue
