"""Requests for the list of brokers wait until this broker has the list.

Why      clients take the list for complete: librdkafka closes its connections to brokers that are not in it,
         the live coordinator's included, and one that commits offsets in a transaction may wait for ever
         then (docs/clients.md). A broker that has just started knows of no other one.
Bound    FIRST_PICTURE_S_MAX; then the connection is closed, so that the client goes to another broker. A
         connection has one request in process, so there are at most as many as connections.
Source   Kafka BrokerServer.startup: requests are processed once the broker has caught up with the metadata.
"""

import asyncio
from typing import Any, Final

from fencepost.broker.metadata_cache import MetadataCache
from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import Context, Endpoint, Reply

FIRST_PICTURE_S_MAX: Final = 5.0
"""A broker that starts beside a leader has it within 0.2 s; Kafka's clients give a request 30 s or more."""


class FirstPicture:
    """See the module. ``stop`` gives up what waits."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._waiting: set[asyncio.Task[None]] = set()

    def awaited_by(self, endpoint: Endpoint[Any, Any]) -> Endpoint[Any, Any]:
        """The endpoint, for requests that come after the first picture or wait for it."""

        def serve(request: Any, context: Context, reply: Reply[Any]) -> None:
            if self._cache.has_picture:
                endpoint(request, context, reply)
                return
            task = asyncio.get_running_loop().create_task(self._wait(endpoint, request, context, reply))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

        return serve

    async def _wait(
        self, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        try:
            async with asyncio.timeout(FIRST_PICTURE_S_MAX):
                await self._cache.first_picture()
        except TimeoutError:
            reply.close(f"no active controller listed the brokers within {FIRST_PICTURE_S_MAX:g} s")
            return
        try:
            endpoint(request, context, reply)
        except ApiError as refusal:
            reply(refusal)

    async def stop(self) -> None:
        """Their connections are closed by the listener."""
        for task in tuple(self._waiting):
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
