"""A node's configuration: a Kafka-style properties file, read strictly.

Spelling    Kafka's names where Kafka has the setting.
Strict      an unknown key is an error that suggests the nearest; a key given twice is an error; a value
            out of range is an error that names key, value and what is expected.
Inverse     ``parse_properties(config.render(), path) == config`` for every config (test_config.py).
Source      Kafka's broker and controller configs; DESIGN 9.
"""

import difflib
import ipaddress
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from records.types import NodeId

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The listener that serves the controller APIs. Every other name is a client listener."""

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
VOTERS_MAX: Final = 15  # a majority of more costs every commit, and no proposal needs it
ITEMS_MAX: Final = 1_000  # of any other list in one value
VALUE_CHARACTERS_MAX: Final = 64 * 1024
FRAME_BYTES_MAX_DEFAULT: Final = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes


class ConfigError(ValueError):
    """The configuration cannot be used. Says where, which key, what came and what is expected."""


class Address(NamedTuple):
    """Where a socket listens or is reached: a loopback host (until there is TLS) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Voter(NamedTuple):
    """A member of the quorum and the address of its Raft port."""

    node_id: NodeId
    address: Address


class ListenerAddress(NamedTuple):
    """A named listener, as in ``listeners=NAME://host:port``."""

    name: str
    address: Address


class _Kind(NamedTuple):
    """How one sort of value is read and written. ``parse`` raises ValueError."""

    expected: str
    parse: Callable[[str], Any]
    render: Callable[[Any], str] = str


def _ensure(holds: bool) -> None:
    if not holds:
        raise ValueError


def _integer(first: int, last: int) -> _Kind:
    def parse(text: str) -> int:
        _ensure(text.isascii() and text.lstrip("-").isdigit())
        _ensure(first <= int(text) <= last)
        return int(text)

    return _Kind(f"a whole number from {first} to {last}", parse)


def _number(first: float, last: float) -> _Kind:
    def parse(text: str) -> float:
        _ensure(first <= float(text) <= last)  # also refuses nan
        return float(text)

    return _Kind(f"a number from {first:g} to {last:g}", parse, repr)


def _choice(*choices: str) -> _Kind:
    def parse(text: str) -> str:
        _ensure(text in choices)
        return text

    return _Kind("one of " + ", ".join(choices), parse)


def _list_of(kind: _Kind, separator: str = ",", items_max: int = ITEMS_MAX) -> _Kind:
    def parse(text: str) -> tuple[Any, ...]:
        items = tuple(kind.parse(item.strip()) for item in text.split(separator)) if text else ()
        _ensure(len(items) <= items_max and len(set(items)) == len(items))
        return items

    def render(items: tuple[Any, ...]) -> str:
        return separator.join(kind.render(item) for item in items)

    return _Kind(f"{kind.expected}; several with '{separator}' between, none twice", parse, render)


