"""Users of the metadata log: set by a command, they log in by SCRAM at every node, and are never shown."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.harness.command import in_process
from tests.harness.nodes import CALM, Nodes, running, wait_for
from tests.secret_files import write_secret

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    users = write_secret(tmp_path / "users", "broker=broker-password\nalice=alice-password\n")
    for name in ("broker", "alice"):
        write_secret(tmp_path / name, f"{name}-password\n")
        (tmp_path / f"{name}.properties").write_text(f"sasl.username={name}\nsasl.password.file={name}\n")
    settings = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        f"sasl.plain.users.file={users}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms=3000",  # nodes log in to each other again and again
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:broker",
        f"fencepost.authorizer.log.file={tmp_path / 'authorizer.log'}",
        "sasl.username=broker",
        f"sasl.password.file={tmp_path / 'broker'}",
    )
    with running(tmp_path / "cluster", *settings, *CALM) as started:
        yield started


def configs(nodes: Nodes, *words: str, by: str = "broker", status: int = 0) -> str:
    server = "{}:{}".format(*nodes.address(nodes.node_ids[0], "client"))
    config = nodes.directory.parent / f"{by}.properties"
    ended = in_process("configs", *words, "--bootstrap-server", server, "--command-config", config)
    assert ended.status == status, ended
    return ended.stdout


def logs_in(nodes: Nodes, node: int, password: str) -> bool:
    """dave, who is in no file, by SCRAM."""
    problems: list[Any] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": "{}:{}".format(*nodes.address(node, "client")),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "dave",
        "sasl.password": password,
        "error_cb": partial(list.append, problems),
    }
    client = AdminClient(settings)
    try:
        client.list_topics(timeout=5)
    except KafkaException:
        client.poll(0)
        assert KafkaError._AUTHENTICATION in [each.code() for each in problems]
        return False
    return True


@pytest.mark.row("730.4")
def test_users_of_the_metadata_log_log_in_everywhere_and_are_never_shown(nodes: Nodes) -> None:
    first, *_, last = nodes.node_ids
    added = ("--user", "dave", "--add-config", "SCRAM-SHA-256=[iterations=5000,password=dave-password]")
    configs(nodes, "alter", *added, by="alice", status=4)
    configs(nodes, "alter", *added)
    for node in nodes.node_ids:
        wait_for("dave logs in", partial(logs_in, nodes, node, "dave-password"))
    assert not logs_in(nodes, last, "another-password")
    shown = "SCRAM credential configs for user-principal 'dave' are SCRAM-SHA-256=iterations=5000\n"
    assert configs(nodes, "describe", "--user", "dave") == shown
    assert configs(nodes, "describe", "--entity-type", "users") == shown
    configs(nodes, "describe", "--entity-type", "users", by="alice", status=4)
    nodes.kill(*nodes.node_ids)
    nodes.start(*nodes.node_ids)
    wait_for("dave logs in again", partial(logs_in, nodes, first, "dave-password"))
    configs(nodes, "alter", "--user", "dave", "--delete-config", "SCRAM-SHA-256")
    wait_for("dave is gone", lambda: not logs_in(nodes, last, "dave-password"))
    assert configs(nodes, "describe", "--entity-type", "users") == ""
    logs = "".join(path.read_text() for path in nodes.directory.rglob("log.txt*"))
    assert "node_started" in logs
    assert "dave-password" not in logs
    trail = nodes.directory.parent / "authorizer.log"
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    acts = {
        (each["decision"], each.get("principal"), each.get("request"), each.get("operation"))
        for each in lines
    }
    assert ("denied", "User:alice", "AlterUserScramCredentials", "ALTER") in acts
    assert ("allowed", "User:broker", "AlterUserScramCredentials", "ALTER") in acts
    assert "dave-password" not in trail.read_text()
