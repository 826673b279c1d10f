"""``make rolling-changes``: keys, the quorum's secret and the nodes' user change node by node, under load.

Cluster       as ``fencepost up --tls --users`` makes it, with Kafka's authorizer: nodes show certificates to
              controllers and Raft, and log in by SCRAM at the clients' listener.
Load          an application commits transactions of one record, with the rights for that and no others.
Certificates  another authority is trusted, too, each node gets a key of it, and the first is not trusted any
              more. No node is started again.
Secret, user  three rolls of kill -9 and start: the next secret is believed; it is proved, by nodes that log
              in as another user; it is the only one, and the first user is gone.
Shown         every transaction commits, and a reader sees each once.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from fencepost.cluster.local_cluster import SECRET, create_cluster
from fencepost.cluster.secured import MECHANISM, NODE_USER, secured
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.harness.nodes import CALM, JSON_LOGS, Nodes, ended_clean, wait_for
from tests.ports import cluster_port
from tests.secret_files import write_secret

USERS: Final = {"root": "root-password", "alice": "alice-password"}
NEXT_USER: Final = "next-node"
NEXT_SECRET: Final = "f" * 64
TOPIC: Final = "t"
COMMITS_BETWEEN: Final = 20  # after each change, before the next one
QUIET_SECONDS: Final = 5.0
CALL_SECONDS: Final = 30.0


class Load(threading.Thread):
    """Transactions one after the other, until ``end``. Its values are their numbers."""

    def __init__(self, bootstrap: str, settings: dict[str, Any]) -> None:
        super().__init__(name="load")
        self.committed: list[int] = []
        self.others: list[str] = []
        self._servers = bootstrap
        self._settings = settings
        self._is_over = threading.Event()

    def run(self) -> None:
        number = 0
        try:
            producer = TransactionalProducer(self._servers, "rolling", self._settings)
            while not self._is_over.is_set():
                outcome = producer.write([Record(TOPIC, str(number).encode(), number % 3)])
                if outcome is Outcome.COMMITTED:
                    self.committed.append(number)
                else:
                    self.others.append(f"transaction {number}: {outcome}")
                number += 1
        except KafkaException as error:
            self.others.append(f"transaction {number}: {error}")

    def end(self) -> None:
        self._is_over.set()
        self.join()

    def go_on(self, what: str) -> None:
        """Returns when so many more are committed; prints what was changed."""
        begin = len(self.committed)

        def is_further() -> bool:
            assert self.is_alive(), self.others
            return len(self.committed) >= begin + COMMITS_BETWEEN

        wait_for(f"{COMMITS_BETWEEN} transactions after: {what}", is_further)
        now = time.strftime("%H:%M:%S")
        click.echo(f"{now} {what}: {len(self.committed)} committed, {len(self.others)} not")


class Rolling:
    """A secured cluster, and what changes in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / "cluster"
        port = cluster_port()
        begun = secured(str(self.directory), 3, port, USERS)
        self._second = secured(str(self.directory), 3, port, USERS).files
        self._first = first = begun.files
        supers = ("CN=node-1", "CN=node-2", "CN=node-3", NODE_USER, NEXT_USER, "root")
        lines = (
            f"authorizer.class.name={STANDARD_AUTHORIZER}",
            f"super.users={';'.join(f'User:{each}' for each in supers)}",
        )
        files = first | {"tls/users": f"{first['tls/users']}{NEXT_USER}=next-password\n"}
        files |= {"tls/next-password": "next-password\n", "tls/both.pem": self._authorities(1, 2)}
        self.nodes = Nodes(
            create_cluster(self.directory, 3, port, (JSON_LOGS, *CALM, *lines), own=begun.own, files=files)
        )

    def access(self, user: str) -> dict[str, Any]:
        """Settings of librdkafka; it trusts both authorities from the start."""
        return {
            "bootstrap.servers": self.nodes.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "tls" / "both.pem"),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": USERS[user],
            "log_level": 0,
        }

    def _authorities(self, *which: int) -> str:
        return "".join((self._first, self._second)[each - 1]["tls/ca.pem"] for each in which)

    def _replace(self, name: str, text: str) -> None:
        """As an operator does: written beside it, and renamed."""
        aside = write_secret(self.directory / f"{name}.new", text)
        aside.rename(self.directory / name)

    def trust(self, *which: int) -> None:
        """Of the two authorities. Returns when each node has read the file."""
        self._read_by(self.nodes.node_ids, partial(self._replace, "tls/ca.pem", self._authorities(*which)))

    def renew_key(self, node: int) -> None:
        """Of the second authority, without a new start."""
        name = f"tls/node-{node}.pem"
        self._read_by([node], partial(self._replace, name, self._second[name]))

    def _read_by(self, nodes: list[Any], change: Callable[[], None]) -> None:
        marks = {node: self.nodes.log_size(node) for node in nodes}
        change()
        for node, mark in marks.items():
            self.nodes.await_event(node, "tls_files_read", mark)

    def secrets(self, *secrets: str) -> None:
        self._replace(SECRET, "".join(f"{each}\n" for each in secrets))

    def first_secret(self) -> str:
        return (self.directory / SECRET).read_text("ascii").strip()

    def log_in_as_next(self, node: int) -> None:
        file = self.nodes.node(node).directory / "node.properties"
        text = file.read_text("utf-8")
        for old, new in ((f"={NODE_USER}\n", f"={NEXT_USER}\n"), ("/node-password\n", "/next-password\n")):
            assert text.count(old) == 1
            text = text.replace(old, new)
        file.write_text(text, "utf-8")

    def forget_first_user(self) -> None:
        lines = (self.directory / "tls" / "users").read_text("utf-8").splitlines(keepends=True)
        self._replace("tls/users", "".join(each for each in lines if not each.startswith(f"{NODE_USER}=")))

    def roll(self, load: Load, what: str, change: Callable[[int], None] = lambda _: None) -> None:
        """Each node is killed and started again, one after the other."""
        for node in self.nodes.node_ids:
            change(node)
            self.nodes.kill(node)
            self.nodes.start(node)
            load.go_on(f"{what}: node {node} was started again")


