"""SCRAM: the vectors of the RFCs, both sides together, every broken token, and users that are not there."""

import asyncio
import base64
import re
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.scram_types import ITERATIONS_MAX, ITERATIONS_MIN, StoredCredential
from fencepost.wire.auth import Login, Logins, SaslServer
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Context, Reply, served
from fencepost.wire.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from fencepost.wire.k17_sasl_handshake import SaslHandshake
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster, DescribeClusterAnswer
from fencepost.wire.listener import Listener
from fencepost.wire.scram import (
    MECHANISMS,
    SCRAM_MECHANISMS,
    TOKEN_BYTES_MAX,
    ScramClient,
    ScramServer,
    ScramUsers,
    credential_of,
)
from tests.examples import examples
from tests.together import table

SHA256 = "SCRAM-SHA-256"
KEY = b"the cluster's secret"
PASSWORDS = {"alice": "wonder land", "zoë": "päss", "a=b,c": "x"}
USERS = ScramUsers(PASSWORDS, SCRAM_MECHANISMS, KEY)
mechanisms = st.sampled_from(sorted(SCRAM_MECHANISMS))


class Fixed(ScramUsers):
    """One user, with a credential that is given."""

    def __init__(self, credential: StoredCredential) -> None:
        super().__init__({}, (), KEY)
        self._credential = credential

    def find(self, mechanism: str, user: str) -> StoredCredential:
        return self._credential


def test_the_vector_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Fixed(credential_of(SHA256, "pencil", salt, 4096))
    server = ScramServer(SHA256, users, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"
    client = ScramClient(SHA256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(first).endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client.require_proof(final)


def log_in(mechanism: str, user: str, password: str, users: ScramUsers = USERS) -> str | None:
    server = ScramServer(mechanism, users, "server")
    client = ScramClient(mechanism, user, password, "client")
    client.require_proof(server.respond(client.final(server.respond(client.first()))))
    return server.user


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize("user", PASSWORDS)
def test_both_sides_understand_each_other(mechanism: str, user: str) -> None:
    assert log_in(mechanism, user, PASSWORDS[user]) == user


@table(
    ("user", "password"),
    [
        pytest.param("alice", "wonder", id="wrong-password"),
        pytest.param("alice", "", id="no-password"),
        pytest.param("carol", "wonder land", id="unknown-user"),
        pytest.param("Alice", "wonder land", id="another-case"),
    ],
)
def test_a_wrong_proof_is_refused_without_saying_what_was_wrong(user: str, password: str) -> None:
    with pytest.raises(
        SaslAuthenticationFailed, match="due to invalid credentials with SASL mechanism SCRAM"
    ):
        log_in(SHA256, user, password)


def first_of(user: str, users: ScramUsers = USERS) -> str:
    return ScramServer(SHA256, users, "s").respond(f"n,,n={user},r=c".encode()).decode()


def test_an_unknown_user_has_a_salt_that_stays() -> None:
    again = ScramUsers(PASSWORDS, SCRAM_MECHANISMS, KEY)
    for user in ("alice", "carol"):
        assert first_of(user) == first_of(user, again)
        assert re.fullmatch(r"r=cs,s=[A-Za-z0-9+/]{22}==,i=4096", first_of(user))
    assert first_of("carol") != first_of("dave")
    assert first_of("carol") != first_of("carol", ScramUsers({}, (), b"another cluster's"))


def final_of(changes: dict[str, Any]) -> bytes:
    parts = {"c": "biws", "r": "cs", "p": base64.b64encode(bytes(32)).decode(), **changes}
    return ",".join(f"{key}={value}" for key, value in parts.items() if value is not None).encode()


FIRST = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"n,,n=alice", id="no-nonce"),
    pytest.param(b"n,,n=,r=c", id="no-name"),
    pytest.param(b"n,,r=c,n=alice", id="another-order"),
    pytest.param(b"p=tls-unique,,n=alice,r=c", id="channel-binding"),
    pytest.param(b"n,,m=x,n=alice,r=c", id="mandatory-extension"),
    pytest.param(b"n,a=bob,n=alice,r=c", id="authorized-as-another"),
    pytest.param(b"n,,n=al=ice,r=c", id="name-with-a-bare-equals-sign"),
    pytest.param(b"n,,n=alice,r=c\xff", id="not-utf-8"),
    pytest.param(b"n,,n=alice,r=a b", id="nonce-with-a-space"),
    pytest.param(b"n,,n=alice,r=" + b"c" * 1025, id="nonce-too-long"),
    pytest.param(b"n,,n=" + b"a" * TOKEN_BYTES_MAX + b",r=c", id="too-long"),
]


