"""How ``fencepost migrate`` talks to the active controller: until it is answered, showing how far it is.

Again       every command may be sent again (wire/k20021_migrate.py), so one that met the death of a leader, a
            silent one or a ZooKeeper that does not answer is repeated until ``timeout_s`` is over.
Crash       the points of quorum/crash_points.py that lie in this process are reached here.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable
from typing import Final

from fencepost.cluster.console import Unreadable, WrongUsage, progress
from fencepost.cluster.controllers import errors_explained
from fencepost.cluster.target import Target
from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.quorum.crash_points import Reach, reach_in
from fencepost.wire.client import ConnectionLost, ControllerClient, RequestTimeout
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k20021_migrate import MIGRATE, Migrate, Migrated

TIMEOUT_SECONDS: Final = 120.0  # longer than a fence may take (bridge/upgrade.py FENCE_S_MAX)
ATTEMPT_SECONDS: Final = 10.0  # without a response the leader may be gone: the request goes to the next one
LOOK_SECONDS: Final = 10.0  # for commands that only look
POLL_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 0.5

_LATER: Final = frozenset((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT))


def send(target: Target, request: Migrate, timeout_s: float) -> Migrated:
    """The answer to a command that may write. Raises what ``errors_explained`` raises."""
    reach = _reach()
    with errors_explained(target), progress() as show:
        reach("command:before-request")
        answer = asyncio.run(_send(target, request, timeout_s, show))
        reach("command:after-answer")
    return answer


def look(target: Target, timeout_s: float = LOOK_SECONDS) -> Migrated:
    """Where the upgrade stands. Raises what ``errors_explained`` raises."""
    with errors_explained(target):
        return asyncio.run(_send(target, Migrate("status"), timeout_s, lambda _text: None))


def cluster_id(target: Target) -> str:
    """Of the fencepost cluster: the name in its fences."""

    async def ask() -> str:
        client = _client(target, LOOK_SECONDS)
        try:
            return (await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=LOOK_SECONDS)).cluster_id
        finally:
            await client.close()

    with errors_explained(target):
        return asyncio.run(ask())


async def _send(target: Target, request: Migrate, timeout_s: float, show: Callable[[str], None]) -> Migrated:
    client = _client(target, ATTEMPT_SECONDS)
    watching = asyncio.create_task(_watch(target, request.command, show)) if sys.stderr.isatty() else None
    try:
        return await _until_answered(client, request, timeout_s, show)
    finally:
        if watching is not None:
            watching.cancel()
        await client.close()


async def _until_answered(
    client: ControllerClient, request: Migrate, timeout_s: float, show: Callable[[str], None]
) -> Migrated:
    deadline = time.monotonic() + timeout_s
    refused = ""  # why the attempt before was
    while True:
        try:
            return await client.call(MIGRATE, request, timeout_s=max(0.1, deadline - time.monotonic()))
        except UnsupportedVersion as error:
            raise Unreadable(f"the controllers do not serve migrate: {error}") from error
        except ApiError as error:
            if error.code not in _LATER or time.monotonic() + RETRY_SECONDS >= deadline:
                raise
            refused = f". Before: {error}"
            show(f"{request.command}: {error}")
        except (ConnectionLost, RequestTimeout) as error:
            raise type(error)(f"{error}{refused}") from error
        await asyncio.sleep(RETRY_SECONDS)


async def _watch(target: Target, command: str, show: Callable[[str], None]) -> None:
    """Show what the controller says about a command under way."""
    client = _client(target, POLL_SECONDS * 4)
    began = time.monotonic()
    try:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            said = ""
            try:
                seen = await client.call(MIGRATE, Migrate("status"), timeout_s=POLL_SECONDS * 4)
                said = seen.progress or f"phase {seen.phase}"
            except (ApiError, ConnectionLost, RequestTimeout) as error:
                said = str(error)
            show(f"{command}, {time.monotonic() - began:.0f} s: {said}")
    finally:
        await client.close()


def _client(target: Target, attempt_s: float) -> ControllerClient:
    return ControllerClient(
        target.addresses,
        sasl=target.sasl,
        tls=target.tls,
        rng=random.Random(),
        client_id="fencepost-cli",
        attempt_timeout_s=attempt_s,
    )


def _reach() -> Reach:
    try:
        return reach_in()
    except ValueError as error:
        raise WrongUsage(str(error)) from error
