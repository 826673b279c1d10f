"""Access to a live ensemble: addresses and credentials, requests and their outcomes. Imports no library.

Unknown     is an outcome of its own: the connection broke, the session expired or nothing came in time. It
            may be done, not done, or **be done later**, when a server that was slow gets to it, as long as
            the znode is still at the version in the write. The znode's contents afterwards do not show
            that the write was ours: a rival's bytes can be equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from fencepost.bridge.export import is_path

PORT: Final = 2181
PORT_MAX: Final = 65_535
HOSTS_MAX: Final = 64


class Written(NamedTuple):
    """It is done: the znode is at ``version``, changed by transaction ``zxid`` (None: not known)."""

    version: int
    zxid: int | None


class Conflict(NamedTuple):
    """It is not done and never will be: the znode was at another version, was gone, or was there already."""

    reason: str


class Unknown(NamedTuple):
    """The outcome is unknown, and it may still happen."""

    reason: str


Outcome: TypeAlias = Written | Conflict | Unknown


class ZooKeeperUnavailable(Exception):
    """No request was sent, or no response came in time; nothing was changed."""


class ZooKeeperRefused(Exception):
    """The ensemble refused: no permission, no such parent, no login. Repeating the request does not help."""


class AclEntry(NamedTuple):
    """One entry of a znode's access list: who, and what he may do with it, in letters of ``cdrwa``."""

    scheme: str
    identity: str
    permissions: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.identity}:{self.permissions}"


def is_write_granted(acl: Sequence[AclEntry]) -> bool | None:
    """To anyone; False: to no one but a superuser; None: to some, and the list does not say whether to us."""
    writers = [entry for entry in acl if "w" in entry.permissions]
    if any((entry.scheme, entry.identity) == ("world", "anyone") for entry in writers):
        return True
    return None if writers else False


class ConnectStringInvalid(ValueError):
    """A connect string that is not ``host:port,host:port/chroot``."""


class Connect(NamedTuple):
    """Kafka's ``zookeeper.connect``: servers, and the znode under which Kafka keeps its own, "" for none."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str

    @property
    def servers(self) -> str:
        """The connect string without the chroot: ``host:port,host:port``."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def __str__(self) -> str:
        return self.servers + self.chroot


def parse_connect(text: str) -> Connect:
    """Inverse of ``str``. A port may be left out: 2181. Raises ConnectStringInvalid."""
    servers, slash, below = text.strip().partition("/")
    chroot = (slash + below).rstrip("/")
    if chroot and not is_path(chroot):
        raise ConnectStringInvalid(f"{text!r}: expected a znode's path after the servers, found {chroot!r}")
    hosts = tuple(_host(text, server.strip()) for server in servers.split(","))
    if len(hosts) > HOSTS_MAX:
        raise ConnectStringInvalid(f"{len(hosts)} servers, at most {HOSTS_MAX}")
    return Connect(hosts, chroot)


def _host(text: str, server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConnectStringInvalid(
            f"{text!r}: expected host:port, found {server!r}; an IPv6 address needs [ and ]"
        )
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= PORT_MAX):
        raise ConnectStringInvalid(f"{text!r}: expected host:port, found {server!r}")
    return host, int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM. ``ca`` None: the system's authorities."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach an ensemble. Secrets are not shown by ``repr``."""

    connect: Connect
    session_timeout_s: float = (
        6.0  # the servers allow 2 to 20 of their ticks; also what a silent server costs
    )
    operation_timeout_s: float = 5.0
    digest: tuple[str, str] | None = field(default=None, repr=False)  # user and password, for access lists
    sasl: Mapping[str, str] | None = field(
        default=None, repr=False
    )  # mechanism, username, password, service, ...
    tls: Tls | None = None


class Identity(NamedTuple):
    """Which ensemble this is. Equal ``cluster_id`` and ``created_zxid``: the same znode, not a namesake."""

    cluster_id: str | None  # Kafka's, of the znode /cluster/id
    created_zxid: int | None  # of that znode
    chroot: str
    members: Mapping[int, str] | None  # the voting servers as they name themselves; None before ZooKeeper 3.5
    servers: str  # as they were given
