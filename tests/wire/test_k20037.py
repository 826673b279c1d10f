"""ProveSecret: its bytes, who is believed, and that what proves one connection proves no other."""

import asyncio
import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
import structlog

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.records.invariant import CorruptData
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Context, Proof, Reply
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.k20037_prove_secret import FIELD_BYTES_MAX, PROVE_SECRET, ProveSecret, SecretProved
from fencepost.wire.listener import Listener
from fencepost.wire.secret_proof import (
    BROKER,
    COORDINATOR,
    NONCE_BYTES,
    ClusterSecret,
    SecretNotProved,
    parse_secrets,
    prove,
    serve,
)
from tests.secret import SECRET, known_secret
from tests.together import table

NONCE = bytes(range(NONCE_BYTES))
HELLO = ProveSecret(1, "cluster", COORDINATOR, NONCE)


# -- bytes ------------------------------------------------------------------------------------------------


def test_the_request_by_hand() -> None:
    body = struct.pack(">i", 7) + b"\x02c\x02r\x03nn\x04ppp"
    request = ProveSecret(7, "c", "r", b"nn", b"ppp")
    assert PROVE_SECRET.decode_request(0, body) == request
    assert PROVE_SECRET.encode_request(0, request) == body


def test_the_response_by_hand() -> None:
    body = struct.pack(">ih", 5, 0) + b"\x01" + struct.pack(">i", 7) + b"\x02c\x03nn\x04ppp"
    answer = SecretProved(7, "c", b"nn", b"ppp")
    assert PROVE_SECRET.encode_response(0, answer, 5) == body
    assert PROVE_SECRET.decode_response(0, body) == answer


def test_a_refusal_says_why() -> None:
    error = ApiError("not you")
    error.code = ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ApiError, match="not you") as refused:
        PROVE_SECRET.decode_response(0, PROVE_SECRET.refusal(0, None, error, 0))
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


@table(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(PROVE_SECRET.encode_request(0, HELLO) + b"x", id="one-byte-too-many"),
        pytest.param(PROVE_SECRET.encode_request(0, HELLO)[:-2], id="torn"),
        pytest.param(
            PROVE_SECRET.encode_request(0, ProveSecret(1, "c", "r", bytes(FIELD_BYTES_MAX + 1))),
            id="a-nonce-past-its-bound",
        ),
        pytest.param(
            PROVE_SECRET.encode_request(0, ProveSecret(1, "c" * (FIELD_BYTES_MAX + 1), "r", b"")),
            id="a-cluster-id-past-its-bound",
        ),
    ],
)
def test_bytes_that_are_no_request_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptData):
        PROVE_SECRET.decode_request(0, body)


def test_a_field_at_its_bound_is_read() -> None:
    request = ProveSecret(1, "c" * FIELD_BYTES_MAX, "r", bytes(FIELD_BYTES_MAX))
    assert PROVE_SECRET.decode_request(0, PROVE_SECRET.encode_request(0, request)) == request


# -- the server's side, step by step ----------------------------------------------------------------------


def proof_of(own: ClusterSecret, server: ClusterSecret, role: str = COORDINATOR) -> list[ProveSecret]:
    """What an honest client sends to this server: the hello, and the proof of a whole exchange."""
    said: list[ProveSecret] = []
    proof = Proof()

    class Direct:
        """A connection without a socket."""

        versions: ClassVar = {PROVE_SECRET.key: PROVE_SECRET.versions}
        address = "direct"

        async def call(self, api: Any, request: ProveSecret, *, timeout_s: float) -> SecretProved:
            said.append(request)
            return serve(server, request, proof)

    connection: Any = Direct()
    asyncio.run(prove(connection, own, role, node_id=server.node_id, timeout_s=1))
    assert proof.proved
    return said


def code_of(own: ClusterSecret, request: ProveSecret, proof: Proof) -> ErrorCode:
    try:
        serve(own, request, proof)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


SERVER = known_secret(2)
WRONG = ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_node_that_knows_the_secret_is_proved_once_it_sent_its_proof() -> None:
    proof = Proof()
    assert code_of(SERVER, HELLO, proof) == ErrorCode.NONE
    assert not proof.proved, "the first half proves nothing"
    for role in (COORDINATOR, BROKER):
        proof_of(known_secret(1), SERVER, role)


def test_a_proof_that_was_overheard_proves_no_other_connection() -> None:
    hello, proved = proof_of(known_secret(1), SERVER)
    other = Proof()
    assert code_of(SERVER, proved, other) == ErrorCode.INVALID_REQUEST, "no nonce was asked for here"
    assert code_of(SERVER, hello, other) == ErrorCode.NONE
    assert code_of(SERVER, proved, other) == WRONG, "the server's nonce is another one"
    assert not other.proved


