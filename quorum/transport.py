"""pysyncobj's transport, through the firewall, without sockets.

Two rules of docs/design.md 4 live here. What says "I have it" (acks, votes, a candidate's request) waits in
``_parked`` until the journal is flushed; entries may leave before. And nothing reaches the core that
the firewall did not let through. ``quorum/links.py`` moves the frames over authenticated sockets;
a simulation moves them itself.
"""

from collections.abc import Callable
from typing import Protocol

from pysyncobj.transport import Transport

from fencepost.quorum.firewall import Firewall, RaftMessage
from fencepost.quorum.messages import Ack, AppendEntries, Behind, Message, encode
from fencepost.quorum.raft_log import RaftNode
from fencepost.records.types import NodeId

Send = Callable[[NodeId, bytes], None]


class Said(Protocol):
    """What acks and entries say besides, of images (quorum/image_watch.py)."""

    def on_ack(self, peer: NodeId, ack: Ack) -> Ack:
        """The ack with this node's last report."""

    def on_entries(self, peer: NodeId, entries: AppendEntries) -> AppendEntries:
        """The entries with what is known of every node's image."""

    def connected(self, peer: NodeId) -> None:
        """What was sent to the peer before may not have arrived."""


class PeerTransport(Transport):  # type: ignore[misc]
    """What the core calls to send, and what the node calls when bytes or connections come and go."""

    def __init__(self, send: Send) -> None:
        super().__init__(None, None, [])
        self._send = send
        self._parked: list[tuple[NodeId, Message]] = []
        self.firewall: Firewall | None = None  # set once the core exists: they need each other
        self.said: Said | None = None
        self.on_behind: Callable[[NodeId], None] = lambda _peer: None

    # -- called by pysyncobj ----------------------------------------------------------------------

    def send(self, node: RaftNode, message: RaftMessage) -> bool:
        """Queue or send one message of the core."""
        if self.firewall is None:
            return False
        peer = NodeId(node.id)
        typed = self.firewall.outgoing(peer, message)
        if isinstance(typed, AppendEntries):
            self._send(peer, encode(typed if self.said is None else self.said.on_entries(peer, typed)))
        elif isinstance(typed, Behind):
            self._send(peer, encode(typed))
            self.on_behind(peer)
        elif typed is not None:
            self._parked.append((peer, typed))
        return True

    def destroy(self) -> None:
        """Nothing of ours to close."""

    # -- called by the node -----------------------------------------------------------------------

    def release(self) -> None:
        """The journal is flushed: what waited for it may leave, in order."""
        if not self._parked:
            return
        parked, self._parked = self._parked, []
        for peer, message in parked:
            if self.said is not None and isinstance(message, Ack):
                message = self.said.on_ack(peer, message)  # noqa: PLW2901
            self._send(peer, encode(message))

    def answer(self, peer: NodeId, message: Message) -> None:
        """Send something of ours, in order with acks and votes."""
        self._parked.append((peer, message))

    def drop_parked(self) -> None:
        """Forget what waits (a crash, in simulations)."""
        self._parked.clear()

    def connected(self, peer: NodeId) -> None:
        """Frames can be sent to ``peer``."""
        if self.said is not None:
            self.said.connected(peer)
        self._onNodeConnected(RaftNode(peer))

    def disconnected(self, peer: NodeId) -> None:
        """Frames can no longer be sent to ``peer``."""
        self._onNodeDisconnected(RaftNode(peer))

    def received(self, peer: NodeId, message: Message) -> None:
        """Deliver one frame of ``peer``."""
        if self.firewall is None:
            return
        answer = self.firewall.incoming(peer, message)
        if answer is not None:
            self.answer(peer, answer)
