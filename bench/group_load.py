"""``python -m fencepost.bench.group_load``: members of one group, a process of its own.

Commands   (see ``fencepost.bench.process``) Enter begins; AwaitStable, AwaitHeard, Where and Refresh speak of
           its members; Leave ends the group. A second process may hold other members of the same group: one
           that is there to be killed.
Clock      CLOCK_MONOTONIC in nanoseconds: one clock for all processes of a machine.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
import uvloop

from fencepost.bench.coordinators import Address, CoordinatorLookup, NoCoordinator, open_first
from fencepost.bench.group_member import Member, Members
from fencepost.bench.process import serve_async
from fencepost.controller.errors import ApiError
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k10_find_coordinator import GROUP
from fencepost.wire.k13_leave_group import LEAVE_GROUP

LOOKUP_SECONDS: Final = 90.0
LEAVE_SECONDS: Final = 30.0
ASK_SECONDS: Final = 5.0
POLL_S: Final = 0.1


class Enter(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Make members and let them join. The response is null: it does not wait for them."""

    bootstrap: list[Address]
    group_id: str
    topic: str
    members: int
    subscription_bytes: int
    assignment_bytes: int
    session_ms: int


class AwaitStable(msgspec.Struct, frozen=True, tag=True):
    """Wait until all members are in one generation, not below ``generation_min``. Answered with Stable."""

    generation_min: int
    timeout_s: float


class Stable(msgspec.Struct, frozen=True):
    """All members have their assignments in that generation; the last one had its own at ``at_ns``."""

    generation: int
    at_ns: int


class AwaitHeard(msgspec.Struct, frozen=True, tag=True):
    """Wait until each member has a generation and an answer to a heartbeat that it sent after ``after_ns``.

    Answered with when the last one got it.
    """

    after_ns: int
    timeout_s: float


class Refresh(msgspec.Struct, frozen=True, tag=True):
    """Send a heartbeat of the first member. Answered with when it was answered."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The response is null: the process has started."""


class Where(msgspec.Struct, frozen=True, tag=True):
    """Answered with the node id of the group's coordinator."""


class AwaitNodes(msgspec.Struct, frozen=True, tag=True):
    """Wait until so many brokers are in the cluster's metadata. The response is null."""

    bootstrap: list[Address]
    nodes: int
    timeout_s: float


class Leave(msgspec.Struct, frozen=True, tag=True):
    """End the members; the group is left by one request. The response is null."""


Command = Ready | Enter | AwaitStable | AwaitHeard | Refresh | Where | AwaitNodes | Leave


class Failed(Exception):
    """The load is worth nothing; says why."""


class Group:
    """The members of one group that this process holds."""

    def __init__(self, enter: Enter) -> None:
        self.shared = Members(
            group_id=enter.group_id,
            topic=enter.topic,
            subscription_bytes=enter.subscription_bytes,
            assignment_bytes=enter.assignment_bytes,
            session_ms=enter.session_ms,
            lookup=CoordinatorLookup(enter.bootstrap, GROUP, enter.group_id, LOOKUP_SECONDS),
            rng=random.Random(),
        )
        self.members = [Member(self.shared) for _ in range(enter.members)]
        self._tasks = [asyncio.create_task(each.run()) for each in self.members]

    async def stable(self, generation_min: int, timeout_s: float) -> Stable:
        """See AwaitStable."""
        await self._until(lambda: self._generation() >= generation_min, timeout_s, "are not stable")
        return Stable(self._generation(), max(each.stable_ns for each in self.members))

    def _generation(self) -> int:
        generations = {each.generation for each in self.members}
        return generations.pop() if len(generations) == 1 else -1

    async def heard(self, after_ns: int, timeout_s: float) -> int:
        """See AwaitHeard."""
        await self._until(
            lambda: self._generation() >= 0 and all(each.sent_ns > after_ns for each in self.members),
            timeout_s,
            "have no answer to a heartbeat",
        )
        return max(each.heard_ns for each in self.members)

    async def leave(self) -> None:
        """Cancel the members, and remove them by one LeaveGroup. Best effort: a session ends, too."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        leavers = tuple(Leaver(each.member_id) for each in self.members if each.member_id)
        try:
            where, _ = await self.shared.lookup.find()
            connection = await Connection.open(where.host, where.port)
            request = LeaveGroup(self.shared.group_id, leavers)
            await connection.call(LEAVE_GROUP, request, timeout_s=LEAVE_SECONDS)
            connection.close()
        except (ConnectionLost, RequestTimeout, ApiError, NoCoordinator) as error:
            raise Failed(f"{len(leavers)} members did not leave {self.shared.group_id}: {error}") from error

    async def _until(self, is_so: Callable[[], bool], timeout_s: float, what: str) -> None:
        changed = self.shared.changed
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    if self.shared.failure is not None:
                        raise Failed(self.shared.failure)
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            joined = sum(each.generation >= 0 for each in self.members)
            raise Failed(
                f"members of {self.shared.group_id} {what} in {timeout_s:.0f} s; "
                f"{joined} of {len(self.members)} have a generation"
            ) from None
        if self.shared.failure is not None:
            raise Failed(self.shared.failure)


async def _await_nodes(command: AwaitNodes) -> None:
    """Each of the addresses in ``bootstrap`` shows that many brokers."""
    seen: object = 0
    try:
        async with asyncio.timeout(command.timeout_s):
            for address in command.bootstrap:
                seen = 0
                while seen != command.nodes:
                    try:
                        connection = await open_first([address])
                        answer = await connection.call(METADATA, Metadata(topics=()), timeout_s=ASK_SECONDS)
                        seen = len(answer.brokers)
                        connection.close()
                    except (ConnectionLost, RequestTimeout, ApiError) as error:
                        seen = error
                    await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise Failed(f"{seen} of {command.nodes} brokers are there after {command.timeout_s:.0f} s") from None


class _Load:
    def __init__(self) -> None:
        self._group: Group | None = None

    async def execute(self, command: Command) -> Any:
        if isinstance(command, Enter):
            self._group = Group(command)
            return None
        if isinstance(command, Ready):
            return None
        if isinstance(command, AwaitNodes):
            return await _await_nodes(command)
        group = self._group
        if group is None:
            raise Failed("Enter comes first")
        match command:
            case AwaitStable():
                return await group.stable(command.generation_min, command.timeout_s)
            case AwaitHeard():
                return await group.heard(command.after_ns, command.timeout_s)
            case Refresh():
                await group.members[0].send_heartbeat()
                return group.members[0].heard_ns
            case Where():
                return (await group.shared.lookup.find())[0].node_id
            case Leave():
                self._group = None
                return await group.leave()


if __name__ == "__main__":
    failures = (Failed, NoCoordinator, ConnectionLost, RequestTimeout, ApiError)
    uvloop.run(serve_async(Command, _Load().execute, failures))