def test_a_proof_for_one_node_is_none_for_another() -> None:
    said: list[SecretProved] = []
    third = known_secret(3)

    class Between:
        """Node 2's name, but what it answers comes from node 3."""

        versions: ClassVar = {PROVE_SECRET.key: PROVE_SECRET.versions}
        address = "between"

        async def call(self, api: Any, request: ProveSecret, *, timeout_s: float) -> SecretProved:
            said.append(serve(third, request, Proof()))
            return SecretProved(2, said[0].cluster_id, said[0].nonce, said[0].proof)

    connection: Any = Between()
    with pytest.raises(ApiError, match="does not know the cluster's secret"):
        asyncio.run(prove(connection, known_secret(1), COORDINATOR, node_id=2, timeout_s=1))


def test_the_servers_own_proof_is_not_the_clients() -> None:
    proof = Proof()
    answer = serve(SERVER, HELLO, proof)
    reflected = ProveSecret(1, "cluster", COORDINATOR, NONCE, answer.proof)
    assert code_of(SERVER, reflected, proof) == WRONG
    assert not proof.proved


CHANGED = [
    pytest.param({"node_id": 9}, WRONG, id="another-node-id"),
    pytest.param({"role": BROKER}, WRONG, id="another-role"),
    pytest.param({"nonce": bytes(NONCE_BYTES)}, WRONG, id="another-nonce"),
    pytest.param({"proof": bytes(32)}, WRONG, id="another-proof"),
    pytest.param({"proof": b"\0"}, WRONG, id="a-short-proof"),
    pytest.param({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
    pytest.param({"role": "admin"}, ErrorCode.INVALID_REQUEST, id="no-role"),
    pytest.param({"nonce": b"short"}, ErrorCode.INVALID_REQUEST, id="a-short-nonce"),
]


@table(("change", "code"), CHANGED)
def test_a_proof_holds_for_what_it_was_made_for(change: dict[str, Any], code: ErrorCode) -> None:
    """An exchange whose second half is altered. It spends the nonce: the right half comes too late."""
    proof = Proof()
    sent: list[ProveSecret] = []

    class Altering:
        versions: ClassVar = {PROVE_SECRET.key: PROVE_SECRET.versions}
        address = "altering"

        async def call(self, api: Any, request: ProveSecret, *, timeout_s: float) -> SecretProved:
            sent.append(request)
            if not request.proof:
                return serve(SERVER, request, proof)
            fields = {name: getattr(request, name) for name in request.__struct_fields__}
            return serve(SERVER, ProveSecret(**{**fields, **change}), proof)

    connection: Any = Altering()
    with pytest.raises(ApiError) as refused:
        asyncio.run(prove(connection, known_secret(1), COORDINATOR, node_id=2, timeout_s=1))
    assert (refused.value.code, proof.proved) == (code, False)
    assert code_of(SERVER, sent[1], proof) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("secret", [b"", b"fifteen bytes--"], ids=["empty", "one-byte-too-short"])
def test_a_secret_that_is_none_proves_nothing_and_is_proved_nothing(secret: bytes) -> None:
    own = known_secret(2, secret=secret)
    assert not own.proves
    proof = Proof()
    assert code_of(own, HELLO, proof) == WRONG
    assert not proof.proved


def test_a_proved_connection_that_proves_wrongly_is_proved_no_more() -> None:
    proof = Proof(proved=True)
    code_of(SERVER, ProveSecret(1, "cluster", COORDINATOR, NONCE, bytes(32)), proof)
    assert not proof.proved


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param("0123456789abcdef\n", (b"0123456789abcdef", None), id="at-the-least"),
        pytest.param(
            "0123456789abcdef\nfedcba9876543210\n", (b"0123456789abcdef", b"fedcba9876543210"), id="two"
        ),
        pytest.param("0123456789abcdef\nfedcba987654321\n", None, id="a-short-second"),
        pytest.param("0123456789abcdef\n" * 3, None, id="three"),
        pytest.param("0123456789abcde\n", None, id="one-less"),
        pytest.param("   \n", None, id="blank"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_file_of_a_secret(text: str, secret: tuple[bytes, bytes | None] | None) -> None:
    if secret is not None:
        assert parse_secrets(text) == secret
        return
    with pytest.raises(ValueError, match="expected a secret of at least 16 bytes") as refused:
        parse_secrets(text)
    assert text.strip() == "" or text.strip() not in str(refused.value)


OLD, NEW = b"the secret of before", b"the secret to come"


def holding(node_id: int, *secrets: bytes) -> ClusterSecret:
    return ClusterSecret(
        secret=secrets[0], second=secrets[1] if secrets[1:] else None, cluster_id="cluster", node_id=node_id
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((OLD,), (OLD, NEW), id="the-new-one-comes-as-second"),
        pytest.param((OLD, NEW), (NEW, OLD), id="then-as-first"),
        pytest.param((NEW, OLD), (NEW,), id="then-the-old-one-goes"),
    ],
)
def test_a_secret_is_changed_by_rolling_restarts(one: tuple[bytes, ...], other: tuple[bytes, ...]) -> None:
    """At each step nodes of before and after it prove themselves to each other."""
    assert proof_of(holding(1, *one), holding(2, *other))
    assert proof_of(holding(1, *other), holding(2, *one))


def test_a_step_that_is_left_out_is_noticed() -> None:
    for one, other in (((OLD,), (NEW, OLD)), ((OLD, NEW), (NEW,)), ((OLD,), (NEW,))):
        with pytest.raises(SecretNotProved):
            proof_of(holding(1, *one), holding(2, *other))


def test_neither_secret_is_shown() -> None:
    assert NEW.decode() not in repr(holding(1, OLD, NEW))


def test_a_secret_is_not_shown() -> None:
    assert SECRET.decode() not in repr(known_secret())


# -- over sockets -----------------------------------------------------------------------------------------


def run(story: Callable[[Connection, list[bool]], Any], server: ClusterSecret | None = SERVER) -> None:
    """Run a story on a connection to a listener that notes of each request whether it came proved."""

    async def whole() -> None:
        proved: list[bool] = []

        def endpoint(request: WriteTxnMarkers, context: Context, reply: Reply[Any]) -> None:
            proved.append(context.proved)
            reply(WriteTxnMarkersAnswer(()))

        listener = Listener(
            {WRITE_TXN_MARKERS.key: (WRITE_TXN_MARKERS, endpoint)},
            name="PLAINTEXT",
            log=structlog.get_logger(),
            secret=server,
        )
        await listener.start("127.0.0.1", 0)
        connection = await Connection.open("127.0.0.1", listener.port)
        try:
            await story(connection, proved)
        finally:
            connection.close()
            await listener.stop()

    asyncio.run(whole())


async def ask(connection: Connection) -> None:
    await connection.call(WRITE_TXN_MARKERS, WriteTxnMarkers(()))


def test_a_connection_is_proved_from_its_proof_on_and_no_other_is() -> None:
    async def story(connection: Connection, proved: list[bool]) -> None:
        await ask(connection)
        assert await prove(connection, known_secret(1), COORDINATOR, node_id=2, timeout_s=5)
        await ask(connection)
        other = await Connection.open(*connection.peer, client_id="another")
        await ask(other)
        other.close()
        await connection.call(API_VERSIONS, API_VERSIONS.decode_request(0, b""), version=0)
        await ask(connection)
        assert proved == [False, True, False, True]

    run(story)


@pytest.mark.parametrize(
    ("own", "node_id", "code"),
    [
        pytest.param(known_secret(1, secret=b"another secret of 16"), 2, WRONG, id="another-secret"),
        pytest.param(known_secret(1), 3, WRONG, id="not-the-node-that-was-meant"),
        pytest.param(known_secret(1, "other"), 2, ErrorCode.INCONSISTENT_CLUSTER_ID, id="another-cluster"),
    ],
)
def test_what_does_not_belong_is_refused_by_name(own: ClusterSecret, node_id: int, code: ErrorCode) -> None:
    async def story(connection: Connection, proved: list[bool]) -> None:
        with pytest.raises(ApiError) as refused:
            await prove(connection, own, COORDINATOR, node_id=node_id, timeout_s=5)
        assert refused.value.code == code
        await ask(connection)
        assert proved == [False]

    run(story)


@pytest.mark.parametrize(
    ("own", "server"),
    [
        pytest.param(known_secret(1, secret=b""), SERVER, id="no-secret-of-ours"),
        pytest.param(known_secret(1), None, id="a-node-of-an-older-version"),
    ],
)
def test_where_nothing_can_be_proved_nothing_is(own: ClusterSecret, server: ClusterSecret | None) -> None:
    async def story(connection: Connection, proved: list[bool]) -> None:
        assert not await prove(connection, own, COORDINATOR, node_id=2, timeout_s=5)
        await ask(connection)
        assert proved == [False]

    run(story, server)


def test_a_proof_recorded_on_the_wire_is_refused_on_the_next_connection() -> None:
    async def story(connection: Connection, proved: list[bool]) -> None:
        recorded: list[ProveSecret] = []
        call = connection.call

        async def recording(api: Any, request: Any, **options: Any) -> Any:
            recorded.append(request)
            return await call(api, request, **options)

        connection.call = recording  # type: ignore[method-assign]
        assert await prove(connection, known_secret(1), COORDINATOR, node_id=2, timeout_s=5)
        thief = await Connection.open(*connection.peer)
        for each in recorded:
            with pytest.raises(ApiError) if each.proof else nullcontext():
                await thief.call(PROVE_SECRET, each)
        await ask(thief)
        thief.close()
        assert proved == [False]

    run(story)
