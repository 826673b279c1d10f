"""SASL PLAIN: every order of its requests, and every kind of wrong password."""

import asyncio

import pytest

from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.wire.auth import (
    TOKEN_BYTES_MAX,
    UNAUTHENTICATED_FRAME_BYTES_MAX,
    Expects,
    Login,
    Logins,
    SaslServer,
    plain_token,
)
from fencepost.wire.client import Connection, NotConnected
from fencepost.wire.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from fencepost.wire.frame import raw_frame
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshake
from fencepost.wire.k18_api_versions import API_VERSIONS, ApiVersions
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.together import table
from tests.wire.stage import ASK, Blocks, RawClient, allocate, blocks_service, framed, listening

USERS = {"alice": "wonder land", "bob": "", "zoë": "päss"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "logins": Logins(USERS)}


@table(
    ("token", "principal"),
    [
        pytest.param(b"\0alice\0wonder land", "User:alice", id="right"),
        pytest.param(b"alice\0alice\0wonder land", "User:alice", id="authorized-as-herself"),
        pytest.param("\0zoë\0päss".encode(), "User:zoë", id="not-ascii"),
        pytest.param(b"\0bob\0", "User:bob", id="empty-password-that-is-right"),
        pytest.param(b"\0alice\0wonder", None, id="wrong-password"),
        pytest.param(b"\0alice\0", None, id="no-password"),
        pytest.param(b"\0carol\0", None, id="unknown-user-no-password"),
        pytest.param(b"\0carol\0wonder land", None, id="unknown-user"),
        pytest.param(b"root\0alice\0wonder land", None, id="authorized-as-another"),
        pytest.param(b"alice\0wonder land", None, id="two-parts"),
        pytest.param(b"\0alice\0wonder land\0", None, id="four-parts"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"\0alice\0\xff\xfe", None, id="not-utf-8"),
        pytest.param(b"\0alice\0" + b"x" * TOKEN_BYTES_MAX, None, id="too-long"),
    ],
)
def test_tokens(token: bytes, principal: str | None) -> None:
    server = SaslServer(Logins(USERS))
    server.handshake(SaslHandshake("PLAIN"))
    if principal is None:
        with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"):
            server.authenticate(token)
        assert server.principal == "User:ANONYMOUS"
    else:
        server.authenticate(token)
        assert (server.principal, server.expects) == (principal, Expects.NOTHING)


def test_orders_of_the_server() -> None:
    server = SaslServer(Logins(USERS))
    with pytest.raises(IllegalSaslState):
        server.authenticate(plain_token("bob", ""))
    with pytest.raises(UnsupportedSaslMechanism, match="'SCRAM-SHA-256' is not enabled; use PLAIN"):
        server.handshake(SaslHandshake("SCRAM-SHA-256"))
    server.handshake(SaslHandshake("PLAIN"))
    with pytest.raises(IllegalSaslState):
        server.handshake(SaslHandshake("PLAIN"))
    server.authenticate(plain_token("bob", ""))
    for again in (
        lambda: server.authenticate(plain_token("bob", "")),
        lambda: server.handshake(SaslHandshake("PLAIN")),
    ):
        with pytest.raises(IllegalSaslState):
            again()


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return framed(
        17, version, SASL_HANDSHAKE.encode_request(version, SaslHandshake(mechanism)), flexible=False
    )


def token(version: int = 2, guess: str | None = None) -> bytes:
    spoken = plain_token("alice", guess or USERS["alice"])
    body = SASL_AUTHENTICATE.encode_request(version, SaslAuthenticate(spoken))
    return framed(36, version, body, flexible=version >= 2)


def versions() -> bytes:
    return framed(18, 4, API_VERSIONS.encode_request(4, ApiVersions("test", "1")))


def code_at(frame: bytes | None, position: int) -> int:
    assert frame is not None
    return int.from_bytes(frame[position : position + 2], "big", signed=True)


STEPS = {  # what is sent, and where the error code of its answer lies
    "handshake-v0": (handshake(version=0), 4),
    "handshake": (handshake(), 4),
    "scram": (handshake("SCRAM-SHA-512"), 4),
    "token-v0": (token(version=0), 4),
    "token-v1": (token(version=1), 4),
    "token": (token(), 5),
    "wrong-token": (token(guess="guess"), 5),
    "versions": (versions(), 4),
    "allocate": (allocate(), 9),
}


