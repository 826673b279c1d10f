"""A test cluster whose clients come by TLS: the mode, the files that clients need, and the proxies' ends.

Modes    True: nodes show a certificate, clients none. "mutual": clients show theirs, and are who it says.
Faults   of requests need a proxy that ends TLS, towards clients with the node's own key: with "mutual" every
         client would be the proxy to the nodes, so both together are refused.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from fencepost.cluster.console import WrongUsage

TlsMode = bool | Literal["mutual"]
MUTUAL: Final = "mutual"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What clients are given, each a PEM file, and as Kafka's properties for Java's clients and tools.

    ``key``: with "mutual", the private key and the certificate of the client that the cluster knows.
    """

    authority: Path
    key: Path | None
    properties: Path


def require_mode(mode: TlsMode, *, has_faults: bool) -> None:
    """Raises WrongUsage."""
    if mode not in (True, False, MUTUAL):
        raise WrongUsage(f"expected tls=True, tls=False or tls='mutual', got {mode!r}")
    if mode == MUTUAL and has_faults:
        raise WrongUsage(
            "faults of requests end TLS in a proxy, so to the nodes each client with a certificate would be "
            "the proxy; expected tls=True, or faults=False"
        )


def files_of(mode: TlsMode, directory: Path) -> TlsFiles | None:
    """Where a client finds them; None: there are none."""
    if not mode:
        return None
    key = directory / "tls" / "client.pem" if mode == MUTUAL else None
    return TlsFiles(directory / "tls" / "ca.pem", key, directory / "clients" / "client.properties")


def node_keys(directory: Path, node_count: int) -> list[Path]:
    """The private key and certificate of each node, which the proxy before it shows as well."""
    return [directory / "tls" / f"node-{node}.pem" for node in range(1, node_count + 1)]