def prepare(rolling: Rolling) -> None:
    """The topic, and alice's rights."""
    admin = AdminClient(rolling.access("root"))
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(CALL_SECONDS)
    wanted = ((ResourceType.TOPIC, TOPIC), (ResourceType.TRANSACTIONAL_ID, "rolling"))
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    acls = [
        AclBinding(kind, name, literal, "User:alice", "*", AclOperation.WRITE, allow) for kind, name in wanted
    ]
    for made in admin.create_acls(acls).values():
        made.result(CALL_SECONDS)


def change_all(rolling: Rolling, load: Load) -> None:
    """See the module."""
    load.go_on("before")
    rolling.trust(1, 2)
    load.go_on("both authorities are trusted")
    for node in rolling.nodes.node_ids:
        rolling.renew_key(node)
        load.go_on(f"node {node} has a key of the second one")
    rolling.trust(2)
    load.go_on("the second authority alone is trusted")
    first = rolling.first_secret()
    rolling.secrets(first, NEXT_SECRET)
    rolling.roll(load, "both secrets are believed")
    rolling.secrets(NEXT_SECRET, first)
    rolling.roll(load, "the next one is proved, by another user", rolling.log_in_as_next)
    rolling.secrets(NEXT_SECRET)
    rolling.forget_first_user()
    rolling.roll(load, "the next secret and the next user alone")


def seen(rolling: Rolling) -> list[int]:
    """The numbers of all transactions, as a read_committed consumer gets them."""
    own = {"group.id": "g", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer(rolling.access("root") | own)
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(3)])
    found, last = [], time.monotonic()
    while time.monotonic() - last < QUIET_SECONDS:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.append(int(message.value() or b""))
            last = time.monotonic()
    consumer.close()
    return found


@contextmanager
def loaded(rolling: Rolling) -> Iterator[Load]:
    access = {name: value for name, value in rolling.access("alice").items() if name != "bootstrap.servers"}
    load = Load(rolling.nodes.bootstrap, access)
    load.start()
    try:
        yield load
    finally:
        load.end()


@click.command()
def main() -> None:
    """Exit status: 0 shown; 1 a transaction did not commit, was lost, or is there twice."""
    with tempfile.TemporaryDirectory(prefix="fencepost-rolling-") as folder:
        rolling = Rolling(Path(folder))
        with ended_clean(rolling.nodes):
            rolling.nodes.up()
            prepare(rolling)
            with loaded(rolling) as load:
                change_all(rolling, load)
            found = seen(rolling)
    lost = sorted(set(load.committed) - set(found))
    strange = sorted(set(found) - set(load.committed))
    click.echo(
        f"{len(load.committed)} committed, {len(load.others)} not, {len(found)} seen, {len(lost)} lost, "
        f"{len(found) - len(set(found))} twice, {len(strange)} seen though not committed"
    )
    if load.others or lost or strange or len(found) != len(load.committed):
        raise click.ClickException(
            "; ".join([*load.others[:5], f"lost {lost[:5]}", f"strange {strange[:5]}"])
        )


if __name__ == "__main__":
    sys.exit(main())
