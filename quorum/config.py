"""A node's configuration: a Kafka-style properties file, read strictly.

Spelling    Kafka's names where Kafka has the setting.
Strict      an unknown key is an error that suggests the nearest; a key given twice is an error; a value
            out of range is an error that names key, value and what is expected.
Inverse     ``parse_properties(config.render(), path) == config`` for every config (test_config.py).
Source      Kafka's broker and controller configs; DESIGN 9.
"""

import difflib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from quorum.config_values import (
    ADDRESS,
    BOOLEAN,
    BYTES,
    INT32_MAX,
    INT64_MAX,
    ITEMS_MAX,
    LISTENER,
    MILLISECONDS,
    PATH,
    PLAINTEXT,
    PORT,
    PRINCIPAL,
    PROTOCOL,
    SASL_PLAINTEXT,
    TEXT,
    VOTER,
    Address,
    Kind,
    ListenerAddress,
    Voter,
    choice,
    ensure,
    integer,
    list_of,
    number,
    parse_address,
)
from records.types import NodeId

__all__ = [
    "INT32_MAX",
    "ITEMS_MAX",
    "PLAINTEXT",
    "SASL_PLAINTEXT",
    "Address",
    "ListenerAddress",
    "Voter",
    "parse_address",
]

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The listener that serves the controller APIs. Every other name is a client listener."""

VOTERS_MAX: Final = 15  # a majority of more costs every commit, and no proposal needs it
VALUE_CHARACTERS_MAX: Final = 64 * 1024
FRAME_BYTES_MAX_DEFAULT: Final = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes


class ConfigError(ValueError):
    """The configuration cannot be used. Says where, which key, what came and what is expected."""


def _key(key: str, kind: Kind) -> dict[str, Any]:
    return {"key": key, "kind": kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What one node is told. A field's ``key`` is its name in the file; None = the key is absent.

    Raises ConfigError when two settings contradict each other.
    """

    node_id: NodeId = field(metadata=_key("node.id", integer(0, INT32_MAX)))
    roles: tuple[str, ...] = field(metadata=_key("process.roles", list_of(choice("controller", "broker"))))
    directory: Path = field(metadata=_key("log.dirs", PATH))
    listeners: tuple[ListenerAddress, ...] = field(metadata=_key("listeners", list_of(LISTENER)))
    security_protocols: tuple[tuple[str, str], ...] = field(
        default=((CONTROLLER_LISTENER, PLAINTEXT), (PLAINTEXT, PLAINTEXT)),
        metadata=_key("listener.security.protocol.map", list_of(PROTOCOL)),
    )
    voters: tuple[Voter, ...] = field(
        default=(), metadata=_key("controller.quorum.voters", list_of(VOTER, items_max=VOTERS_MAX))
    )
    controller_bootstrap: tuple[Address, ...] = field(
        metadata=_key("controller.quorum.bootstrap.servers", list_of(ADDRESS))
    )
    secret_file: Path | None = field(default=None, metadata=_key("quorum.secret.file", PATH))
    metrics_port: int | None = field(default=None, metadata=_key("metrics.port", PORT))

    producer_id_block_size: int = field(
        default=1000, metadata=_key("producer.id.block.size", integer(1, INT32_MAX))
    )
    producer_id_allocation_rate: float = field(  # blocks per second and broker; 0 = unlimited
        default=10.0, metadata=_key("producer.id.allocation.rate", number(0, 1e9))
    )
    producer_id_allocation_burst: float = field(  # blocks at once
        default=100.0, metadata=_key("producer.id.allocation.burst", number(1, 1e9))
    )
    broker_session_timeout_ms: int = field(
        default=9000, metadata=_key("broker.session.timeout.ms", MILLISECONDS)
    )
    broker_heartbeat_interval_ms: int = field(
        default=2000, metadata=_key("broker.heartbeat.interval.ms", MILLISECONDS)
    )
    election_timeout_ms_min: int = field(
        default=300, metadata=_key("quorum.election.timeout.ms.min", MILLISECONDS)
    )
    election_timeout_ms_max: int = field(
        default=600, metadata=_key("quorum.election.timeout.ms.max", MILLISECONDS)
    )
    raft_heartbeat_interval_ms: int = field(
        default=50, metadata=_key("quorum.heartbeat.interval.ms", MILLISECONDS)
    )

    acls_file: Path | None = field(default=None, metadata=_key("authorizer.acls.file", PATH))
    super_users: tuple[str, ...] = field(
        default=(), metadata=_key("super.users", list_of(PRINCIPAL, separator=";"))
    )
    sasl_users_file: Path | None = field(default=None, metadata=_key("sasl.plain.users.file", PATH))
    sasl_username: str | None = field(default=None, metadata=_key("sasl.username", TEXT))
    sasl_password_file: Path | None = field(default=None, metadata=_key("sasl.password.file", PATH))

    zookeeper_migration_enabled: bool = field(  # a cluster that is made for the upgrade; see upgrade.py
        default=False, metadata=_key("zookeeper.metadata.migration.enable", BOOLEAN)
    )
    zookeeper_connect: str | None = field(default=None, metadata=_key("zookeeper.connect", TEXT))
    zookeeper_session_timeout_ms: int = field(
        default=6_000, metadata=_key("zookeeper.session.timeout.ms", integer(1_000, 600_000))
    )
    zookeeper_tls: bool = field(default=False, metadata=_key("zookeeper.ssl.client.enable", BOOLEAN))
    zookeeper_truststore: Path | None = field(  # PEM: authorities; None: the system's
        default=None, metadata=_key("zookeeper.ssl.truststore.location", PATH)
    )
    zookeeper_keystore: Path | None = field(  # PEM: this client's key and certificate
        default=None, metadata=_key("zookeeper.ssl.keystore.location", PATH)
    )
    zookeeper_sasl_username: str | None = field(default=None, metadata=_key("zookeeper.sasl.username", TEXT))
    zookeeper_sasl_password_file: Path | None = field(
        default=None, metadata=_key("zookeeper.sasl.password.file", PATH)
    )

    snapshot_entries_interval: int = field(
        default=50_000, metadata=_key("snapshot.entries.interval", integer(1, INT64_MAX))
    )
    archive_retention_bytes: int | None = field(  # None: keep the whole audit log
        default=None, metadata=_key("log.retention.metadata.bytes", BYTES)
    )
    disk_free_bytes_min: int = field(default=256 * 1024 * 1024, metadata=_key("disk.free.min.bytes", BYTES))
    frame_bytes_max: int = field(
        default=FRAME_BYTES_MAX_DEFAULT, metadata=_key("socket.request.max.bytes", integer(64, INT32_MAX))
    )
    connections_max: int = field(
        default=4096,
        metadata=_key("max.connections", integer(1, 1_000_000)),  # Kafka's name; per listener
    )
    log_level: str = field(
        default="info", metadata=_key("log.level", choice("debug", "info", "warning", "error"))
    )
    log_format: str = field(default="console", metadata=_key("log.format", choice("console", "json")))

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
        (
            not config.zookeeper_migration_enabled or config.zookeeper_connect is not None,
            "zookeeper.metadata.migration.enable: zookeeper.connect must say which ZooKeeper",
        ),
        (
            (config.zookeeper_sasl_username is None) == (config.zookeeper_sasl_password_file is None),
            "zookeeper.sasl.username and zookeeper.sasl.password.file: expected both or neither",
        ),
        (
            config.zookeeper_tls or not (config.zookeeper_truststore or config.zookeeper_keystore),
            "zookeeper.ssl.client.enable: stores are given, but TLS is not enabled",
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


def _parse_value(kind: Kind, text: str, where: str, folder: Path) -> Any:
    try:
        ensure(len(text) <= VALUE_CHARACTERS_MAX)
        value = kind.parse(text)
    except ValueError:
        raise ConfigError(f"{where}: expected {kind.expected}; got {text[:200]!r}") from None
    return folder.absolute() / value if isinstance(value, Path) else value


def _nearest(key: str, keys: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(keys)}"
