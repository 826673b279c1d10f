"""Least privilege, by each client library, through two doors: a login by SCRAM over TLS, and a certificate.

Works      ``produce`` TOPIC VALUE: an idempotent producer. ``transact`` ID TOPIC VALUE GROUP SOURCE OFFSET:
           an offset and a record in one transaction. ``consume`` GROUP TOPIC: a member that reads a record
           and commits. Each is done with what it needs and nothing else.
Taken away each privilege in turn: the library says Kafka's code, and in the log and the group nothing is new.
Program    of a library, in a process of its own: a verb and its words by tabs, answered as in players.py.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.certificates import Authority
from tests.clients import java_tools, owners
from tests.clients.players import (
    CONFLUENT,
    HERE,
    ROOT,
    CallFailed,
    Player,
    installed_kafkajs,
    java_client,
)
from tests.clients.stories import StoryFailed, expect
from tests.harness.command import in_process
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean, wait_for
from tests.ports import cluster_port
from tests.secret_files import write_secret

BY_LOGIN, BY_CERTIFICATE = "alice", "carol"
PASSWORD: Final = "wonder land"
CERTS: Final = 50  # the port of the listener for certificates, from the cluster's on
WAIT_S: Final = 10.0
TOPIC, GROUP, ID, CLUSTER = "topic", "group", "transactional-id", "cluster"
SAID: Final[Mapping[str, tuple[str, ...]]] = {
    TOPIC: ("topicauthorization", "notauthorizedtoaccesstopic", "isnotauthorizedforthisclient"),
    GROUP: ("groupauthorization", "notauthorizedtoaccessgroup"),
    ID: ("transactionalidauthorization",),
    CLUSTER: ("clusterauthorization",),
}
"""What libraries say of Kafka's codes 29, 30, 53 and 31; of their words the letters are looked at."""


class Privilege(NamedTuple):
    """``of``: the type of the resource, as the options of ``fencepost acls`` name it."""

    operation: str
    of: str
    name: str


class Work(NamedTuple):
    """``words``: the verb and its words. ``needs``: in the order in which each is taken away once.

    ``code``: that of the resource whose code is answered, if it is not that of what is taken away.
    """

    words: tuple[str, ...]
    needs: tuple[Privilege, ...]
    keeps: tuple[Privilege, ...] = ()
    code: str = ""


class Seen(NamedTuple):
    """What a work may change: the ends of both topics, the offsets that both groups committed."""

    ends: tuple[int, ...]
    committed: tuple[int, ...]


