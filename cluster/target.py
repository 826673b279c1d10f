"""The nodes that a command contacts, by address or by a local cluster's folder; refusals in words."""

from dataclasses import dataclass
from typing import Final

from fencepost.cluster.command_config import Access, access_of
from fencepost.cluster.console import WrongUsage
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.controller.errors import ApiError
from fencepost.settings.config_values import Address, parse_address
from fencepost.wire.auth import Login
from fencepost.wire.tls import Tls

TIMEOUT_SECONDS: Final = 10.0
TEMPORARY_ID_FIRST: Final = 1_000_000_000  # far above any broker's own id
TEMPORARY_ID_LAST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Target:
    """Controllers or brokers that a command contacts. ``cluster`` is None if only addresses are known."""

    addresses: tuple[Address, ...]
    sasl: Login | None = None
    cluster: LocalCluster | None = None
    tls: Tls | None = None

    @property
    def name(self) -> str:
        """``host:port[,..]``, for messages; of brokers also what a client takes as ``bootstrap.servers``."""
        return ",".join(str(address) for address in self.addresses)


def target_at(option: str, text: str, access: Access | None = None) -> Target:
    """The target that an option such as ``--bootstrap-server`` names. Raises WrongUsage."""
    try:
        addresses = tuple(parse_address(each.strip()) for each in text.split(","))
    except ValueError:
        raise WrongUsage(f"{option}: expected HOST:PORT[,..], got {text!r}") from None
    sasl, tls = access or Access()
    return Target(addresses, sasl, tls=tls)


def controllers_of(cluster: LocalCluster) -> Target:
    """The controllers of a local cluster, reached as its nodes do. Raises Unreadable."""
    access = Access()
    for node in cluster.nodes:
        if node.config.controller_listener is not None and access == Access():
            access = access_of(node.config, to_brokers=False)
    return Target(cluster.controllers, access.sasl, cluster, access.tls)


def brokers_of(cluster: LocalCluster, access: Access | None = None) -> Target:
    """The brokers of a local cluster; reached as its nodes do, if nothing else is said."""
    listeners = [(node.config, node.config.client_listener) for node in cluster.nodes]
    there = [(config, listener) for config, listener in listeners if listener is not None]
    addresses = tuple(config.advertised_address(each.name) for config, each in there)
    if access is None:
        found = (access_of(config, to_brokers=True) for config, _ in there)
        access = next((each for each in found if each != Access()), Access())
    return Target(addresses, access.sasl, cluster, access.tls)


def sentence_of(error: ApiError) -> str:
    """A refusal in words: the other side's, else the name of its code."""
    text = str(error)
    return text if text and text != error.code.name else f"refused with {error.code.name} ({error.code})"


def hint_of(cluster: LocalCluster | None) -> str:
    """A line that names the nodes that do not run; empty if all do, or if that is unknown."""
    if cluster is None:
        return ""
    gone = [str(node.node_id) for node in cluster.nodes if node.status() != "running"]
    if not gone:
        return ""
    return f"\nNot running: node {', '.join(gone)}. Type: fencepost ps --dir {cluster.directory}"