def parse_address(text: str) -> Address:
    """Read ``host:port`` or ``[ipv6]:port``. Raises ValueError unless loopback, port 1 .. 65535."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    _ensure(colon == ":" and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535)
    _ensure(host == "localhost" or ipaddress.ip_address(host).is_loopback)
    return Address(host, int(port))


def _parse_voter(text: str) -> Voter:
    node_id, at, address = text.partition("@")
    _ensure(at == "@" and node_id.isascii() and node_id.isdigit() and int(node_id) <= INT32_MAX)
    return Voter(NodeId(int(node_id)), parse_address(address))


def _parse_listener(text: str) -> ListenerAddress:
    name, separator, address = text.partition("://")
    _ensure(bool(separator) and name.replace("_", "").isalnum() and name == name.upper())
    return ListenerAddress(name, parse_address(address))


def _parse_protocol(text: str) -> tuple[str, str]:
    name, colon, protocol = text.partition(":")
    _ensure(bool(name) and colon == ":" and protocol in (PLAINTEXT, SASL_PLAINTEXT))
    return name, protocol


def _parse_principal(text: str) -> str:
    _ensure(text.startswith("User:") and len(text) > len("User:"))
    return text


def _parse_text(text: str) -> str:
    _ensure(text != "")
    return text


_PORT: Final = _integer(1, 65535)
_PATH: Final = _Kind("a path", lambda text: Path(_parse_text(text)))
_TEXT: Final = _Kind("some text", _parse_text)
_ADDRESS: Final = _Kind("host:port, the host on the loopback interface", parse_address)
_VOTER: Final = _Kind(
    "ID@host:port, the host on the loopback interface", _parse_voter, "{0[0]}@{0[1]}".format
)
_LISTENER: Final = _Kind(
    "NAME://host:port, the host on the loopback interface", _parse_listener, "{0[0]}://{0[1]}".format
)
_PROTOCOL: Final = _Kind(f"NAME:{PLAINTEXT} or NAME:{SASL_PLAINTEXT}", _parse_protocol, ":".join)
_PRINCIPAL: Final = _Kind("User:NAME", _parse_principal)
_MILLISECONDS: Final = _integer(1, INT32_MAX)
_BYTES: Final = _integer(0, INT64_MAX)


def _key(key: str, kind: _Kind) -> dict[str, Any]:
    return {"key": key, "kind": kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What one node is told. A field's ``key`` is its name in the file; None = the key is absent.

    Raises ConfigError when two settings contradict each other.
    """

    node_id: NodeId = field(metadata=_key("node.id", _integer(0, INT32_MAX)))
    roles: tuple[str, ...] = field(metadata=_key("process.roles", _list_of(_choice("controller", "broker"))))
    directory: Path = field(metadata=_key("log.dirs", _PATH))
    listeners: tuple[ListenerAddress, ...] = field(metadata=_key("listeners", _list_of(_LISTENER)))
    security_protocols: tuple[tuple[str, str], ...] = field(
        default=((CONTROLLER_LISTENER, PLAINTEXT), (PLAINTEXT, PLAINTEXT)),
        metadata=_key("listener.security.protocol.map", _list_of(_PROTOCOL)),
    )
    voters: tuple[Voter, ...] = field(
        default=(), metadata=_key("controller.quorum.voters", _list_of(_VOTER, items_max=VOTERS_MAX))
    )
    controller_bootstrap: tuple[Address, ...] = field(
        metadata=_key("controller.quorum.bootstrap.servers", _list_of(_ADDRESS))
    )
    secret_file: Path | None = field(default=None, metadata=_key("quorum.secret.file", _PATH))
    metrics_port: int | None = field(default=None, metadata=_key("metrics.port", _PORT))

    producer_id_block_size: int = field(
        default=1000, metadata=_key("producer.id.block.size", _integer(1, INT32_MAX))
    )
    producer_id_allocation_rate: float = field(  # blocks per second and broker; 0 = unlimited
        default=10.0, metadata=_key("producer.id.allocation.rate", _number(0, 1e9))
    )
    producer_id_allocation_burst: float = field(  # blocks at once
        default=100.0, metadata=_key("producer.id.allocation.burst", _number(1, 1e9))
    )
    broker_session_timeout_ms: int = field(
        default=9000, metadata=_key("broker.session.timeout.ms", _MILLISECONDS)
    )
    broker_heartbeat_interval_ms: int = field(
        default=2000, metadata=_key("broker.heartbeat.interval.ms", _MILLISECONDS)
    )
    election_timeout_ms_min: int = field(
        default=300, metadata=_key("quorum.election.timeout.ms.min", _MILLISECONDS)
    )
    election_timeout_ms_max: int = field(
        default=600, metadata=_key("quorum.election.timeout.ms.max", _MILLISECONDS)
    )
    raft_heartbeat_interval_ms: int = field(
        default=50, metadata=_key("quorum.heartbeat.interval.ms", _MILLISECONDS)
    )

    acls_file: Path | None = field(default=None, metadata=_key("authorizer.acls.file", _PATH))
    super_users: tuple[str, ...] = field(
        default=(), metadata=_key("super.users", _list_of(_PRINCIPAL, separator=";"))
    )
    sasl_users_file: Path | None = field(default=None, metadata=_key("sasl.plain.users.file", _PATH))
    sasl_username: str | None = field(default=None, metadata=_key("sasl.username", _TEXT))
    sasl_password_file: Path | None = field(default=None, metadata=_key("sasl.password.file", _PATH))

    snapshot_entries_interval: int = field(
        default=50_000, metadata=_key("snapshot.entries.interval", _integer(1, INT64_MAX))
    )
    archive_retention_bytes: int | None = field(  # None: keep the whole audit log
        default=None, metadata=_key("log.retention.metadata.bytes", _BYTES)
    )
    disk_free_bytes_min: int = field(default=256 * 1024 * 1024, metadata=_key("disk.free.min.bytes", _BYTES))
    frame_bytes_max: int = field(
        default=FRAME_BYTES_MAX_DEFAULT, metadata=_key("socket.request.max.bytes", _integer(64, INT32_MAX))
    )
    connections_max: int = field(
        default=4096,
        metadata=_key("max.connections", _integer(1, 1_000_000)),  # Kafka's name; per listener
    )
    log_level: str = field(
        default="info", metadata=_key("log.level", _choice("debug", "info", "warning", "error"))
    )
    log_format: str = field(default="console", metadata=_key("log.format", _choice("console", "json")))

    def __post_init__(self) -> None:
        for holds, complaint in _checks(self):
            if not holds:
                raise ConfigError(complaint)

    @property
    def is_controller(self) -> bool:
        """Whether this node votes."""
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        """Whether this node serves clients."""
        return "broker" in self.roles

    @property
    def controller_listener(self) -> ListenerAddress | None:
        """Where the controller APIs are served; None without the controller role."""
        return next((each for each in self.listeners if each.name == CONTROLLER_LISTENER), None)

    @property
    def client_listener(self) -> ListenerAddress | None:
        """Where clients are served; None without the broker role."""
        return next((each for each in self.listeners if each.name != CONTROLLER_LISTENER), None)

    @property
    def raft_address(self) -> Address | None:
        """This node's own Raft address; None if it is no voter."""
        return next((each.address for each in self.voters if each.node_id == self.node_id), None)

    def security_protocol(self, listener_name: str) -> str:
        """``PLAINTEXT`` or ``SASL_PLAINTEXT``: how the listener of that name is spoken to."""
        return dict(self.security_protocols).get(listener_name, PLAINTEXT)

    def render(self) -> str:
        """The properties file that says this. Settings at their default are left out."""
        lines = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.default is MISSING or value != each.default:
                lines.append(f"{each.metadata['key']}={each.metadata['kind'].render(value)}")
        return "\n".join(lines) + "\n"


