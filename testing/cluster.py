"""A cluster of real node processes for one test run: it is there in a second, can be broken, leaves nothing.

Processes   as ``fencepost up`` starts them: real protocol, real fsync, a real kill -9.
Ends        when the ``with`` block does, or the test run does, by whatever death (testing/reaper.py).
Ports       belong to the cluster also while a node is dead (testing/held_ports.py).
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn

from fencepost.cluster import forked, local_cluster
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.local_cluster import CONTROLLER_PORT_OFFSET, HOST
from fencepost.cluster.secured import CLIENTS, Secured, secured
from fencepost.settings.config import CONTROLLER_LISTENER, PLAINTEXT
from fencepost.settings.config_values import SSL
from fencepost.testing import reaper
from fencepost.testing.async_cluster import AsyncCluster
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.held_ports import HeldPorts
from fencepost.testing.proxies import Proxies
from fencepost.testing.running import UNPICKLED, RunningCluster, fail, require_no_loop, text_of
from fencepost.testing.tls import MUTUAL, TlsMode, files_of, node_keys, require_mode

__tracebackhide__ = True  # a failing test is shown, and debugged, at its own line

TESTING: Final = "fencepost.testing"
FREE_MIN: Final = "disk.free.min.bytes"
FREE_BYTES_MIN: Final = 1024 * 1024  # temporary folders may be small: /dev/shm of a container has 64 MiB
PROXIED: Final = "PROXIED"
PROXIED_PORT_OFFSET: Final = 400
PROXY_PORT_OFFSET: Final = 500
PROXY: Final = "proxy"

Topics = Iterable[str] | Mapping[str, int]
"""Names, or names with their numbers of partitions (one, if it does not say)."""


class Cluster:
    """``with Cluster(nodes=3, topics=["orders"]) as cluster: cluster.kill("leader")``.

    On an event loop ``async with``, which gives an AsyncCluster; else a RunningCluster.

    ``nodes``       each is controller and broker.
    ``topics``      made before the block begins; see ``Topics``.
    ``config``      settings of every node (docs/configuration.md) by name.
    ``faults``      a proxy before each node, for ``cluster.faults``; clients are given its addresses.
    ``tls``         True: by TLS, with an authority of its own; "mutual": clients show a certificate, too. See
                    ``cluster.tls``. Needs the extra ``tls``.
    ``directory``   where the cluster is made and kept; otherwise it is temporary. It must not be there yet.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        topics: Topics = (),
        config: Mapping[str, object] | None = None,
        faults: bool = False,
        tls: TlsMode = False,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        """Raises ClusterFailed: this is not what a cluster is made of."""
        if not isinstance(nodes, int):
            raise ClusterFailed(f"nodes: expected a number, got {nodes!r}")
        if isinstance(topics, str):
            raise ClusterFailed(f"topics: expected several names, got one text; write: topics=[{topics!r}]")
        if config is not None and not isinstance(config, Mapping):
            raise ClusterFailed(f"config: expected settings by name, {{'num.partitions': 5}}, got {config!r}")
        self._node_count = nodes
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        settings = {TESTING: True, FREE_MIN: FREE_BYTES_MIN, **(config or {})}
        self._overrides = [f"{name}={text_of(value)}" for name, value in settings.items()]
        self._has_faults = faults
        self._tls: TlsMode = tls
        self._kept = None if directory is None else Path(directory).absolute()
        self._undo: contextlib.ExitStack | None = None
        self._started_by = 0

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises AttributeError: what runs is what the ``with`` block is given."""
            if hasattr(RunningCluster, name):
                raise AttributeError(f"a Cluster runs in a block; write: with Cluster() as c: c.{name}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(UNPICKLED)

    def __enter__(self) -> RunningCluster:
        """Start. Raises ClusterFailed."""
        require_no_loop()
        return self._started()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the nodes; the folder goes, unless it is to be kept. Does nothing in a fork of the process."""
        if self._undo is not None and self._started_by == os.getpid():
            undo, self._undo = self._undo, None
            undo.close()

    async def __aenter__(self) -> AsyncCluster:
        """Start it beside the running event loop. Raises ClusterFailed.

        Where this is cancelled, the cluster is ended before CancelledError comes out.
        """
        starting = asyncio.ensure_future(asyncio.to_thread(self._started))
        try:
            return AsyncCluster(await asyncio.shield(starting))
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            await asyncio.to_thread(self.__exit__, None, None, None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As ``__exit__``."""
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _started(self) -> RunningCluster:
        if self._undo is not None:
            raise ClusterFailed("this cluster runs already; make another Cluster(...) for a second one")
        with contextlib.ExitStack() as undo:
            try:
                running = self._start(undo)
            except (Failed, WrongUsage, Unreadable, OSError) as error:
                fail(error)
            self._undo, self._started_by = undo.pop_all(), os.getpid()
            return running

    def _start(self, undo: contextlib.ExitStack) -> RunningCluster:
        require_mode(self._tls, has_faults=self._has_faults)
        forked.prepare()
        if self._kept is not None:
            _require_new(self._kept)
        root = self._kept or Path(tempfile.mkdtemp(prefix="fencepost-"))
        if self._kept is None:
            undo.callback(shutil.rmtree, root, ignore_errors=True)
        undo.callback(_end, reaper.start(str(root), keep=self._kept is not None))
        offsets = [PROXIED_PORT_OFFSET, PROXY_PORT_OFFSET] if self._has_faults else []
        ports = HeldPorts(self._node_count, offsets)
        undo.callback(ports.close)
        home = self._kept or root / "cluster"
        own, files = self._secured(home, ports.first)
        if self._has_faults:
            proxied = _proxied_listeners(ports.first, self._node_count, by_tls=bool(self._tls))
            own = {node: _merged(own.get(node, []), lines) for node, lines in proxied.items()}
        local = local_cluster.create_cluster(
            home, self._node_count, ports.first, self._overrides, own=own, files=files
        )
        proxies = self._proxies(home, ports.first, undo) if self._has_faults else None
        running = RunningCluster(local, proxies, files_of(self._tls, home))
        undo.callback(running.kill_all)
        running.bring_up()
        if proxies is not None:
            proxies.await_ready()
        for name, partitions in self._topics.items():
            running.create_topic(name, partitions=partitions)
        return running

    def _secured(self, home: Path, first_port: int) -> Secured:
        if not self._tls:
            return Secured({}, {})
        local_cluster.require_node_count(self._node_count)
        return secured(str(home), self._node_count, first_port, knows_clients=self._tls == MUTUAL)

    def _proxies(self, home: Path, first_port: int, undo: contextlib.ExitStack) -> Proxies:
        nodes = range(self._node_count)
        files = files_of(self._tls, home)
        proxies = Proxies(
            home / PROXY,
            [first_port + PROXIED_PORT_OFFSET + node for node in nodes],
            [first_port + PROXY_PORT_OFFSET + node for node in nodes],
            keys=[] if files is None else node_keys(home, self._node_count),
            authority=None if files is None else files.authority,
        )
        undo.callback(proxies.close)
        proxies.start()
        return proxies


def _require_new(directory: Path) -> None:
    """Raises ClusterFailed unless there is nothing, or an empty folder."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = "is a cluster already" if (directory / local_cluster.CLUSTER).exists() else "is there already"
        raise ClusterFailed(
            f"directory: {directory} {what}; expected an empty folder, or a path where nothing is, as "
            f"a cluster for tests is made anew"
        )


def _merged(lines: Sequence[str], later: Sequence[str]) -> list[str]:
    """Settings, of which the later ones count."""
    settings = dict(line.split("=", 1) for line in (*lines, *later))
    return [f"{name}={value}" for name, value in settings.items()]


def _proxied_listeners(first_port: int, node_count: int, *, by_tls: bool) -> dict[int, list[str]]:
    """Each node's listener for clients that come by the proxy; nodes among themselves have their own."""
    found = {}
    direct, protocol = (CLIENTS, SSL) if by_tls else (PLAINTEXT, PLAINTEXT)
    for index in range(node_count):
        listeners = {
            direct: first_port + index,
            PROXIED: first_port + PROXIED_PORT_OFFSET + index,
            CONTROLLER_LISTENER: first_port + CONTROLLER_PORT_OFFSET + index,
        }
        found[index + 1] = [
            "listeners=" + ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            f"advertised.listeners={PROXIED}://{HOST}:{first_port + PROXY_PORT_OFFSET + index}",
            "listener.security.protocol.map=" + ",".join(f"{name}:{protocol}" for name in listeners),
            f"inter.broker.listener.name={direct}",
        ]
    return found


def _end(watch: "subprocess.Popen[bytes]") -> None:
    if watch.stdin is not None:
        watch.stdin.close()
    watch.wait()
