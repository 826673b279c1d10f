"""Ports that belong to one cluster for as long as it lives, also while no node listens there.

Held      by a socket that is bound and does not listen: a client that dials is refused, no other program gets
          the port, and a node that sets SO_REUSEADDR, as all servers do, may listen on it.
Between   clusters: a socket is bound without SO_REUSEADDR, which fails beside any other one, and is given it
          afterwards.
"""

import contextlib
import random
import socket
from collections.abc import Sequence

from fencepost.cluster.local_cluster import FREE_PORTS, HOST, PORT_OFFSETS


class NoPorts(OSError):
    """No stretch of ports is free."""


class HeldPorts:
    """The ports of ``node_count`` nodes; ``first`` is node 1's for clients (cluster/local_cluster.py).

    ``offsets``: of further ports of node 1, from ``first``.
    """

    def __init__(self, node_count: int, offsets: Sequence[int] = ()) -> None:
        self._sockets: list[socket.socket] = []
        for first in random.sample(FREE_PORTS, len(FREE_PORTS)):
            ports = [
                first + offset + node for offset in (*PORT_OFFSETS, *offsets) for node in range(node_count)
            ]
            if self._hold(ports):
                self.first = first
                return
        raise NoPorts(f"no free stretch of ports from {FREE_PORTS.start} to {FREE_PORTS.stop}")

    def _hold(self, ports: list[int]) -> bool:
        with contextlib.ExitStack() as undo:
            found = []
            for port in ports:
                holder = undo.enter_context(socket.socket())
                try:
                    holder.bind((HOST, port))
                except OSError:
                    return False
                found.append(holder)
            undo.pop_all()
        for holder in found:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sockets = found
        return True

    def close(self) -> None:
        """Others may have the ports. May be called again."""
        for holder in self._sockets:
            holder.close()
        self._sockets = []
