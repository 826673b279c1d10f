"""ProveSecret, API key 20037, version 0: two nodes of one cluster prove that they know its secret.

A private API, called twice on a connection. First without a proof: the server answers with a nonce and a
proof of its own. Then the same fields with the client's proof: from then on the connection is proved. What
that means, and why it cannot be used on another connection: wire/secret_proof.py.
docs/api-keys.md has its fields.

Refused     58 where the secret or the cluster is another one; 42 for what is out of order.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.private_api import INT32, Fields, bytes_of, private_api, string_of
from fencepost.wire.request_limits import SMALL

FIELD_BYTES_MAX: Final = 256
"""Of a cluster id, a role, a nonce or a proof: all are below 64."""


class ProveSecret(msgspec.Struct, frozen=True):
    """The client's node id, cluster and role; the second request adds a ``proof``."""

    node_id: int
    cluster_id: str
    role: str
    nonce: bytes
    proof: bytes = b""


class SecretProved(msgspec.Struct, frozen=True):
    """Who answers. The first time with a nonce and a proof."""

    node_id: int
    cluster_id: str
    nonce: bytes = b""
    proof: bytes = b""


_TEXT: Final = string_of(FIELD_BYTES_MAX)
_BYTES: Final = bytes_of(FIELD_BYTES_MAX)

PROVE_SECRET: Final[Api[ProveSecret, SecretProved]] = private_api(
    20037,
    "ProveSecret",
    Fields(ProveSecret, node_id=INT32, cluster_id=_TEXT, role=_TEXT, nonce=_BYTES, proof=_BYTES),
    Fields(SecretProved, node_id=INT32, cluster_id=_TEXT, nonce=_BYTES, proof=_BYTES),
    (BROKER, CONTROLLER),
    is_compact=True,
    refused=b"\xff\xff\xff\xff\x01\x01\x01",  # node -1, and nothing in the other fields
    request_bytes_max=SMALL,  # a handful of short fields
)
