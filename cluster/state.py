"""What a local cluster is doing: who leads, whether it is live, and which node died on the way.

A node that is stopped by a signal accepts connections and never answers: nothing here waits for
one node alone longer than ASK_SECONDS.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from subprocess import Popen
from typing import Any, Final

from fencepost.cluster import node_process
from fencepost.cluster.command_config import access_of
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.controllers import client_of
from fencepost.cluster.local_cluster import LocalCluster, LocalNode
from fencepost.cluster.target import Target, controllers_of
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.records.types import NodeId
from fencepost.settings.config import Address, NodeConfig
from fencepost.wire.client import Connection, ConnectionLost, ControllerClient, RequestTimeout
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.tls import Tls

ASK_SECONDS: Final = 1.0
FIRST_ASK_SECONDS: Final = 0.25  # a client that gives up early starts again without a backoff
ASK_GROWTH: Final = 1.3  # on a machine that is too busy for the first ones
LIVE_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02

_NO_ANSWER: Final = (ConnectionLost, RequestTimeout, ApiError)


def leader_id(cluster: LocalCluster) -> NodeId | None:
    """The leader of the highest epoch that a running node knows."""
    return asyncio.run(find_leader(cluster))


def named_node(cluster: LocalCluster, name: str) -> LocalNode:
    """A node by its number, or the one that leads. Raises WrongUsage, Failed."""
    if name == "leader":
        leader = leader_id(cluster)
        if leader is None:
            raise Failed("no leader is known; 'fencepost ps' says which nodes run")
        return cluster.node(leader)
    if not (name.isascii() and name.isdigit()):
        raise WrongUsage(f"NODE is a number or 'leader', not {name!r}")
    return cluster.node(int(name))


async def find_leader(cluster: LocalCluster) -> NodeId | None:
    """See ``leader_id``; for what runs on an event loop."""
    _epoch, leader = await find_leadership(cluster)
    return leader


async def find_leadership(cluster: LocalCluster) -> tuple[int, NodeId | None]:
    """(epoch, leader), each by a committed entry: of the highest epoch that is known, (-1, None) without."""
    target = controllers_of(cluster)
    running = [node for node in cluster.nodes if node.status() == "running"]
    configs = [(node.config, node.config.controller_listener) for node in running]
    addresses = [config.advertised_address(each.name) for config, each in configs if each is not None]
    views = await asyncio.gather(*(_quorum_view(address, target) for address in addresses))
    epoch, leader = max(((epoch, leader) for epoch, leader in views if leader >= 0), default=(-1, -1))
    return epoch, None if leader < 0 else NodeId(leader)


async def _quorum_view(address: Address, target: Target) -> tuple[int, int]:
    """(epoch, leader id) as one node sees it; (-1, -1) if it does not say."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            connection = await Connection.open(
                *address, sasl=target.sasl, tls=target.tls, timeout_s=ASK_SECONDS
            )
            try:
                answer = await connection.call(DESCRIBE_QUORUM, DescribeQuorum(), timeout_s=ASK_SECONDS)
            finally:
                connection.close()
    except (*_NO_ANSWER, TimeoutError):
        return (-1, -1)
    partition = answer.partition
    return (-1, -1) if partition is None else (partition.leader_epoch, partition.leader_id)


def state(cluster: LocalCluster) -> dict[str, Any]:
    """The cluster as ``ps --format json`` prints it (docs/design.md 9)."""
    leader = leader_id(cluster)
    return {
        "cluster_id": cluster.cluster_id,
        "bootstrap": cluster.bootstrap,
        "nodes": [_row(node, leader) for node in cluster.nodes],
    }


def _row(node: LocalNode, leader: NodeId | None) -> dict[str, Any]:
    ports = {name: str(address) for name, address in node.ports().items()}
    return {
        "node_id": node.node_id,
        "roles": list(node.config.roles),
        "pid": node.pid(),
        "status": node.status(),
        "leader": node.node_id == leader,
        "client": ports.get("client"),
        "controller": ports.get("controller"),
        "raft": ports.get("raft"),
        "metrics": ports.get("metrics"),
    }


def await_live(
    cluster: LocalCluster,
    children: Mapping[NodeId, Popen[bytes]],
    show: Callable[[str], None],
    *,
    timeout_s: float = LIVE_SECONDS_MAX,
) -> None:
    """Wait until every broker is unfenced, on a committed entry, and shows all others to clients.

    Raises Failed.
    """
    asyncio.run(_await_live(cluster, children, show, timeout_s))


