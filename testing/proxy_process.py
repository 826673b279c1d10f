"""The process of the proxies: forked for a cluster (cluster/forked.py), asked over a socket (asking.py).

Apart    where a library of the test's process keeps Python's lock, or a debugger stops it, proxies go on.
Ends     with the connection that the test's process holds. Where a fork of it holds that as well, the reaper
         ends it: it was forked in the cluster's folder (testing/reaper.py).
Keys     of TLS are read from the cluster's files.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from fencepost.cluster.local_cluster import HOST
from fencepost.testing.asking import QUESTION_BYTES_MAX
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.proxy import Proxy, Upstream
from fencepost.testing.waiting import Watched, watch
from fencepost.wire.tls import Tls, TlsSettings

SOCKET: Final = "proxy.sock"
HELD_S_MAX: Final = 30.0  # until the test's process holds its connection
OWNER_ONLY: Final = 0o077


def main(arguments: "list[str]") -> NoReturn:
    """With the text of a Setup as argument, in the folder of the socket."""
    os.umask(OWNER_ONLY)
    asyncio.run(Process().serve(msgspec.json.decode(arguments[0], type=Setup)))
    sys.exit(0)


class Setup(msgspec.Struct, kw_only=True):
    """By node: where it listens, the port of its proxy; with TLS the file of its key, and the authority's."""

    upstreams: list[int]
    ports: list[int]
    keys: list[str]
    authority: str | None

    def ends(self) -> list[Upstream]:
        """Raises TlsError."""
        trusted = Path(self.authority or "")
        ends: list[Tls | None] = [
            Tls(TlsSettings(key_file=Path(key), trusted_file=trusted)) for key in self.keys
        ]
        each = zip(self.upstreams, ends or [None] * len(self.upstreams), strict=True)
        return [Upstream(node, (HOST, port), end) for node, (port, end) in enumerate(each, start=1)]


class Process:
    """The proxies, and who asks them."""

    def __init__(self) -> None:
        self.proxy = Proxy()
        self._held = asyncio.Event()
        self._over = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def serve(self, setup: Setup) -> None:
        """Until it is over. Raises OSError, TlsError."""
        await self.proxy.listen(setup.ends(), setup.ports)
        await asyncio.start_unix_server(self._accepted, SOCKET, limit=QUESTION_BYTES_MAX)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._held.wait(), HELD_S_MAX)
            await self._over.wait()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            try:
                question = json.loads(await reader.readline())
                verb, words = question["verb"], question["with"]
                answer: dict[str, object] = {"said": await self.answer(verb, words)}
            except ClusterFailed as error:
                verb, answer = "", {"error": str(error)}
            except (ValueError, KeyError, TypeError) as error:
                verb, answer = "", {"error": f"this is no question: {error!r}"}
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
            if verb == "hold":
                self._held.set()
                await reader.read()  # to its end
            if verb in ("hold", "close"):
                self._over.set()

    async def answer(self, verb: str, words: Mapping[str, Any]) -> object:
        """What is said to a question. Raises ClusterFailed, KeyError, TypeError."""
        armory = self.proxy.armory
        match verb:
            case "wait":
                return await armory.wait(**words)
            case "close":
                await self.proxy.end()
                return [armory.clear_all(), self.proxy.journal.since(0)]
        verbs: dict[str, Callable[..., object]] = {
            "hold": lambda: None,
            "arm": armory.arm,
            "state": armory.state,
            "clear": armory.clear,
            "clear_all": armory.clear_all,
            "requests": self.proxy.journal.since,
            "watch": self._begin_watch,
            "unwatch": self._end_watch,
        }
        return verbs[verb](**words)

    def _begin_watch(self, **words: Any) -> None:
        self._end_watch()
        self._watch = asyncio.ensure_future(watch(self.proxy, Watched(**words)))

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
