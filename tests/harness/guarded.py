"""A cluster whose users have passwords and whose authorizer is Kafka's."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.harness.command import in_process
from tests.harness.nodes import Nodes, running
from tests.secret_files import write_secret

USERS: Final = {name: f"{name}-password" for name in ("broker", "alice", "bob")}
"""``broker`` is a super user, and whose name the nodes have."""

TIMEOUT_S: Final = 30.0


@contextlib.contextmanager
def guarded_cluster(folder: Path, *more: str) -> Iterator[Nodes]:
    """In ``folder/cluster``; beside it ``USER.properties`` for each user's commands."""
    write_secret(folder / "users", "".join(f"{name}={word}\n" for name, word in USERS.items()))
    for name, word in USERS.items():
        write_secret(folder / name, f"{word}\n")
        (folder / f"{name}.properties").write_text(f"sasl.username={name}\nsasl.password.file={name}\n")
    settings = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        f"sasl.plain.users.file={folder / 'users'}",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:broker",
        "sasl.username=broker",
        f"sasl.password.file={folder / 'broker'}",
        "broker.session.timeout.ms=4000",
        "broker.heartbeat.interval.ms=500",
    )
    with running(folder / "cluster", *settings, *more) as started:
        yield started


def acls(nodes: Nodes, *words: object, by: str = "broker", to_brokers: bool = False) -> Any:
    """``fencepost acls``, as a user."""
    config = nodes.directory.parent / f"{by}.properties"
    controllers = ",".join(map(str, nodes.cluster.controllers))
    where = ("--bootstrap-server", brokers(nodes)) if to_brokers else ("--bootstrap-controller", controllers)
    return in_process("acls", *words, *where, "--command-config", config)


def brokers(nodes: Nodes) -> str:
    """HOST:PORT of each node's client listener, for ``--bootstrap-server``."""
    return ",".join(f"{host}:{port}" for host, port in (nodes.address(n, "client") for n in nodes.node_ids))


def login(nodes: Nodes, user: str, **settings: Any) -> dict[str, Any]:
    """Settings of librdkafka for a user; underscores are dots."""
    return {
        "bootstrap.servers": brokers(nodes),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
