"""Kafka's Java client logs in again and again on one connection (KIP-368), and is served.

Cluster     one node, with a listener of SASL whose logins count for LIFETIME_MS, and one without. Users of
            SCRAM are those of a file, and a record of the metadata log.
Shown       by the client's own metrics: so many logins anew, none failed, no connection made meanwhile. Then
            its password is changed: the login that comes next fails, and no transaction is committed.
"""

import tempfile
import time
from pathlib import Path
from typing import Final

from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from tests.clients.java_tools import VERSION, Scenario
from tests.clients.players import PLAYERS, CallFailed, Player
from tests.clients.stories import StoryFailed, expect
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean
from tests.ports import cluster_port

LIFETIME_MS: Final = 1_500
TIMES: Final = 4  # logins anew of one producer
SECONDS_MAX: Final = 60.0
SOON: Final = ("delivery.timeout.ms=6000", "request.timeout.ms=5000", "max.block.ms=6000")
"""A producer that cannot log in tries on for so long, and says then that it is late."""
CLIENTS: Final = 50  # their port, from the cluster's on
PASSWORD: Final = "wonder land"
FILED, RECORDED = "alice", "bob"
LOGINS: Final = (("PLAIN", FILED), ("SCRAM-SHA-512", FILED), ("SCRAM-SHA-256", RECORDED))
AGAIN: Final = "successful-reauthentication-total"
FAILED_AGAIN: Final = "failed-reauthentication-total"
CONNECTIONS: Final = "connection-creation-total"


def logs_in_again(_cluster: Nodes) -> str:
    """By PLAIN, by SCRAM of a file, by SCRAM of a record whose password is changed at the end."""
    with tempfile.TemporaryDirectory(prefix="fencepost-reauthentication-") as home:
        folder = Path(home)
        nodes = Nodes(_made(folder / "cluster"))
        with ended_clean(nodes):
            nodes.up()
            nodes.run("topics", "create", "--topic", "renewed", "--replica-assignment", "1")
            _set_password(nodes, PASSWORD)
            said = [_by(nodes, folder, mechanism, user) for mechanism, user in LOGINS]
    return "; ".join(said)


def _made(directory: Path) -> LocalCluster:
    port = cluster_port()
    named = (("PLAINTEXT", port), ("CLIENTS", port + CLIENTS), ("CONTROLLER", port + 100))
    own = (
        f"listeners={','.join(f'{name}://127.0.0.1:{at}' for name, at in named)}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"sasl.plain.users.file={directory / 'users'}",
        "connections.max.reauth.ms=3600000",
        f"listener.name.clients.connections.max.reauth.ms={LIFETIME_MS}",
    )
    files = {"users": f"{FILED}={PASSWORD}\n"}
    return create_cluster(directory, 1, port, (JSON_LOGS, NO_QUOTA), own={1: own}, files=files)


def _set_password(nodes: Nodes, password: str) -> None:
    nodes.run("configs", "alter", "--user", RECORDED, "--add-config", f"SCRAM-SHA-256=[password={password}]")


def _by(nodes: Nodes, folder: Path, mechanism: str, user: str) -> str:
    logs = folder / mechanism
    logs.mkdir()
    player = PLAYERS["java"](f"127.0.0.1:{nodes.cluster.port + CLIENTS}", logs)
    try:
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        login = (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{user}" password="{PASSWORD}";'
        )
        settings = (
            "security.protocol=SASL_PLAINTEXT",
            f"sasl.mechanism={mechanism}",
            f"sasl.jaas.config={login}",
        )
        player.call("make", "p", f"transactional.id={mechanism}", *settings, *SOON)
        connections, values = -1, list[str]()
        until_s = time.monotonic() + SECONDS_MAX
        while _metric(player, AGAIN) < TIMES:
            if time.monotonic() > until_s:
                raise StoryFailed(f"{_metric(player, AGAIN)} logins anew within {SECONDS_MAX:.0f} s")
            values.append(f"{mechanism}-{len(values)}")
            _committed(player, values[-1])
            if connections < 0:
                connections = _metric(player, CONNECTIONS)
        expect("logins that failed", _metric(player, FAILED_AGAIN), 0)
        expect("connections made meanwhile", _metric(player, CONNECTIONS), connections)
        if user == RECORDED:
            _set_password(nodes, "another")
            _end(player)
            expect("refused by name", "invalid credentials" in player.log.read_text("utf-8"), True)
        return (
            f"{mechanism}: {len(values)} transactions over {TIMES} logins anew on {connections} connections"
        )
    finally:
        player.end()


def _committed(player: Player, value: str) -> None:
    player.call("begin", "p")
    player.call("send", "p", "renewed", value)
    player.call("commit", "p")


def _end(player: Player) -> None:
    """Transactions, until one is not committed, for a login failed."""
    until_s = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until_s:
        try:
            _committed(player, "until its login ends")
        except CallFailed:
            expect("logins that failed", _metric(player, FAILED_AGAIN) > 0, True)
            return
    raise StoryFailed("a login with the password of before goes on")


def _metric(player: Player, name: str) -> int:
    (value,) = player.call("metric", "p", name)
    return int(float(value))


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "logins end while producers work": (VERSION, logs_in_again)
}
