"""Proof of the cluster's secret on one connection: who may say what only a node of this cluster can know.

Proved     a client that is a node of this cluster. Its tags on WriteTxnMarkers and AddPartitionsToTxn, and
           its AnnouncePartitions, are believed; those of others are not, with or without an authorizer.
Order      client: who it is, its role, a nonce
           server: who it is, a nonce, HMAC-SHA256(secret, "server" | both identities | role | both nonces)
           client: HMAC-SHA256(secret, "client" | the same)
Replay     each side's nonce is new and the other's proof covers it, so what was said on one connection proves
           nothing on another; the labels keep one side's proof from being sent back as the other's, or as one
           of quorum/handshake.py.
Two        a file may hold two secrets: a node proves the first, and believes who proves either. So a new one
           comes in by three rolling restarts: second on every node, then first, then alone.
Empty      no secret, or one below SECRET_BYTES_MIN, proves nothing and is proved nothing.
"""

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fencepost.controller.errors import InconsistentClusterId, InvalidRequest
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Proof
from fencepost.wire.errors import SaslAuthenticationFailed
from fencepost.wire.k20037_prove_secret import PROVE_SECRET, ProveSecret, SecretProved

SECRET_BYTES_MIN: Final = 16
SECRETS_MAX: Final = 2  # of a file
NONCE_BYTES: Final = 32
COORDINATOR: Final = "coordinator"
BROKER: Final = "broker"
ROLES: Final = frozenset({COORDINATOR, BROKER})

_LABEL: Final = b"fencepost.ProveSecret.0"
_LENGTH: Final = struct.Struct(">I")


class SecretNotProved(SaslAuthenticationFailed):
    """The other side does not know this cluster's secret, or is not the node that it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecret:
    """What a node proves with, and as whom."""

    secret: bytes = field(repr=False)
    second: bytes | None = field(default=None, repr=False)  # believed, never proved with
    cluster_id: str
    node_id: int

    @property
    def known(self) -> tuple[bytes, bytes | None]:
        """The secrets that others may prove."""
        return self.secret, self.second

    @property
    def proves(self) -> bool:
        """There is a secret that is worth proving."""
        return len(self.secret) >= SECRET_BYTES_MIN


def parse_secrets(text: str) -> tuple[bytes, bytes | None]:
    """The secret that a file holds, and a second one if it has two lines.

    Raises ValueError, which names what is expected and not the secret.
    """
    found = [line.strip().encode() for line in text.strip().splitlines()]
    shortest = min(map(len, found), default=0)
    if shortest < SECRET_BYTES_MIN or len(found) > SECRETS_MAX:
        raise ValueError(
            f"it holds {len(found)} lines, the shortest of {shortest} bytes; expected a secret of at least "
            f"{SECRET_BYTES_MIN} bytes, or two while it is changed, the same on every node of the cluster "
            "('fencepost storage format' writes a new one)"
        )
    return found[0], found[1] if len(found) > 1 else None


def matches(known: tuple[bytes, bytes | None], proof: bytes, made: Callable[[bytes], bytes]) -> bool:
    """``proof`` is what ``made`` makes of one of the secrets. It takes as long for either."""
    first = hmac.compare_digest(proof, made(known[0]))
    second = known[1] is not None and hmac.compare_digest(proof, made(known[1]))
    return first or second


def serve(own: ClusterSecret, request: ProveSecret, proof: Proof) -> SecretProved:
    """Answer one ProveSecret of the connection of ``proof``.

    Raises   SecretNotProved, InconsistentClusterId, InvalidRequest.
    """
    offered, proof.offered = proof.offered, None  # whatever comes of it, a nonce is used once
    proof.proved = False
    if not own.proves:
        raise SecretNotProved("this node has no secret to prove; set quorum.secret.file, and start it again")
    if request.cluster_id != own.cluster_id:
        raise InconsistentClusterId(
            f"this node belongs to cluster {own.cluster_id}, not {request.cluster_id}"
        )
    if request.role not in ROLES or len(request.nonce) != NONCE_BYTES:
        raise InvalidRequest(
            f"expected a nonce of {NONCE_BYTES} bytes and a role of {', '.join(sorted(ROLES))}"
        )
    if not request.proof:
        nonce = secrets.token_bytes(NONCE_BYTES)
        answer = SecretProved(own.node_id, own.cluster_id, nonce)
        proof.offered = request, answer
        return SecretProved(own.node_id, own.cluster_id, nonce, _hmac(own.secret, b"server", request, answer))
    if offered is None:
        raise InvalidRequest("a proof came before this node's nonce was requested")
    said, answer = offered
    same = (said.node_id, said.role, said.nonce) == (request.node_id, request.role, request.nonce)
    is_known = matches(own.known, request.proof, lambda secret: _hmac(secret, b"client", said, answer))
    if not same or not is_known:
        raise SecretNotProved(
            f"node {request.node_id} does not know the cluster's secret (quorum.secret.file)"
        )
    proof.proved = True
    return SecretProved(own.node_id, own.cluster_id)


async def prove(
    connection: Connection, own: ClusterSecret, role: str, *, node_id: int | None, timeout_s: float
) -> bool:
    """Prove ``own`` to the node at the other end, which proves itself first.

    False: there is no secret, or the node is of a version without ProveSecret. ``node_id``: who it must be.
    Raises   SecretNotProved, InconsistentClusterId, what ``Connection.call`` raises: close the connection.
    """
    if not own.proves or PROVE_SECRET.key not in connection.versions:
        return False
    request = ProveSecret(own.node_id, own.cluster_id, role, secrets.token_bytes(NONCE_BYTES))
    answer = await connection.call(PROVE_SECRET, request, timeout_s=timeout_s)
    if answer.cluster_id != own.cluster_id or (node_id is not None and answer.node_id != node_id):
        raise SecretNotProved(
            f"{connection.address} is node {answer.node_id} of cluster {answer.cluster_id}; "
            f"expected {'a node' if node_id is None else f'node {node_id}'} of cluster {own.cluster_id}"
        )
    offered = SecretProved(answer.node_id, answer.cluster_id, answer.nonce)
    if not matches(own.known, answer.proof, lambda secret: _hmac(secret, b"server", request, offered)):
        raise SecretNotProved(f"{connection.address} does not know the cluster's secret (quorum.secret.file)")
    proof = _hmac(own.secret, b"client", request, offered)
    await connection.call(
        PROVE_SECRET,
        ProveSecret(request.node_id, request.cluster_id, request.role, request.nonce, proof),
        timeout_s=timeout_s,
    )
    return True


def _hmac(secret: bytes, label: bytes, request: ProveSecret, answer: SecretProved) -> bytes:
    """Every field with its length, so that no two lists of fields are the same bytes."""
    fields = (
        _LABEL,
        label,
        str(request.node_id).encode(),
        request.cluster_id.encode(),
        request.role.encode(),
        request.nonce,
        str(answer.node_id).encode(),
        answer.cluster_id.encode(),
        answer.nonce,
    )
    said = b"".join(_LENGTH.pack(len(each)) + each for each in fields)
    return hmac.new(secret, said, hashlib.sha256).digest()