def _checks(config: NodeConfig) -> list[tuple[bool, str]]:
    """What must hold between settings, with the complaint if it does not."""
    names = [each.name for each in config.listeners]
    clients = [name for name in names if name != CONTROLLER_LISTENER]
    serves_sasl = any(config.security_protocol(name) == SASL_PLAINTEXT for name in names)
    return [
        (bool(config.roles), "process.roles: expected controller, broker or both; got none"),
        (len(set(names)) == len(names), "listeners: a name is there twice"),
        (
            config.is_controller == (CONTROLLER_LISTENER in names),
            "listeners: a CONTROLLER listener is needed with the controller role, and only with it",
        ),
        (
            len(clients) == (1 if config.is_broker else 0),
            f"listeners: expected one client listener with the broker role, none without; got {clients}",
        ),
        (bool(config.controller_bootstrap), "controller.quorum.bootstrap.servers: expected at least one"),
        (
            not config.is_controller or config.raft_address is not None,
            f"controller.quorum.voters: node.id {config.node_id} is not among the voters",
        ),
        (
            len({each.node_id for each in config.voters}) == len(config.voters),
            "controller.quorum.voters: a node id is there twice",
        ),
        (
            not config.is_controller or len(config.voters) == 1 or config.secret_file is not None,
            "quorum.secret.file: the voters of a quorum prove to each other that they share a secret",
        ),
        (
            config.raft_heartbeat_interval_ms < config.election_timeout_ms_min,
            "quorum.heartbeat.interval.ms must be less than quorum.election.timeout.ms.min",
        ),
        (
            config.election_timeout_ms_min <= config.election_timeout_ms_max,
            "quorum.election.timeout.ms.min must not be greater than quorum.election.timeout.ms.max",
        ),
        (
            config.broker_heartbeat_interval_ms < config.broker_session_timeout_ms,
            "broker.heartbeat.interval.ms must be less than broker.session.timeout.ms",
        ),
        (
            not serves_sasl or config.sasl_users_file is not None,
            "sasl.plain.users.file: a SASL_PLAINTEXT listener needs the users' passwords",
        ),
        (
            (config.sasl_username is None) == (config.sasl_password_file is None),
            "sasl.username and sasl.password.file: expected both or neither",
        ),
    ]


def parse_properties(text: str, path: Path) -> NodeConfig:
    """Read a properties file: ``key=value`` lines; blank lines and lines from ``#`` or ``!`` are skipped.

    ``path`` is named in errors, and relative paths in the file are taken from its folder.
    Raises ConfigError.
    """
    settings = {each.metadata["key"]: each for each in fields(NodeConfig)}
    values: dict[str, Any] = {}
    for line_number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.strip()[0] in "#!":
            continue
        where = f"{path}: line {line_number}"
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise ConfigError(f"{where}: expected key=value, got {line.strip()!r}")
        if key not in settings:
            raise ConfigError(f"{where}: unknown key {key}{_nearest(key, tuple(settings))}")
        setting = settings[key]
        if setting.name in values:
            raise ConfigError(f"{where}: {key} is given twice")
        values[setting.name] = _parse_value(setting.metadata["kind"], value, f"{where}: {key}", path.parent)
    missing = [key for key, each in settings.items() if each.default is MISSING and each.name not in values]
    if missing:
        raise ConfigError(f"{path}: missing {', '.join(missing)}")
    try:
        return NodeConfig(**values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _parse_value(kind: _Kind, text: str, where: str, folder: Path) -> Any:
    try:
        _ensure(len(text) <= VALUE_CHARACTERS_MAX)
        value = kind.parse(text)
    except ValueError:
        raise ConfigError(f"{where}: expected {kind.expected}; got {text[:200]!r}") from None
    return folder.absolute() / value if isinstance(value, Path) else value


def _nearest(key: str, keys: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(keys)}"
