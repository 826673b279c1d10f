"""What voters say before they talk Raft: who they are, and a proof that they know the cluster's secret.

Order   dialler: Hello          who it is, which cluster, a nonce
        acceptor: Hello + proof   HMAC-SHA256(secret, "accept" | both Hellos)
        dialler: Proof            HMAC-SHA256(secret, "dial" | both Hellos)
        acceptor: Welcome, or Refused with the reason
Level   the highest log level that a node reads is a Hello's ninth field. A node of before log levels sends
        eight, ignores a ninth, and proves what it knows: so the proofs cover the ninth fields if both Hellos
        have one. Taken out of one Hello on the way, it breaks the proof; out of both, each side takes the
        other for an old node: then the level is not raised, and at a level above 0 they refuse each other.
"""

import hashlib
import hmac
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from fencepost.settings.node_identity import id_text
from fencepost.wire.secret_proof import matches
from fencepost.wire.tls import Tls

PROTOCOL: Final = "fencepost-raft-1"
HELLO_BYTES_MAX: Final = 4096


class Refusal(Exception):
    """The other side must not be talked to. The text goes to both logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """Who we are, and where the others listen."""

    node_id: NodeId
    directory_id: uuid.UUID
    cluster_id: str
    secret: bytes = field(repr=False)
    controller: tuple[str, int]
    addresses: Mapping[NodeId, tuple[str, int]]  # every voter's Raft address
    log_level_max: int = LEVEL_MAX  # the highest that this node reads
    second_secret: bytes | None = field(default=None, repr=False)  # believed, never proved with
    tls: Tls | None = None  # of every link, in both directions; None: links are in the clear


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """First message on a connection: node id, its view of the voters' directories, its controller listener.

    ``log_level_max``: None in the Hello of a node of before log levels; it reads level 0.
    """

    protocol: str
    cluster_id: str
    node_id: int
    directory_id: uuid.UUID
    nonce: bytes
    bound: dict[int, uuid.UUID]
    controller: tuple[str, int]
    proof: bytes = b""
    log_level_max: Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)] | None = None

    def covered(self, *, with_level: bool) -> msgspec.Raw:
        """What a proof covers, as it is encoded: an array of the tag and the fields, the proof left out."""
        *named, _, level = msgspec.structs.astuple(self)
        said = ("hello", *named, b"", level) if with_level else ("hello", *named, b"")
        return msgspec.Raw(encode_handshake(said))


class Proof(msgspec.Struct, frozen=True, array_like=True, tag="proof"):
    """The dialler knows the secret."""

    proof: bytes


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The acceptor is convinced: frames may follow."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The acceptor is not, and says why."""

    reason: str


decode_handshake: Final = msgspec.msgpack.Decoder(Hello | Proof | Welcome | Refused).decode
encode_handshake: Final = msgspec.msgpack.Encoder().encode


def prove(secret: bytes, role: bytes, dialler: Hello, acceptor: Hello) -> bytes:
    """HMAC-SHA256 of a role over both Hellos, proofs left out; the levels only if both have one."""
    with_level = dialler.log_level_max is not None and acceptor.log_level_max is not None
    said = encode_handshake((dialler.covered(with_level=with_level), acceptor.covered(with_level=with_level)))
    return hmac.new(secret, role + said, hashlib.sha256).digest()


def is_proof(config: LinkConfig, proof: bytes, role: bytes, dialler: Hello, acceptor: Hello) -> bool:
    """The other side knows one of this node's secrets."""
    known = (config.secret, config.second_secret)
    return matches(known, proof, lambda secret: prove(secret, role, dialler, acceptor))


def check(config: LinkConfig, hello: Hello, log_level: int) -> NodeId:
    """The peer's node id. Raises Refusal for a foreign node, and for one that cannot read ``log_level``."""
    if hello.protocol != PROTOCOL:
        raise Refusal(f"it uses protocol {hello.protocol!r}, this node {PROTOCOL!r}")
    if hello.cluster_id != config.cluster_id:
        raise Refusal(f"node {hello.node_id} belongs to cluster {hello.cluster_id}, not {config.cluster_id}")
    if hello.node_id == config.node_id:
        raise Refusal(
            f"node id {hello.node_id} is taken: it is this node's, "
            f"in directory {id_text(config.directory_id)}"
        )
    if hello.node_id not in config.addresses:
        raise Refusal(f"node {hello.node_id} is not a voter of this cluster: {sorted(config.addresses)}")
    readable = hello.log_level_max or 0
    if readable < log_level:
        raise Refusal(
            f"node {hello.node_id} reads log levels up to {readable}, this cluster is at {log_level}: "
            f"upgrade node {hello.node_id}"
        )
    return NodeId(hello.node_id)
