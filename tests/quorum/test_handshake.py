"""The Hello: nodes of before log levels and of now meet, and what is said cannot be changed on the way."""

import hashlib
import hmac
import itertools
import uuid
from typing import Any

import msgspec
import pytest

from fencepost.quorum.handshake import (
    HELLO_BYTES_MAX,
    PROTOCOL,
    Hello,
    LinkConfig,
    Refusal,
    check,
    decode_handshake,
    encode_handshake,
    prove,
)
from fencepost.records.types import NodeId
from tests.together import table

SECRET = b"the secret of this cluster"


class OldHello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """As the version before log levels had it."""

    protocol: str
    cluster_id: str
    node_id: int
    directory_id: uuid.UUID
    nonce: bytes
    bound: dict[int, uuid.UUID]
    controller: tuple[str, int]
    proof: bytes = b""


def old_prove(secret: bytes, role: bytes, dialler: Any, acceptor: Any) -> bytes:
    """As the version before log levels had it."""
    said = encode_handshake(
        (msgspec.structs.replace(dialler, proof=b""), msgspec.structs.replace(acceptor, proof=b""))
    )
    return hmac.new(secret, role + said, hashlib.sha256).digest()


def hello_of(kind: type[Any], node: int, **more: Any) -> Any:
    bound = {1: uuid.UUID(int=1), 2: uuid.UUID(int=2)}
    nonce = bytes([node] * 16)
    return kind(PROTOCOL, "c", node, uuid.UUID(int=node), nonce, bound, ("127.0.0.1", 9), **more)


def as_seen(kind: type[Any], sent: Any) -> Any:
    """What arrives at a node of one version of what a node of another sends."""
    return msgspec.msgpack.Decoder(kind).decode(encode_handshake(sent))


Version = tuple[type[Any], dict[str, int], Any]
VERSIONS: list[Any] = [
    pytest.param((OldHello, {}, old_prove), id="old"),
    pytest.param((Hello, {"log_level_max": 1}, prove), id="new"),
]


@table("role", [b"dial", b"accept"])
@table("dialler", VERSIONS)
@table("acceptor", VERSIONS)
def test_old_and_new_prove_the_same(dialler: Version, acceptor: Version, role: bytes) -> None:
    (dials, named, dialler_proves), (accepts, answered, acceptor_proves) = dialler, acceptor
    one, two = hello_of(dials, 1, **named), hello_of(accepts, 2, **answered)
    at_dialler = dialler_proves(SECRET, role, one, as_seen(dials, two))
    at_acceptor = acceptor_proves(SECRET, role, as_seen(accepts, one), two)
    assert at_dialler == at_acceptor


def test_a_ninth_field_is_all_that_was_added() -> None:
    old = msgspec.msgpack.decode(encode_handshake(hello_of(OldHello, 1)))
    assert msgspec.msgpack.decode(encode_handshake(hello_of(Hello, 1, log_level_max=1))) == [*old, 1]
    assert as_seen(Hello, hello_of(OldHello, 1)).log_level_max is None


ON_THE_WAY = {
    "as it is": lambda hello: hello,
    "taken out": lambda hello: msgspec.structs.replace(hello, log_level_max=None),
    "lowered": lambda hello: msgspec.structs.replace(hello, log_level_max=0),
    "raised": lambda hello: msgspec.structs.replace(hello, log_level_max=7),
}
UNTOUCHED = {("as it is", "as it is")}
NO_LEVEL_AT_ALL = {("taken out", "taken out")}


@table(("first", "second"), [*itertools.product(ON_THE_WAY, repeat=2)])
def test_who_is_in_between_cannot_change_a_level(first: str, second: str) -> None:
    """Only where both levels are taken out do the proofs fit: each then takes the other for an old node."""
    one, two = hello_of(Hello, 1, log_level_max=1), hello_of(Hello, 2, log_level_max=1)
    one_seen, two_seen = ON_THE_WAY[first](one), ON_THE_WAY[second](two)
    fits = prove(SECRET, b"accept", one, two_seen) == prove(SECRET, b"accept", one_seen, two)
    assert fits == ((first, second) in UNTOUCHED | NO_LEVEL_AT_ALL)
    if fits and (first, second) not in UNTOUCHED:
        assert (one_seen.log_level_max, two_seen.log_level_max) == (None, None)
        with pytest.raises(Refusal, match="upgrade node 2"):
            check(config(), two_seen, 1)


@pytest.mark.parametrize("level", [0, 7, None])
def test_who_is_in_between_cannot_give_an_old_node_a_level(level: int | None) -> None:
    old, new = hello_of(OldHello, 1), hello_of(Hello, 2, log_level_max=1)
    seen = msgspec.structs.replace(as_seen(Hello, old), log_level_max=level)
    fits = prove(SECRET, b"accept", seen, new) == old_prove(SECRET, b"accept", old, as_seen(OldHello, new))
    assert fits == (level is None)


def config() -> LinkConfig:
    addresses = {NodeId(node): ("127.0.0.1", node) for node in (1, 2)}
    return LinkConfig(
        node_id=NodeId(1),
        directory_id=uuid.UUID(int=1),
        cluster_id="c",
        secret=SECRET,
        controller=("127.0.0.1", 9),
        addresses=addresses,
    )


READS = [
    pytest.param(None, 0, True, id="an-old-node-at-level-0"),
    pytest.param(None, 1, False, id="an-old-node-at-level-1"),
    pytest.param(0, 1, False, id="one-below"),
    pytest.param(1, 1, True, id="exactly"),
    pytest.param(5, 1, True, id="more"),
]


@table(("named", "level", "taken"), READS)
def test_a_peer_must_read_the_level_of_this_cluster(named: int | None, level: int, taken: bool) -> None:
    hello = hello_of(Hello, 2, log_level_max=named)
    if taken:
        assert check(config(), hello, level) == 2
    else:
        says = f"node 2 reads log levels up to {named or 0}, this cluster is at {level}: upgrade node 2"
        with pytest.raises(Refusal, match=says):
            check(config(), hello, level)


@table("level", [-1, 2**15, 1.5, "1", [1]], ids=repr)
def test_a_level_that_is_none_is_refused(level: Any) -> None:
    raw = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode_handshake(hello_of(OldHello, 2))), level])
    assert len(raw) < HELLO_BYTES_MAX
    with pytest.raises(msgspec.ValidationError):
        decode_handshake(raw)


def test_a_hello_of_a_later_version_may_have_more_fields() -> None:
    raw = msgspec.msgpack.encode(
        [*msgspec.msgpack.decode(encode_handshake(hello_of(Hello, 2, log_level_max=3))), {"more": 1}]
    )
    later = decode_handshake(raw)
    assert isinstance(later, Hello)
    assert later.log_level_max == 3
