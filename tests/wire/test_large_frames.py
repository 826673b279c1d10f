"""Frames that are given out in the parts they were made of: every codec reads them, on both sides."""

import asyncio
from typing import Any

from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.frame import DETACHED_BYTES_MIN
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    TRANSACTION,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)
from tests.wire.stage import listening


def test_a_large_request_and_its_large_reply_are_read() -> None:
    keys = tuple(f"{number:05d}".ljust(100, "k") for number in range(4_000))
    assert sum(map(len, keys)) > DETACHED_BYTES_MIN

    def find(request: FindCoordinator, context: Context, reply: Reply[Any]) -> None:
        reply(FindCoordinatorAnswer(tuple(Coordinator(key, 1, "host", 9092) for key in request.keys)))

    async def story() -> None:
        async with listening({FIND_COORDINATOR.key: (FIND_COORDINATOR, find)}) as (listener, _):
            client = await Connection.open("127.0.0.1", listener.port)
            answer = await client.call(FIND_COORDINATOR, FindCoordinator(TRANSACTION, keys), timeout_s=20)
            assert tuple(each.key for each in answer.coordinators) == keys
            client.close()

    asyncio.run(story())
