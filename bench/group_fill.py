"""``python -m fencepost.bench.group_fill``: groups that exist by one offset each, a process of its own.

Fill           commits one offset of each group, by many clients.
FirstCommit    commits until one is answered: how soon that is after the kill of the coordinator.
Count          what ListGroups has.
Clock          CLOCK_MONOTONIC in nanoseconds: one clock for all processes of a machine.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import uvloop

from fencepost.bench.coordinators import Address, NoCoordinator, find_all, open_first
from fencepost.bench.process import serve_async
from fencepost.controller.errors import ApiError
from fencepost.controller.groups.describe import ListGroups
from fencepost.controller.groups.offset_messages import CommitOffsets, OffsetToCommit
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.errors import error_for
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, GROUP, FindCoordinator
from fencepost.wire.k16_list_groups import LIST_GROUPS

LOOKUP_SECONDS: Final = 90.0
ASK_SECONDS: Final = 30.0
LIST_SECONDS: Final = 120.0
AT_ONCE: Final = 64  # clients of Fill
PAUSE_S: Final = 0.005  # between two attempts to commit: what a takeover's figure is exact to

_FAILURES: Final = (ConnectionLost, RequestTimeout, ApiError)


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, and the groups PREFIX-0 and up, each with an offset of one partition of the topic."""

    bootstrap: list[Address]
    prefix: str
    topic: str
    partitions: int


class Fill(msgspec.Struct, frozen=True, tag=True):
    """Commit an offset of each group from ``first`` on, below ``end``. The response is null."""

    where: Where
    first: int
    end: int


class FirstCommit(msgspec.Struct, frozen=True, tag=True):
    """Commit for group 0 until it is answered. Answered with the time of that."""

    where: Where
    timeout_s: float


class Count(msgspec.Struct, frozen=True, tag=True):
    """Answered with how many groups there are whose names begin with the prefix."""

    where: Where


Command = Fill | FirstCommit | Count


class Failed(Exception):
    """The load is worth nothing; says why."""


async def fill(command: Fill) -> None:
    """See Fill. Raises what a commit does that is never answered."""
    where = command.where
    found = await find_all(where.bootstrap, GROUP, [f"{where.prefix}-0"], LOOKUP_SECONDS)
    numbers = iter(range(command.first, command.end))
    await asyncio.gather(*(_commit_each(found[f"{where.prefix}-0"], where, numbers) for _ in range(AT_ONCE)))


async def _commit_each(address: Address, where: Where, numbers: Iterator[int]) -> None:
    """A listener serves the requests of one connection one after the other: each client has its own."""
    connection = await Connection.open(*address, timeout_s=ASK_SECONDS)
    try:
        for number in numbers:
            await _commit(connection, where, number)
    finally:
        connection.close()


async def _commit(connection: Connection, where: Where, number: int) -> None:
    offsets = (OffsetToCommit(where.topic, number % where.partitions, number),)
    request = CommitOffsets(f"{where.prefix}-{number}", offsets)
    answer = await connection.call(OFFSET_COMMIT, request, timeout_s=ASK_SECONDS)
    if answer.rows[0].code:
        raise error_for(answer.rows[0].code)


async def first_commit(command: FirstCommit) -> int:
    """See FirstCommit. Raises Failed."""
    where = command.where
    last: object = "never tried"
    try:
        async with asyncio.timeout(command.timeout_s):
            while True:
                for address in where.bootstrap:
                    try:
                        return await _commit_by(address, where)
                    except _FAILURES as error:
                        last = error
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Failed(f"no offset is committed in {command.timeout_s:.0f} s: {last}") from None


async def _commit_by(address: Address, where: Where) -> int:
    """Commit where that node says the coordinator is. Returns when that was answered."""
    bootstrap = await Connection.open(*address, timeout_s=ASK_SECONDS)
    try:
        query = FindCoordinator(GROUP, (f"{where.prefix}-0",))
        (found,) = (await bootstrap.call(FIND_COORDINATOR, query, timeout_s=ASK_SECONDS)).coordinators
    finally:
        bootstrap.close()
    if found.error_code:
        raise error_for(found.error_code)
    connection = await Connection.open(found.host, found.port, timeout_s=ASK_SECONDS)
    try:
        await _commit(connection, where, 0)
        return time.monotonic_ns()
    finally:
        connection.close()


async def count(command: Count) -> int:
    """See Count."""
    where = command.where
    found = await find_all(where.bootstrap, GROUP, [f"{where.prefix}-0"], LOOKUP_SECONDS)
    connection = await open_first([found[f"{where.prefix}-0"]])
    try:
        answer = await connection.call(LIST_GROUPS, ListGroups(), timeout_s=LIST_SECONDS)
    finally:
        connection.close()
    return sum(each.group_id.startswith(f"{where.prefix}-") for each in answer.groups)


async def _execute(command: Command) -> Any:
    match command:
        case Fill():
            return await fill(command)
        case FirstCommit():
            return await first_commit(command)
        case Count():
            return await count(command)


if __name__ == "__main__":
    uvloop.run(serve_async(Command, _execute, (Failed, NoCoordinator, *_FAILURES)))