class Place:
    """The cluster, as its super user sees and changes it; names that no client used before."""

    def __init__(self, nodes: Nodes, folder: Path, client: str) -> None:
        self.nodes, self._folder, self._client = nodes, folder, client
        self.certs = f"127.0.0.1:{nodes.cluster.port + CERTS}"
        self._settings = {
            "bootstrap.servers": self.certs,
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "ssl.certificate.location": str(folder / "root.pem"),
            "ssl.key.location": str(folder / "root.pem"),
        }

    def run(self, *words: str) -> None:
        """A command of the super user's."""
        config = ("--bootstrap-server", self.certs, "--command-config", self._folder / "root.properties")
        ended = in_process(*words, *config)
        if ended.status:
            raise StoryFailed(f"{words}: {ended.stderr}")

    def change(self, command: str, user: str, *privileges: Privilege) -> None:
        """``add`` or ``remove``."""
        for operation, of, name in privileges:
            who = ("--allow-principal", f"User:{user}", "--operation", operation)
            self.run("acls", command, *who, f"--{of}", name)

    def works(self, user: str) -> tuple[Work, ...]:
        """Of the resources of this user."""
        prefix = f"{self._client}-{user}"
        source, target, group, written = (f"{prefix}-{each}" for each in ("in", "out", "group", "of"))
        for topic in (source, target):
            self.run("topics", "create", "--topic", topic, "--partitions", "1")
        offset = "7"
        write, read = Privilege("Write", TOPIC, target), Privilege("Read", TOPIC, source)
        transact = ("transact", f"{prefix}-id", target, "value", written, source, offset)
        write_source = Privilege("Write", TOPIC, source)
        sees = Privilege("Describe", TOPIC, target)
        return (
            Work(
                ("produce", target, "value"), (write,), (sees,), CLUSTER
            ),  # it may write to no topic: KIP-679
            Work(("produce", source, "value"), (write_source,), keeps=(write,)),
            Work(
                transact,
                (
                    write,
                    Privilege("Write", ID, f"{prefix}-id"),
                    Privilege("Read", GROUP, written),
                    read,
                ),
                keeps=(write_source,),  # kafkajs wants a producer id besides the transaction's: KIP-679
            ),
            Work(("consume", group, source), (read, Privilege("Read", GROUP, group))),
        )

    def seen(self, user: str) -> Seen:
        """Of both topics and both groups. Each is looked up again."""
        prefix = f"{self._client}-{user}"
        ends, committed = [], []
        for topic, group in (("in", "group"), ("out", "of")):
            reader = Consumer({**self._settings, "group.id": f"{prefix}-{group}"})
            try:
                (found,) = reader.committed([TopicPartition(f"{prefix}-in", 0)], WAIT_S)
                _, end = reader.get_watermark_offsets(TopicPartition(f"{prefix}-{topic}", 0), WAIT_S)
                committed.append(found.offset)
                ends.append(end)
            finally:
                reader.close()
        return Seen(tuple(ends), tuple(committed))


def least_privilege(client: str, _cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    start = PROGRAMS[client]()
    with tempfile.TemporaryDirectory(prefix="fencepost-privileges-") as home:
        folder = Path(home)
        nodes = Nodes(_made(folder))
        with ended_clean(nodes):
            nodes.up()
            place = Place(nodes, folder, client)
            said = [
                _through(place, start(_door(place, folder, user), logs), user)
                for user in (BY_LOGIN, BY_CERTIFICATE)
            ]
    return "; ".join(said)


def _through(place: Place, player: Player, user: str) -> str:
    refused = 0
    try:
        for work in place.works(user):
            place.change("add", user, *work.needs, *work.keeps)
            for privilege in work.needs:
                place.change("remove", user, privilege)
                before = place.seen(user)
                said = _said(player, work)
                if not any(each in said for each in SAID[work.code or privilege.of]):
                    raise StoryFailed(f"{user}, {work.words} without {privilege}: {said or 'no error'}")
                expect(f"{user}, {work.words} without {privilege}", place.seen(user), before)
                place.change("add", user, privilege)
                refused += 1
            before = place.seen(user)
            player.call(*work.words)
            wait_for("what it did is there", partial(_is_new, place, user, before))
            place.change("remove", user, *work.needs, *work.keeps)
        return f"{user}: {refused} refusals, nothing written by any"
    finally:
        player.end()


def _is_new(place: Place, user: str, before: Seen) -> bool:
    return place.seen(user) != before


def _said(player: Player, work: Work) -> str:
    """What the application is given and, where that names no code, what the library logs.

    It names none in aiokafka's TxnOffsetCommit, in kafka-python's Metadata of a member, in kafkajs's search
    for the coordinator of a transactional id.
    """
    logged = len(player.log.read_bytes())
    try:
        player.call(*work.words)
    except CallFailed as error:
        said = _letters(str(error))
        if any(each in said for words in SAID.values() for each in words):
            return said
        return said + _letters(player.log.read_bytes()[logged:].decode("utf-8", "replace"))
    return ""


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower())


