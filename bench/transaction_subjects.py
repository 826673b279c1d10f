"""The clusters that ``bench transactions`` loads: what each is, and which transaction protocol it has.

Protocol    a client that knows V2 (KIP-890) uses it where the finalized ``transaction.version`` is 2 or more.
            librdkafka and aiokafka know V1 alone.
Processes   of the nodes are found by the ports that they listen on: for those of this machine and user.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka

from fencepost.bench.coordinators import Address, open_first
from fencepost.bench.late_end import V1, V2, V2_LEVEL
from fencepost.bench.listeners import pid_listening
from fencepost.bench.transaction_load import AIOKAFKA, CONFLUENT
from fencepost.client.network import TRANSACTION_VERSION
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.controllers import ask
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.cluster.target import Target, brokers_of, controllers_of
from fencepost.controller.errors import ApiError
from fencepost.controller.feature_updates import Direction, FeatureUpdate, UpdateFeatures
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.k57_update_features import UPDATE_FEATURES
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION

CLUSTER: Final = "cluster"
MOCK: Final = "mock"
PEER: Final = "peer"
ASK_SECONDS: Final = 10.0
LEVEL_SECONDS_MAX: Final = 10.0
POLL_SECONDS: Final = 0.02
V1_ONLY: Final = frozenset((AIOKAFKA, CONFLUENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A cluster that is loaded.

    ``hides_aborted``: a read_committed consumer does not see what was aborted. ``pids``: by node, where the
    process was found. ``leader``: the node that leads, of a fencepost cluster. ``transaction_version``: the
    finalized level. ``access``: see ``librdkafkas_access``.
    """

    name: str
    bootstrap: str
    hides_aborted: bool = True
    pids: dict[str, int] = field(default_factory=dict)
    leader: str | None = None
    transaction_version: int = 0
    access: dict[str, str] = field(default_factory=dict)

    def protocol(self, client: str) -> str:
        """V1 or V2: how ``client`` ends its transactions here."""
        return V2 if client not in V1_ONLY and self.transaction_version >= V2_LEVEL else V1


def refuse_protocol(protocol: str | None, clients: Sequence[str]) -> None:
    """Raises WrongUsage: a client does not know the protocol."""
    librdkafka = f"librdkafka {confluent_kafka.libversion()[0]}"
    libraries = {
        AIOKAFKA: "aiokafka",
        CONFLUENT: f"confluent-kafka {confluent_kafka.version()} ({librdkafka})",
    }
    for client in clients:
        if protocol == V2 and client in V1_ONLY:
            raise WrongUsage(
                f"--protocol {V2}: {libraries[client]} knows {V1} alone; without --protocol each client uses "
                "the newest that it knows"
            )


def found(name: str, target: Target) -> Subject:
    """The cluster at an address. Raises Unreadable, Failed."""
    try:
        return asyncio.run(_found(name, target))
    except (ConnectionLost, RequestTimeout) as error:
        raise Unreadable(f"{name}: {error}") from error
    except ApiError as error:
        raise Failed(f"{name}: {error}") from error


async def _found(name: str, target: Target) -> Subject:
    """A level counts as the cluster's when all of its brokers have it."""
    first = await open_first([(each.host, each.port) for each in target.addresses], target.sasl, target.tls)
    try:
        answer = await first.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=ASK_SECONDS)
        is_ours = EXPLAIN_TRANSACTION.key in first.versions
    finally:
        first.close()
    levels = [await _transaction_version((each.host, each.port), target) for each in answer.brokers]
    pids = {_name(each.broker_id): pid_listening(each.port) for each in answer.brokers}
    return Subject(
        name=name,
        bootstrap=target.name,
        pids={node: pid for node, pid in sorted(pids.items()) if pid is not None},
        leader=_name(answer.controller_id) if is_ours else None,
        transaction_version=min(levels, default=0),
        access=librdkafkas_access(target),
    )


def librdkafkas_access(target: Target) -> dict[str, str]:
    """Settings of confluent-kafka's clients, beside their addresses, to reach a cluster as the bench does.

    Raises WrongUsage: keys and authorities are to be in files.
    """
    found: dict[str, str] = {}
    if target.sasl is not None or target.tls is not None:
        kinds = ("SASL" * (target.sasl is not None), "SSL" if target.tls is not None else "PLAINTEXT")
        found["security.protocol"] = "_".join(each for each in kinds if each)
    if target.sasl is not None:
        found["sasl.mechanism"] = target.sasl.mechanism
        found["sasl.username"], found["sasl.password"] = target.sasl.user, target.sasl.password
    if target.tls is None:
        return found
    tls = target.tls.settings
    if tls.key is not None or tls.trusted is not None or tls.key_password is not None:
        raise WrongUsage("--command-config: expected files of keys and authorities, without a password")
    found["ssl.endpoint.identification.algorithm"] = "https" if tls.verifies_host else "none"
    if tls.trusted_file is not None:
        found["ssl.ca.location"] = str(tls.trusted_file)
    if tls.key_file is not None:
        found["ssl.key.location"] = found["ssl.certificate.location"] = str(tls.key_file)
    return found


def _name(node_id: int) -> str:
    return f"node-{node_id}"


async def _transaction_version(address: Address, target: Target) -> int:
    connection = await Connection.open(*address, sasl=target.sasl, tls=target.tls, timeout_s=ASK_SECONDS)
    try:
        levels = {each.name: each.level for each in connection.features.finalized}
    finally:
        connection.close()
    return levels.get(TRANSACTION_VERSION, 0)


def own(cluster: LocalCluster, protocol: str | None) -> Subject:
    """The bench's own cluster, once it has the protocol (V2 unless V1 is wanted). Raises Failed."""
    level = 0 if protocol == V1 else V2_LEVEL
    target = brokers_of(cluster)
    subject = found(CLUSTER, target)
    if subject.transaction_version != level:
        direction = Direction.SAFE_DOWNGRADE if level < subject.transaction_version else Direction.UPGRADE
        update = FeatureUpdate(TRANSACTION_VERSION, level, direction)
        ask(controllers_of(cluster), UPDATE_FEATURES, UpdateFeatures((update,), False))
    deadline = time.monotonic() + LEVEL_SECONDS_MAX
    while subject.transaction_version != level:
        if time.monotonic() > deadline:
            raise Failed(
                f"{CLUSTER}: {TRANSACTION_VERSION} is {subject.transaction_version} after "
                f"{LEVEL_SECONDS_MAX:.0f} s, expected {level}"
            )
        time.sleep(POLL_SECONDS)
        subject = found(CLUSTER, target)
    return subject


def running(name: str, target: Target, protocol: str | None) -> Subject:
    """A cluster that is left as it is. Raises WrongUsage: it does not have the protocol."""
    subject = found(name, target)
    has_v2 = subject.transaction_version >= V2_LEVEL
    if protocol is None or has_v2 is (protocol == V2):
        return subject
    change = "upgrade" if protocol == V2 else "downgrade"
    level = V2_LEVEL if protocol == V2 else 0
    if subject.leader is None:
        command = f"kafka-features.sh --bootstrap-server {subject.bootstrap} {change}"
    else:
        command = f"fencepost features {change} --bootstrap-controller HOST:PORT"
    raise WrongUsage(
        f"--protocol {protocol}: {TRANSACTION_VERSION} of the {name} at {subject.bootstrap} is "
        f"{subject.transaction_version}. Type: {command} --feature {TRANSACTION_VERSION}={level}"
    )
