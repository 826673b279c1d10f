"""Faults and proxies without a process of their own: what it is asked is done here, on an event loop."""

import asyncio
import threading
from typing import Any

import msgspec

from fencepost.testing.faults import Ask, Faults
from fencepost.testing.journal import Request
from fencepost.testing.proxy import Upstream
from fencepost.testing.proxy_process import Process


def asked_here(process: Process) -> Ask:
    """As Proxies asks its process, each question on a loop of its own."""

    def ask(verb: str, *, waits_s: float = 0, **words: Any) -> Any:
        return asyncio.run(process.answer(verb, words))

    return ask


class ProxyHere:
    """A proxy before a port, on a thread."""

    def __init__(self, behind: int, port: int) -> None:
        self.faults = Faults(self._ask)
        self.port = port
        self._process = Process()
        self._known: list[Request] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._done(self._process.proxy.listen([Upstream(1, ("127.0.0.1", behind), None)], [port]))

    def _done(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def _ask(self, verb: str, *, waits_s: float = 0, **words: Any) -> Any:
        return msgspec.json.decode(msgspec.json.encode(self._done(self._process.answer(verb, words))))

    def requests(self) -> list[Request]:
        """What it keeps, or kept."""
        if self._known is not None:
            return self._known
        return msgspec.convert(self._ask("requests", at_s=0), list[Request])

    def close(self) -> None:
        """May be called again."""
        if self._known is None:
            states, known = self._ask("close")
            self.faults.settle(states)
            self._known = msgspec.convert(known, list[Request])
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
