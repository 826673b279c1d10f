"""What the tests of wire share: a log that remembers, a live listener, a socket that speaks raw bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from structlog.testing import LogCapture

from fencepost.controller.errors import InvalidRequest
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.dispatch import Context, Reply, Service
from fencepost.wire.frame import RequestHeader, request_frame
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import Listener

ASK = AllocateProducerIds(BrokerId(1), BrokerEpoch(5))


def capturing_log() -> tuple[structlog.typing.FilteringBoundLogger, list[Any]]:
    """A logger, and the list that its events end up in."""
    capture = LogCapture()
    return structlog.wrap_logger(None, processors=[capture]), capture.entries


class Blocks:
    """An endpoint that hands out blocks of ten; broker -1 is refused."""

    def __init__(self) -> None:
        self.asked: list[AllocateProducerIds] = []
        self.contexts: list[Context] = []

    def __call__(self, request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        self.asked.append(request)
        self.contexts.append(context)
        if request.broker_id < 0:
            raise InvalidRequest("no such broker")
        reply(ProducerIdBlock(ProducerId(10 * len(self.asked)), 10))


def blocks_service(blocks: Blocks | None = None) -> Service:
    return {ALLOCATE_PRODUCER_IDS.key: (ALLOCATE_PRODUCER_IDS, blocks or Blocks())}


@asynccontextmanager
async def listening(service: Service, **options: Any) -> AsyncIterator[tuple[Listener, list[Any]]]:
    """A started listener on a free port, and its log."""
    log, events = capturing_log()
    listener = Listener(service, name="CONTROLLER", log=log, **options)
    await listener.start("127.0.0.1", 0)
    try:
        yield listener, events
    finally:
        await listener.stop()
        for _ in range(5):  # a connection that was just being accepted learns that it is closed
            await asyncio.sleep(0)


class RawClient:
    """A socket without manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, source: str = "127.0.0.1") -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))

    def send(self, raw: bytes) -> None:
        self._writer.write(raw)

    async def frame(self) -> bytes | None:
        """The next frame, or None at the end. Fails rather than wait forever."""
        try:
            async with asyncio.timeout(20):
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def finish(self) -> None:
        """Nothing more will be sent."""
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass


def framed(key: int, version: int, body: bytes, *, correlation_id: int = 7, flexible: bool = True) -> bytes:
    return request_frame(RequestHeader(key, version, correlation_id, "test"), body, flexible=flexible)


def allocate(correlation_id: int = 7, broker_id: int = 1) -> bytes:
    body = ALLOCATE_PRODUCER_IDS.encode_request(0, AllocateProducerIds(BrokerId(broker_id), BrokerEpoch(5)))
    return framed(67, 0, body, correlation_id=correlation_id)
