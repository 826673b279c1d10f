"""A node of two API keys, on a thread; what is no request comes back as it is."""

import asyncio
import struct
import threading
from typing import Any

from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from fencepost.wire.frame import response_frame
from fencepost.wire.k18_api_versions import API_VERSIONS, ApiVersionsAnswer, advertise
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.requests import EndTxnAnswer

FRAME_MIN, FRAME_MAX = 8, 1_000_000


class ScriptedNode:
    """``seen`` has the keys of its requests. With ``hold`` set its answers wait for ``release``."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.hold = False
        self._loop = asyncio.new_event_loop()
        self._released = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._released.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accepted, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.read(4):
                (size,) = struct.unpack(">i", head)
                if not FRAME_MIN <= size <= FRAME_MAX:
                    writer.write(head + await reader.read(FRAME_MAX))
                    continue
                frame = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                self.seen.append(key)
                if self.hold:
                    await self._released.wait()
                writer.write(_answer(key, version, correlation_id))
        finally:
            writer.close()


def _answer(key: int, version: int, correlation_id: int) -> bytes:
    if key == API_VERSIONS.key:
        served: list[Api[Any, Any]] = [API_VERSIONS, END_TXN]
        offered = ApiVersionsAnswer(advertise(served))
        return response_frame(correlation_id, API_VERSIONS.encode_response(version, offered, 0), tagged=False)
    body = END_TXN.encode_response(version, EndTxnAnswer(ProducerId(7), 4), 0)
    return response_frame(correlation_id, body, tagged=END_TXN.has_tagged_response_header(version))