@table("token", FIRST)
def test_a_broken_first_token_is_refused(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        ScramServer(SHA256, USERS, "s").respond(token)


FINAL = [
    pytest.param({}, id="a-proof-of-zeros"),
    pytest.param({"p": None}, id="no-proof"),
    pytest.param({"p": ""}, id="an-empty-proof"),
    pytest.param({"p": "AA=="}, id="a-short-proof"),
    pytest.param({"p": "A"}, id="no-base64"),
    pytest.param({"r": "c"}, id="the-clients-nonce-alone"),
    pytest.param({"r": "cs2"}, id="another-nonce"),
    pytest.param({"c": "eSws"}, id="another-header"),
    pytest.param({"c": None}, id="no-binding"),
]


@table("changes", FINAL)
def test_a_broken_last_token_is_refused(changes: dict[str, Any]) -> None:
    server = ScramServer(SHA256, USERS, "s")
    server.respond(b"n,,n=alice,r=c")
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(final_of(changes))
    assert server.user is None


def test_a_proof_is_of_one_login() -> None:
    """A token that was overheard does not fit another server nonce."""
    server = ScramServer(SHA256, USERS, "one")
    client = ScramClient(SHA256, "alice", PASSWORDS["alice"], "c")
    final = client.final(server.respond(client.first()))
    server.respond(final)
    again = ScramServer(SHA256, USERS, "two")
    again.respond(client.first())
    with pytest.raises(SaslAuthenticationFailed):
        again.respond(final)
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(final)


@given(mechanisms, st.lists(st.binary(max_size=200), max_size=3))
def test_no_bytes_log_in(mechanism: str, tokens: list[bytes]) -> None:
    server = ScramServer(mechanism, USERS, "s")
    for token in tokens:
        try:
            server.respond(token)
        except SaslAuthenticationFailed:
            break
    assert server.user is None


SERVERS = [
    pytest.param(b"r=x,s=AAAA,i=4096", id="without-the-clients-nonce"),
    pytest.param(b"r=c,s=AAAA,i=4096", id="without-a-nonce-of-its-own"),
    pytest.param(b"r=cs,s=AAAA,i=%d" % (ITERATIONS_MIN - 1), id="too-few-iterations"),
    pytest.param(b"r=cs,s=AAAA,i=%d" % (ITERATIONS_MAX + 1), id="too-many-iterations"),
    pytest.param(b"r=cs,s=A,i=4096", id="no-salt"),
    pytest.param(b"e=unknown-user", id="an-error"),
]


@table("token", SERVERS)
def test_a_server_that_breaks_the_protocol_is_refused(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        ScramClient(SHA256, "alice", "x", "c").final(token)


def test_a_server_that_does_not_know_the_user_is_refused() -> None:
    client = ScramClient(SHA256, "alice", "x", "c")
    client.final(b"r=cs,s=AAAA,i=4096")
    with pytest.raises(SaslAuthenticationFailed, match="does not prove"):
        client.require_proof(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize("iterations", [ITERATIONS_MIN, ITERATIONS_MAX])
def test_the_bounds_of_iterations(mechanism: str, iterations: int) -> None:
    assert log_in(mechanism, "a", "b", ScramUsers({"a": "b"}, (mechanism,), KEY, iterations)) == "a"


@settings(max_examples=examples(60))
@given(st.text("=,abcü", min_size=1, max_size=8), st.text("abcü\0=,", max_size=8))
def test_any_name_and_password_will_do(user: str, password: str) -> None:
    assert log_in(SHA256, user, password, ScramUsers({user: password}, (SHA256,), KEY)) == user


# -- on a listener ----------------------------------------------------------------------------------


def test_only_enabled_mechanisms_are_named() -> None:
    server = SaslServer(Logins.of(PASSWORDS, (SHA256,), KEY))
    with pytest.raises(
        UnsupportedSaslMechanism, match="'PLAIN' is not enabled; use SCRAM-SHA-256"
    ) as refused:
        server.handshake(SaslHandshake("PLAIN"))
    assert refused.value.enabled == (SHA256,)


def test_our_client_logs_in_at_a_listener() -> None:
    seen = []

    def endpoint(request: DescribeCluster, context: Context, reply: Reply[DescribeClusterAnswer]) -> None:
        seen.append(context.principal)
        reply(DescribeClusterAnswer(cluster_id="c"))

    async def story() -> None:
        listener = Listener(
            dict((served(DESCRIBE_CLUSTER, endpoint),)),
            name="L",
            log=structlog.wrap_logger(None, processors=[]),
            security_protocol="SASL_PLAINTEXT",
            logins=Logins.of(PASSWORDS, ("PLAIN", *SCRAM_MECHANISMS), KEY),
        )
        await listener.start("127.0.0.1", 0)
        for mechanism in ("PLAIN", *SCRAM_MECHANISMS):
            login = Login("zoë", PASSWORDS["zoë"], mechanism)
            assert "päss" not in repr(login)
            connection = await Connection.open("127.0.0.1", listener.port, sasl=login)
            await connection.call(DESCRIBE_CLUSTER, DescribeCluster())
            connection.close()
        with pytest.raises(SaslAuthenticationFailed):
            await Connection.open("127.0.0.1", listener.port, sasl=Login("zoë", "pass", SHA256))
        await listener.stop()

    asyncio.run(story())
    assert seen == ["User:zoë"] * 3


def test_users_of_the_metadata_log_come_before_those_of_the_file() -> None:
    users = ScramUsers({"alice": "of-the-file", "bob": "of-the-file"}, SCRAM_MECHANISMS, KEY)
    credential = credential_of(SHA256, "of-the-log", b"some salt", 5000)
    recorded = {("alice", MECHANISMS[SHA256]): credential, ("carol", MECHANISMS[SHA256]): credential}
    assert log_in(SHA256, "alice", "of-the-file", users) == "alice"
    users.recorded = lambda user, mechanism: recorded.get((user, mechanism))
    for user, password, may in (
        ("alice", "of-the-log", True),
        ("alice", "of-the-file", False),
        ("carol", "of-the-log", True),
        ("bob", "of-the-file", True),
    ):
        if may:
            assert log_in(SHA256, user, password, users) == user
        else:
            with pytest.raises(SaslAuthenticationFailed):
                log_in(SHA256, user, password, users)
    assert log_in("SCRAM-SHA-512", "alice", "of-the-file", users) == "alice", "of the other mechanism"
