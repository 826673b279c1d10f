"""What voters say before they talk Raft: who they are, and a proof that they know the cluster's secret.

Order   dialler: Hello          who it is, which cluster, a nonce
        acceptor: Hello + proof   HMAC-SHA256(secret, "accept" | both Hellos)
        dialler: Proof            HMAC-SHA256(secret, "dial" | both Hellos)
        acceptor: Welcome, or Refused with the reason
"""

import hashlib
import hmac
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from quorum.node_identity import id_text
from records.types import NodeId

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
    secret: bytes
    controller: tuple[str, int]
    addresses: Mapping[NodeId, tuple[str, int]]  # every voter's Raft address


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Who speaks, the voters' directories as it knows them, and where its controller listener is."""

    protocol: str
    cluster_id: str
    node_id: int
    directory_id: uuid.UUID
    nonce: bytes
    bound: dict[int, uuid.UUID]
    controller: tuple[str, int]
    proof: bytes = b""


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
    """HMAC-SHA256 of a role over both Hellos, proofs left out."""
    said = encode_handshake(
        (msgspec.structs.replace(dialler, proof=b""), msgspec.structs.replace(acceptor, proof=b""))
    )
    return hmac.new(secret, role + said, hashlib.sha256).digest()


def check(config: LinkConfig, hello: Hello) -> NodeId:
    """The peer's node id. Raises Refusal for a stranger."""
    if hello.protocol != PROTOCOL:
        raise Refusal(f"it speaks {hello.protocol!r}, this node {PROTOCOL!r}")
    if hello.cluster_id != config.cluster_id:
        raise Refusal(f"node {hello.node_id} belongs to cluster {hello.cluster_id}, not {config.cluster_id}")
    if hello.node_id == config.node_id:
        raise Refusal(
            f"node id {hello.node_id} is taken: it is this node's, "
            f"in directory {id_text(config.directory_id)}"
        )
    if hello.node_id not in config.addresses:
        raise Refusal(f"node {hello.node_id} is not a voter of this cluster: {sorted(config.addresses)}")
    return NodeId(hello.node_id)
