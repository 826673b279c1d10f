"""A login that counts for so long: who logs in again goes on, and who does not is closed (KIP-368)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.wire.auth import Login, Logins, SaslServer, plain_token
from fencepost.wire.connection import Connection
from fencepost.wire.errors import SaslAuthenticationFailed
from fencepost.wire.frame import raw_frame
from fencepost.wire.k17_sasl_handshake import SaslHandshake
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.scram import ScramClient
from fencepost.wire.session import AGAIN_S
from tests.wire.stage import ASK, Blocks, RawClient, allocate, blocks_service, framed, listening
from tests.wire.test_auth import code_at, handshake, versions

USERS = {"alice": "wonder land", "bob": "builder"}
LIFETIME_MS = 60_000
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "logins": Logins.of(USERS, ("PLAIN", "SCRAM-SHA-256"), b"key"),
    "limits": ListenerLimits(reauth_ms_max=LIFETIME_MS),
}


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time a test moves on."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def played(story: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
    loop = Clock()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story(loop))


def token(user: str = "alice", version: int = 2) -> bytes:
    body = SASL_AUTHENTICATE.encode_request(version, SaslAuthenticate(plain_token(user, USERS[user])))
    return framed(36, version, body, flexible=version >= 2)


STEPS = {  # what is sent, and where the error code of its answer lies
    "handshake": (handshake(), 4),
    "scram": (handshake("SCRAM-SHA-256"), 4),
    "handshake-v0": (handshake(version=0), 4),
    "token": (token(), 5),
    "token-v0": (token(version=0), 4),
    "bobs-token": (token("bob"), 5),
    "versions": (versions(), 4),
    "allocate": (allocate(), 9),
}
WAITS = {"soon": AGAIN_S / 2, "later": 30.0, "too-late": 61.0}


@pytest.mark.parametrize(
    ("order", "codes", "ends"),
    [
        pytest.param("later allocate", [0], False, id="in-time"),
        pytest.param("too-late allocate", [], True, id="too-late"),
        pytest.param("too-late versions", [], True, id="too-late-for-anything"),
        pytest.param("later handshake token later allocate", [0, 0, 0], False, id="again-in-time"),
        pytest.param("too-late handshake token allocate", [0, 0, 0], False, id="again-too-late-is-in-time"),
        pytest.param("later handshake token too-late allocate", [0, 0], True, id="again-and-too-late"),
        pytest.param("handshake allocate", [0, 34], True, id="not-to-the-end"),
        pytest.param("handshake bobs-token", [0, 58], True, id="as-another-principal"),
        pytest.param("scram token", [0, 58], True, id="by-another-mechanism"),
        pytest.param("handshake token soon handshake allocate", [0, 0, 34, 0], False, id="twice-a-second"),
        pytest.param("handshake token later handshake token", [0] * 4, False, id="again-and-again"),
        pytest.param("handshake token-v0 too-late allocate", [0, 0], True, id="a-client-that-reads-no-time"),
        pytest.param("token allocate", [34, 0], False, id="a-token-without-a-handshake"),
    ],
)
def test_orders_of_a_login_that_ends(order: str, codes: list[int], ends: bool) -> None:
    blocks = Blocks()

    async def story(loop: Clock) -> None:
        async with listening(blocks_service(blocks), **SASL) as (listener, events):
            client = await RawClient.open(listener.port)
            client.send(handshake())
            client.send(token())
            assert code_at(await client.frame(), 4) == code_at(await client.frame(), 5) == 0
            found = []
            for step in order.split():
                if step in WAITS:
                    loop.ahead_s += WAITS[step]
                    continue
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
            await client.close()

    played(story)
    assert {each.principal for each in blocks.contexts} <= {"User:alice"}


LIMITS = [
    pytest.param(LIFETIME_MS, {}, LIFETIME_MS, id="by-any-mechanism"),
    pytest.param(0, {}, 0, id="as-long-as-the-connection"),
    pytest.param(0, {"PLAIN": 7_000, "SCRAM-SHA-256": 8_000}, 7_000, id="by-its-own-mechanism"),
    pytest.param(LIFETIME_MS, {"PLAIN": 0}, 0, id="by-its-own-mechanism-as-long-as-the-connection"),
]


@pytest.mark.parametrize(("reauth_ms", "by_mechanism", "limit_ms"), LIMITS)
def test_a_client_is_answered_how_long_its_login_counts(
    reauth_ms: int, by_mechanism: dict[str, int], limit_ms: int
) -> None:
    async def story(loop: Clock) -> None:
        limits = ListenerLimits(reauth_ms_max=reauth_ms, reauth_ms_by_mechanism=by_mechanism)
        settings = {**SASL, "limits": limits}
        async with listening(blocks_service(), **settings) as (listener, _):
            client = await RawClient.open(listener.port)
            client.send(handshake())
            client.send(token())
            await client.frame()
            frame = await client.frame()
            assert frame is not None
            answered = SASL_AUTHENTICATE.decode_response(2, memoryview(frame)[5:])
            assert answered.lifetime_ms == limit_ms
            loop.ahead_s += (limit_ms or LIFETIME_MS) / 1000 + 1
            client.send(allocate())
            assert (await client.frame() is None) == (limit_ms > 0)
            await client.close()

    played(story)


def test_a_bare_token_has_its_end_too() -> None:
    async def story(loop: Clock) -> None:
        async with listening(blocks_service(), **SASL) as (listener, _):
            client = await RawClient.open(listener.port)
            client.send(handshake(version=0))
            await client.frame()
            client.send(raw_frame(plain_token("alice", USERS["alice"])))
            assert await client.frame() == b""
            loop.ahead_s += WAITS["too-late"]
            client.send(allocate())
            assert await client.frame() is None
            await client.close()

    played(story)


def test_another_mechanism_renews_no_login_though_the_password_is_right() -> None:
    logins = SASL["logins"]
    assert isinstance(logins, Logins)
    before = SaslServer(logins)
    before.handshake(SaslHandshake("PLAIN"))
    before.authenticate(plain_token("alice", USERS["alice"]))
    again = SaslServer(logins, before=before)
    again.handshake(SaslHandshake("SCRAM-SHA-256"))
    client = ScramClient("SCRAM-SHA-256", "alice", USERS["alice"], "nonce")
    with pytest.raises(SaslAuthenticationFailed, match="re-authentication of mechanism 'PLAIN'"):
        again.authenticate(client.first())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_our_own_connections_are_retired_in_time(mechanism: str) -> None:
    """Their owners open another one, which logs in: no request is sent too late."""

    async def story(loop: Clock) -> None:
        async with listening(blocks_service(), **SASL) as (listener, events):
            login = Login("alice", USERS["alice"], mechanism)
            connection = await Connection.open("127.0.0.1", listener.port, sasl=login)
            await connection.call(ALLOCATE_PRODUCER_IDS, ASK)
            loop.ahead_s += 0.8 * LIFETIME_MS / 1000
            await asyncio.sleep(0)
            await connection.call(ALLOCATE_PRODUCER_IDS, ASK)
            loop.ahead_s += 0.17 * LIFETIME_MS / 1000
            await asyncio.sleep(0.01)
            assert not connection.is_open
            assert events == []

    played(story)
