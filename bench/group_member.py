"""A member of a consumer group, as lean as a thousand of them in one process must be.

Behaves as    a Java consumer of the classic protocol: joins twice (KIP-394), the leader assigns, Heartbeat
              every 3 s, a lost or refused coordinator is looked up again after 100 ms.
Differs       the heartbeats of members are spread over the interval from the first one on, as those of
              members that joined at different times; after a lost connection a member sends one at once.
Verified      a member's assignment is the one that the leader wrote for its id, or the load fails.
"""

import asyncio
import random
import struct
import time
from dataclasses import dataclass, field
from typing import Final, cast

from fencepost.bench.coordinators import BACKOFF_S, CoordinatorLookup
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import MemberIdRequired
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import NO_GENERATION, NO_MEMBER
from fencepost.controller.groups.joining import JoinGroup, JoinGroupAnswer
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.stalls import Stalls

CLIENT_ID: Final = "fencepost-bench"
PROTOCOL: Final = "range"
HEARTBEAT_S: Final = 3.0  # heartbeat.interval.ms
REBALANCE_TIMEOUT_MS: Final = 300_000  # max.poll.interval.ms
JOIN_SECONDS: Final = 305.0
ASK_SECONDS: Final = 30.0  # request.timeout.ms
OPEN_SECONDS: Final = 10.0
OPEN_AT_ONCE: Final = 32  # connections: fewer than a listener's backlog (Kafka: 50), past which one waits 1 s

_VERSION: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_AGAIN: Final = frozenset((ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS))
_ELSEWHERE: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)


@dataclass(slots=True)
class Members:
    """What the members of a group in one process share. ``failure``: the first thing that must not be."""

    group_id: str
    topic: str
    subscription_bytes: int
    assignment_bytes: int
    session_ms: int
    lookup: CoordinatorLookup
    rng: random.Random
    failure: str | None = None
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPEN_AT_ONCE))
    changed: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # a member is stable, or was heard, or failed

    def fail(self, message: str) -> None:
        """The load is worth nothing."""
        self.failure = self.failure or message
        self.changed.set()


class _Watched(Connection):
    """A connection whose end wakes the member up that waits for its next heartbeat."""

    def __init__(self, client_id: str, stalls: Stalls | None = None) -> None:
        super().__init__(client_id, stalls)
        self.lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.lost.set()


class Member:
    """One member. ``run`` it as a task; to cancel that is to kill the member: it sends no LeaveGroup."""

    def __init__(self, members: Members) -> None:
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION  # stable in this generation, or none
        self.stable_ns = 0  # since when
        self.sent_ns = 0  # when the last answered heartbeat was sent
        self.heard_ns = 0  # when its answer came
        self._members = members
        self._subscription = subscription(members.topic, members.subscription_bytes)
        self._connection: _Watched | None = None
        self._lookup = 0  # that the connection comes from

    async def run(self) -> None:
        """Join, and stay in the group until cancelled."""
        pause_s = self._members.rng.uniform(0, HEARTBEAT_S)
        try:
            while True:
                try:
                    connection = await self._connect()
                    if self.generation == NO_GENERATION:
                        await self._join(connection)
                    else:
                        await self.send_heartbeat()
                    await _wait(connection.lost, pause_s)
                    pause_s = HEARTBEAT_S
                except (ConnectionLost, RequestTimeout):
                    self._close()
                except ApiError as error:
                    await self._refused(error)
        except Exception as error:  # noqa: BLE001 - a member that ends is what the load reports
            self._members.fail(f"{type(error).__name__}: {error}")
        finally:
            self._close()

    async def send_heartbeat(self) -> None:
        """Raises what ``Connection.call`` does."""
        if self._connection is None:
            raise NotConnected("the member has no connection")
        sent_ns = time.monotonic_ns()
        request = HeartbeatGroup(self._members.group_id, self.generation, self.member_id)
        await self._connection.call(HEARTBEAT, request, timeout_s=ASK_SECONDS)
        self.sent_ns, self.heard_ns = sent_ns, time.monotonic_ns()
        self._members.changed.set()

    async def _connect(self) -> _Watched:
        if self._connection is None or not self._connection.is_open:
            lookup = self._members.lookup
            where, self._lookup = await lookup.find()
            try:
                async with self._members.opening:
                    opened = await _Watched.open(
                        where.host, where.port, timeout_s=OPEN_SECONDS, client_id=CLIENT_ID
                    )
            except ConnectionLost:
                lookup.forget(self._lookup)
                await asyncio.sleep(BACKOFF_S)
                raise
            self._connection = cast(_Watched, opened)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()

    async def _refused(self, error: ApiError) -> None:
        """React as clients do. Raises what no client goes on after."""
        if isinstance(error, MemberIdRequired):
            self.member_id = error.member_id
        elif error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = NO_MEMBER, NO_GENERATION
        elif error.code in _AGAIN:
            self.generation = NO_GENERATION
        elif error.code in _ELSEWHERE:
            self._members.lookup.forget(self._lookup)
            self._close()
            await asyncio.sleep(BACKOFF_S)
        else:
            raise error

    async def _join(self, connection: Connection) -> None:
        members = self._members
        request = JoinGroup(
            group_id=members.group_id,
            session_timeout_ms=members.session_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=((PROTOCOL, self._subscription),),
        )
        joined = await connection.call(JOIN_GROUP, request, timeout_s=JOIN_SECONDS)
        self.member_id = joined.member_id
        sync = SyncGroup(
            members.group_id,
            joined.generation,
            joined.member_id,
            protocol_type=joined.protocol_type,
            protocol=joined.protocol,
            assignments=self._assignments(joined),
        )
        synced = await connection.call(SYNC_GROUP, sync, timeout_s=JOIN_SECONDS)
        if synced.assignment != assignment(members.topic, self.member_id, members.assignment_bytes):
            members.fail(f"{self.member_id} of {members.group_id} was given what is not its assignment")
        self.generation, self.stable_ns = joined.generation, time.monotonic_ns()
        members.changed.set()

    def _assignments(self, joined: JoinGroupAnswer) -> tuple[tuple[str, bytes], ...]:
        """The leader's, for each member; none of another member."""
        topic, size = self._members.topic, self._members.assignment_bytes
        return tuple((each.member_id, assignment(topic, each.member_id, size)) for each in joined.members)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def subscription(topic: str, size: int) -> bytes:
    """A consumer's subscription (version 0) to one topic, of at least ``size`` bytes: padded user data."""
    name = topic.encode()
    start = _VERSION.pack(0) + _COUNT.pack(1) + _VERSION.pack(len(name)) + name
    return start + _user_data(b"", size - len(start))


def assignment(topic: str, member_id: str, size: int) -> bytes:
    """A consumer's assignment (version 0), of at least ``size`` bytes: no partition, and whose it is."""
    start = _VERSION.pack(0) + _COUNT.pack(0)
    return start + _user_data(f"{topic} {member_id}".encode(), size - len(start))


def _user_data(content: bytes, size: int) -> bytes:
    return _COUNT.pack(max(len(content), size - _COUNT.size)) + content.ljust(size - _COUNT.size, b".")
