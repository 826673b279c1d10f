"""A broker that answers what a test says, on a listener of its own thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply, Service
from fencepost.wire.k03_metadata import METADATA, BrokerNode, Metadata, MetadataAnswer, TopicMetadata
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)
from fencepost.wire.listener import Listener
from tests.wire.stage import capturing_log

BROKER_ID = 7
Answer = Callable[[Any], Any]
"""From a request to the response, or to an ApiError."""


class FakeBroker:
    """The only broker of a cluster; it coordinates every id. ``asked``: every request it got."""

    def __init__(
        self, answers: Mapping[Api[Any, Any], Answer], topics: tuple[TopicMetadata, ...] = ()
    ) -> None:
        self.asked: list[Any] = []
        self.port = 0
        self._topics = topics
        own: dict[Api[Any, Any], Answer] = {METADATA: self._metadata, FIND_COORDINATOR: self._coordinator}
        self._service: Service = {
            api.key: (api, self._endpoint(answer)) for api, answer in (own | dict(answers)).items()
        }

    def _endpoint(self, answer: Answer) -> Endpoint[Any, Any]:
        def serve(request: Any, context: Context, reply: Reply[Any]) -> None:
            if not isinstance(request, Metadata | FindCoordinator):
                self.asked.append(request)
            reply(answer(request))

        return serve

    def _metadata(self, request: Metadata) -> MetadataAnswer | ApiError:
        wanted = None if request.topics is None else {each.name or "" for each in request.topics}
        topics = tuple(each for each in self._topics if wanted is None or each.name in wanted)
        missing = tuple(
            TopicMetadata(name=name, error_code=3)
            for name in sorted(wanted or ())
            if name not in {each.name for each in topics}
        )
        brokers = (BrokerNode(BROKER_ID, "127.0.0.1", self.port),)
        return MetadataAnswer(
            cluster_id="c", controller_id=BROKER_ID, brokers=brokers, topics=topics + missing
        )

    def _coordinator(self, request: FindCoordinator) -> FindCoordinatorAnswer:
        found = (Coordinator(key, BROKER_ID, "127.0.0.1", self.port) for key in request.keys)
        return FindCoordinatorAnswer(tuple(found))

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Yields ``host:port``."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        listener = Listener(self._service, name="PLAINTEXT", log=capturing_log()[0])
        asyncio.run_coroutine_threadsafe(listener.start("127.0.0.1", 0), loop).result(10)
        self.port = listener.port
        try:
            yield f"127.0.0.1:{self.port}"
        finally:
            asyncio.run_coroutine_threadsafe(listener.stop(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()