async def _await_live(
    cluster: LocalCluster,
    children: Mapping[NodeId, Popen[bytes]],
    show: Callable[[str], None],
    timeout_s: float,
) -> None:
    target = controllers_of(cluster)
    client = client_of(target, backoff_s_max=POLL_SECONDS)  # nodes that have just started lead in a moment
    expected = {node.node_id for node in cluster.nodes if node.config.is_broker}
    missing: set[NodeId] = set(expected)
    last_words = "no answer yet"
    ask_s = FIRST_ASK_SECONDS
    try:
        async with asyncio.timeout(timeout_s):
            while missing:
                _require_alive(cluster.nodes, children)
                try:
                    missing = expected - await _live_brokers(cluster, client, ask_s)
                except _NO_ANSWER as error:
                    _raise_if_refused(error, target, cluster)
                    last_words = str(error)
                    ask_s *= ASK_GROWTH
                show(f"waiting for node {', '.join(map(str, sorted(missing)))}: {last_words}")
                if missing:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        names = ", ".join(map(str, sorted(missing)))
        raise Failed(
            f"the cluster is not live after {timeout_s:.0f} s; missing: node {names} ({last_words})\n"
            + "\n".join(_last_words(node) for node in cluster.nodes if node.node_id in missing)
        ) from None
    finally:
        await client.close()


async def _live_brokers(cluster: LocalCluster, client: ControllerClient, ask_s: float) -> set[NodeId]:
    """Those that the controller lists as unfenced, and that show each other to clients."""
    answer = await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=ask_s)
    if answer.cluster_id != cluster.cluster_id:
        return set()  # another cluster was faster to take these ports: our nodes are about to say so
    unfenced = {NodeId(broker.broker_id) for broker in answer.brokers if not broker.is_fenced}
    nodes = [node for node in cluster.nodes if node.node_id in unfenced]
    shown = await asyncio.gather(*(_brokers_shown(node) for node in nodes))
    return {node.node_id for node, seen in zip(nodes, shown, strict=True) if seen is None or seen >= unfenced}


async def _brokers_shown(node: LocalNode) -> set[int] | None:
    """The brokers in this one's metadata, none if it does not answer; None if it requires a login."""
    listener = node.config.client_listener
    if listener is None:
        return set()
    address = node.config.advertised_address(listener.name)
    tls = access_of(node.config, to_brokers=True).tls
    if node.config.security_protocol(listener.name).startswith("SASL_"):
        return None if await _answers(address, tls) else set()
    try:
        connection = await Connection.open(*address, tls=tls, timeout_s=ASK_SECONDS)
        try:
            answer = await connection.call(METADATA, Metadata(topics=()), timeout_s=ASK_SECONDS)
        finally:
            connection.close()
    except _NO_ANSWER:
        return set()
    return {broker.node_id for broker in answer.brokers}


async def _serves(config: NodeConfig) -> bool:
    """Whether a node's controller listener answers, or the client listener of a lone broker."""
    listener = config.controller_listener or config.client_listener
    if listener is None:
        return True
    tls = access_of(config, to_brokers=config.controller_listener is None).tls
    return await _answers(config.advertised_address(listener.name), tls)


async def _answers(address: Address, tls: Tls | None) -> bool:
    """Whether a listener accepts connections and answers as Kafka does."""
    try:
        connection = await Connection.open(*address, tls=tls, timeout_s=ASK_SECONDS)
    except _NO_ANSWER:
        return False
    connection.close()
    return True


def await_answering(nodes: Sequence[LocalNode], children: Mapping[NodeId, Popen[bytes]]) -> None:
    """Wait until each node's controller listener (a lone broker's client listener) answers. Raises Failed."""
    asyncio.run(_await_answering(nodes, children))


async def _await_answering(nodes: Sequence[LocalNode], children: Mapping[NodeId, Popen[bytes]]) -> None:
    waiting = list(nodes)
    try:
        async with asyncio.timeout(LIVE_SECONDS_MAX):
            while waiting:
                _require_alive(nodes, children)
                if await _serves(waiting[-1].config):
                    waiting.pop()
                else:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise Failed(
            f"node {waiting[-1].node_id} does not answer after {LIVE_SECONDS_MAX:.0f} s\n"
            + _last_words(waiting[-1])
        ) from None


def _require_alive(nodes: Sequence[LocalNode], children: Mapping[NodeId, Popen[bytes]]) -> None:
    for node in nodes:
        child = children.get(node.node_id)
        status = None if child is None else child.poll()
        if status is not None:
            ending = node_process.ending(status)
            raise Failed(f"node {node.node_id} died while starting ({ending})\n{_last_words(node)}")


def _last_words(node: LocalNode) -> str:
    return f"the end of {node.directory / node_process.LOG}:\n{node_process.log_tail(node.directory)}"


def _raise_if_refused(error: Exception, target: Target, cluster: LocalCluster) -> None:
    """Waiting does not cure a lack of authorization, nor of space."""
    if isinstance(error, ApiError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR:
        raise Failed(
            f"the cluster cannot write to {cluster.directory}: {error}; make room, or choose another"
        )
    if isinstance(error, ApiError) and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise Failed(f"the cluster at {target.name} refuses to say whether it is live: {error}") from error
