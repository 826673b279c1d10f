"""Every call of a file or table below the simulated nodes' directories: it may fail, and a sync is noted.

Files    ``os`` and ``open`` are replaced while a simulation runs; a call belongs to the node in whose
         directory its path, or its descriptor's, lies. Only a process that runs has failing calls: what the
         simulation does to the files of a dead one does not fail.
Tables   ``lmdb.open`` gives an environment whose transactions may fail at each ``get``, ``put``, ``delete``,
         ``cursor`` and ``commit``. A commit that fails took place, or did not.
"""

import builtins
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from tests.simulation.bad_disk import BadDisk
from tests.simulation.lost_writes import Names

BY_PATH: Final = ("open", "unlink", "mkdir", "rename", "replace", "truncate", "chmod", "listdir", "scandir")
BY_DESCRIPTOR: Final = ("write", "fsync", "fchmod", "ftruncate")
TABLE_CALLS: Final = frozenset({"get", "put", "delete", "cursor"})
STREAM_CALLS: Final = frozenset({"read", "readinto", "write", "flush"})


class Node:
    """What is known of one node's directory."""

    def __init__(self, disk: BadDisk, names: Names) -> None:
        self.disk = disk
        self.names = names


class DiskCalls:
    """``nodes``: by directory."""

    def __init__(self, nodes: Mapping[Path, Node]) -> None:
        self._nodes = {str(directory): node for directory, node in nodes.items()}

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Until then every call comes by here."""
        real: list[tuple[Any, str, Any]] = [(os, name, getattr(os, name)) for name in BY_PATH + BY_DESCRIPTOR]
        real += [(builtins, "open", builtins.open), (io, "open", io.open), (lmdb, "open", lmdb.open)]
        for module, name, call in real:
            setattr(module, name, self._replacement(module, name, call))
        try:
            yield
        finally:
            for module, name, call in real:
                setattr(module, name, call)

    def _replacement(self, module: Any, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        if module is lmdb:
            return self._opening(call)
        if module is not os:
            return self._streaming(call)
        return self._by_descriptor(name, call) if name in BY_DESCRIPTOR else self._by_path(name, call)

    def _by_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(path: Any = ".", *more: Any, **named: Any) -> Any:
            node = self._node_of(path)
            if node is not None:
                node.disk.call(name, str(path))
            return call(path, *more, **named)

        return calling

    def _by_descriptor(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        link = os.readlink

        def calling(descriptor: int, *more: Any) -> Any:
            path = link(f"/proc/self/fd/{descriptor}")
            node = self._node_of(path)
            if node is not None:
                node.disk.call(name, path)
            done = call(descriptor, *more)
            if node is not None and name == "fsync" and Path(path).is_dir():
                node.names.synced(Path(path))
            return done

        return calling

    def _streaming(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: Any, *more: Any, **named: Any) -> Any:
            node = self._node_of(path)
            if node is None or not node.disk.alive:
                return call(path, *more, **named)
            node.disk.call("open", str(path))
            return FaultyStream(call(path, *more, **named), node.disk, str(path))

        return opening

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: str, **named: Any) -> Any:
            node = self._node_of(path)
            if node is None or not node.disk.alive:
                return call(path, **named)
            node.disk.call("lmdb.open", path, in_store=True)
            env = FaultyEnvironment(call(path, **named), node.disk)
            node.disk.environments.append(env)
            return env

        return opening

    def _node_of(self, path: Any) -> Node | None:
        text = path if isinstance(path, str) else str(path)
        return next((node for at, node in self._nodes.items() if text.startswith(at + "/")), None)


class Faulty:
    """Passes on everything; what is in ``calls`` may fail before it is made."""

    calls: frozenset[str] = frozenset()

    def __init__(self, real: Any, disk: BadDisk, path: str = "") -> None:
        self.real = real
        self._disk = disk
        self._path = path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return partial_call(self, name, found) if name in self.calls else found

    def strike(self, name: str) -> None:
        """Raises what the disk raises."""
        self._disk.call(name, self._path)

    def __enter__(self) -> Any:
        self.real.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self.real.__exit__(*error)


def partial_call(of: Faulty, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, which may fail."""

    def calling(*given: Any, **named: Any) -> Any:
        of.strike(name)
        return call(*given, **named)

    return calling


class FaultyStream(Faulty):
    """An open file."""

    calls = STREAM_CALLS

    def __iter__(self) -> Any:
        return iter(self.real)


class FaultyEnvironment(Faulty):
    """An LMDB environment."""

    def begin(self, **how: Any) -> "FaultyTransaction":
        """See lmdb."""
        self._disk.call("begin", "store", in_store=True)
        return FaultyTransaction(self.real.begin(**how), self._disk, "store")


class FaultyTransaction(Faulty):
    """One of its transactions."""

    calls = TABLE_CALLS

    def strike(self, name: str) -> None:
        """See Faulty."""
        self._disk.call(name, self._path, in_store=True)
