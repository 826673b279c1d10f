"""A certificate beside a login (KIP-684): SASL_SSL may want one, and the login alone names the client."""

import asyncio
from pathlib import Path

from fencepost.wire.auth import Login, Logins
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.principals import parse_rules
from fencepost.wire.tls import ClientAuth
from tests.together import table
from tests.wire.test_tls import SEEN, World

CASES: list[tuple[ClientAuth | None, bool, list[str]]] = [
    (None, False, ["User:alice"]),
    (None, True, ["User:alice"]),
    ("requested", False, ["User:alice"]),
    ("required", True, ["User:alice"]),
    ("required", False, []),
]


@table(("client_auth", "shows_one", "seen"), CASES)
def test_who_logs_in(
    tmp_path: Path, client_auth: ClientAuth | None, shows_one: bool, seen: list[str]
) -> None:
    world = World(tmp_path)
    no_one = parse_rules(
        "RULE:^CN=none$/none/"
    )  # a certificate that no rule matches names no one: so it must not
    server = world.tls(rules=no_one, client_auth="required")
    client = world.tls() if shows_one else world.tls(key_file=None)
    SEEN.clear()

    async def story() -> None:
        logins = Logins.of({"alice": "x"}, ("PLAIN",), b"key")
        wanted = world.listening(server, "SASL_SSL", logins=logins, client_auth=client_auth)
        async with wanted as listener:
            try:
                opened = await Connection.open(
                    "127.0.0.1", listener.port, tls=client, sasl=Login("alice", "x"), timeout_s=5
                )
                await opened.call(DESCRIBE_CLUSTER, DescribeCluster())
                opened.close()
            except (NotConnected, ConnectionLost):
                assert seen == []
            if not seen:
                assert "it shows no certificate (ssl.client.auth=required)" in world.reasons()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert seen == SEEN