def _made(folder: Path) -> LocalCluster:
    """One node; what its listeners trust, and who is known."""
    port = cluster_port()
    authority = Authority()
    authority.write(folder / "ca.pem")
    for name in ("node-1", "root", BY_CERTIFICATE):
        authority.sign(name).write(folder / f"{name}.pem")
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'ca.pem'}\n"
    store = f"ssl.keystore.type=PEM\nssl.keystore.location={folder / 'root.pem'}\n"
    write_secret(folder / "root.properties", f"security.protocol=SSL\n{store}{trust}")
    named = (("CLIENTS", port), ("CERTS", port + CERTS), ("CONTROLLER", port + 100))
    own = (
        f"listeners={','.join(f'{name}://127.0.0.1:{at}' for name, at in named)}",
        "listener.security.protocol.map=CLIENTS:SASL_SSL,CERTS:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name=CERTS",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        f"sasl.plain.users.file={write_secret(folder / 'users', f'{BY_LOGIN}={PASSWORD}')}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={folder / 'node-1.pem'}",
        *trust.split(),
        "ssl.client.auth=required",
        "ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:node-1;User:root",
        "group.initial.rebalance.delay.ms=0",
    )
    return create_cluster(folder / "cluster", 1, port, (JSON_LOGS, NO_QUOTA), own={1: own})


def _door(place: Place, folder: Path, user: str) -> dict[str, str]:
    trusted = {"ca": str(folder / "ca.pem"), "folder": str(folder)}
    if user == BY_CERTIFICATE:
        return {"bootstrap": place.certs, "key": str(folder / f"{user}.pem"), **trusted}
    clients = f"127.0.0.1:{place.nodes.cluster.port}"
    return {"bootstrap": clients, "user": user, "password": PASSWORD, **trusted}


Start = Callable[[Mapping[str, str], Path], Player]


def _python(library: str) -> Start:
    command = [sys.executable, "-W", "ignore", "-m", "tests.clients.privileged", library]
    return lambda door, logs: Player(
        library, [*command, json.dumps(door)], ROOT, logs / f"{library}-privileges.log"
    )


def _kafkajs() -> Start:
    folder = installed_kafkajs()
    command = ["node", str(HERE / "kafkajs/privileged.js")]
    return lambda door, logs: Player(
        "kafkajs", [*command, json.dumps(door)], folder, logs / "kafkajs-privileges.log"
    )


def _java() -> Start:
    jars = java_client()

    def start(door: Mapping[str, str], logs: Path) -> Player:
        lines = [f"bootstrap.servers={door['bootstrap']}", "ssl.truststore.type=PEM"]
        lines.append(f"ssl.truststore.location={door['ca']}")
        if "user" in door:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            login = f'{module} required username="{door["user"]}" password="{door["password"]}";'
            lines += [
                "security.protocol=SASL_SSL",
                "sasl.mechanism=SCRAM-SHA-512",
                f"sasl.jaas.config={login}",
            ]
        else:
            lines += [
                "security.protocol=SSL",
                "ssl.keystore.type=PEM",
                f"ssl.keystore.location={door['key']}",
            ]
        file = write_secret(Path(door["folder"]) / "java.properties", "\n".join(lines) + "\n")
        command = ["java", "-cp", f"{jars}/*", str(HERE / "java/Privileged.java"), str(file)]
        return Player("java", command, jars, logs / "java-privileges.log")

    return start


PROGRAMS: Final[Mapping[str, Callable[[], Start]]] = {
    **{library: partial(_python, library) for library in (CONFLUENT, "kafka-python", "aiokafka")},
    "kafkajs": _kafkajs,
    "java": _java,
}
VERSIONS: Final = {
    **{library: version(library) for library in (CONFLUENT, "kafka-python", "aiokafka")},
    "kafkajs": owners.VERSIONS["kafkajs"],
    "java": java_tools.VERSION,
}
NAME: Final = "least privilege: SCRAM over TLS, and a certificate"
SCENARIOS: Final[Mapping[str, tuple[str, Mapping[str, Callable[[Nodes, Path], str]]]]] = {
    client: (VERSIONS[client], {NAME: partial(least_privilege, client)}) for client in PROGRAMS
}