@pytest.mark.parametrize(
    ("order", "codes", "ends"),
    [
        pytest.param("versions handshake token allocate", [0, 0, 0, 0], False, id="as-clients-do"),
        pytest.param("handshake token-v0 allocate", [0, 0, 0], False, id="token-version-0"),
        pytest.param(
            "handshake versions token-v1 versions allocate", [0] * 5, False, id="versions-at-any-time"
        ),
        pytest.param("handshake token token allocate", [0, 0, 34, 0], False, id="a-second-token-later"),
        pytest.param(
            "handshake token handshake allocate", [0, 0, 34, 0], False, id="a-second-handshake-later"
        ),
        pytest.param("token handshake", [34], True, id="token-first"),
        pytest.param("handshake handshake", [0, 34], True, id="handshake-twice"),
        pytest.param("allocate handshake", [34], True, id="no-sasl"),
        pytest.param("versions allocate", [0, 34], True, id="only-versions"),
        pytest.param("handshake allocate", [0, 34], True, id="no-token"),
        pytest.param("scram handshake", [33], True, id="wrong-mechanism"),
        pytest.param("handshake wrong-token token", [0, 58], True, id="wrong-password"),
    ],
)
def test_orders_on_a_sasl_listener(order: str, codes: list[int], ends: bool) -> None:
    blocks = Blocks()

    async def story() -> None:
        async with listening(blocks_service(blocks), **SASL) as (listener, events):
            client = await RawClient.open(listener.port)
            found = []
            for step in order.split():
                raw, at = STEPS[step]
                client.send(raw)
                frame = await client.frame()
                if frame is None:
                    break
                found.append(code_at(frame, at))
            assert found == codes
            if ends:
                assert await client.frame() is None
                assert [each["event"] for each in events] == ["connection_closed"]
                assert "wonder land" not in repr(events)
                assert "guess" not in repr(events)
            await client.close()

    asyncio.run(story())
    assert [each.principal for each in blocks.contexts] == ["User:alice"] * order.count("allocate") * (
        not ends
    )


def test_a_wrong_mechanism_is_told_the_right_ones() -> None:
    async def story() -> None:
        async with listening(blocks_service(), **SASL) as (listener, _):
            client = await RawClient.open(listener.port)
            client.send(handshake("GSSAPI"))
            frame = await client.frame()
            assert frame is not None
            with pytest.raises(UnsupportedSaslMechanism, match="PLAIN"):
                SASL_HANDSHAKE.decode_response(1, frame[4:])
            await client.close()

    asyncio.run(story())


@pytest.mark.parametrize("password", ["wonder land", "guess"], ids=["right", "wrong"])
def test_tokens_are_bare_after_a_handshake_of_version_0(password: str) -> None:
    async def story() -> None:
        async with listening(blocks_service(), **SASL) as (listener, _):
            client = await RawClient.open(listener.port)
            client.send(handshake(version=0))
            assert code_at(await client.frame(), 4) == 0
            client.send(raw_frame(plain_token("alice", password)) + allocate())
            if password == "guess":
                assert await client.frame() is None
            else:
                assert await client.frame() == b""
                assert code_at(await client.frame(), 9) == 0
            await client.close()

    asyncio.run(story())


@pytest.mark.parametrize("step", ["handshake", "token"])
def test_a_plaintext_listener_wants_no_sasl(step: str) -> None:
    async def story() -> None:
        async with listening(blocks_service()) as (listener, _):
            client = await RawClient.open(listener.port)
            raw, at = STEPS[step]
            client.send(raw + allocate())
            assert code_at(await client.frame(), at) == 34
            assert code_at(await client.frame(), 9) == 0
            await client.close()

    asyncio.run(story())


def test_frames_are_small_until_the_principal_is_known() -> None:
    large = (UNAUTHENTICATED_FRAME_BYTES_MAX + 1).to_bytes(4, "big")

    async def story() -> None:
        async with listening(blocks_service(), **SASL) as (listener, events):
            client = await RawClient.open(listener.port)
            client.send(handshake() + large)
            assert code_at(await client.frame(), 4) == 0
            assert await client.frame() is None
            assert "claims 524289 bytes" in events[0]["reason"]
            await client.close()
            client = await RawClient.open(listener.port)
            client.send(handshake() + token() + large)
            for _ in range(2):
                assert await client.frame() is not None
            client.finish()  # it waits for the rest of the large frame, and learns that there is none
            assert await client.frame() is None
            assert events[1]["reason"] == "it ended inside a frame"
            await client.close()

    asyncio.run(story())


def test_our_client_authenticates() -> None:
    async def story() -> None:
        async with listening(blocks_service(), **SASL) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port, sasl=Login("alice", "wonder land"))
            assert await connection.call(ALLOCATE_PRODUCER_IDS, ASK) == ProducerIdBlock(10, 10)  # type: ignore[arg-type]
            connection.close()
            with pytest.raises(SaslAuthenticationFailed):
                await Connection.open("127.0.0.1", listener.port, sasl=Login("alice", "guess"))
            connection = await Connection.open("127.0.0.1", listener.port)
            with pytest.raises(IllegalSaslState):
                await connection.call(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(1, 1))  # type: ignore[arg-type]
            connection.close()
            port = listener.port
        with pytest.raises(NotConnected):
            await Connection.open("127.0.0.1", port, sasl=Login("alice", "wonder land"))

    asyncio.run(story())
