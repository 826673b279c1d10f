"""A node's configuration: its settings, their keys and defaults, and what must hold between them.

Spelling    Kafka's names where Kafka has the setting. Properties files are read by properties.py.
Source      Kafka's broker and controller configs; docs/design.md 9.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Final

from fencepost.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX
from fencepost.records.types import Log, NodeId
from fencepost.settings.authorizer_config import AuthorizerConfig, checks_of_authorizer
from fencepost.settings.config_values import (
    ADDRESS,
    BOOLEAN,
    BYTES,
    CONTROLLER_LISTENER,
    DAY_MS,
    HOST,
    INT32_MAX,
    INT64_MAX,
    ITEMS_MAX,
    MILLISECONDS,
    PATH,
    PLAINTEXT,
    PORT,
    REPLICATION_FACTOR_MAX,
    SASL_PLAINTEXT,
    SSL,
    TEXT,
    VOTER,
    Address,
    ListenerAddress,
    Voter,
    choice,
    integer,
    keyed,
    list_of,
    number,
)
from fencepost.settings.listener_config import checks_of_listeners, is_loopback
from fencepost.wire.frame import FRAME_BYTES_MAX
from fencepost.wire.limits import (
    CONNECTIONS_IDLE_MS_MAX,
    CONNECTIONS_MAX,
    FAILED_AUTHENTICATION_DELAY_MS,
    QUEUED_REQUEST_BYTES_MAX,
    ListenerLimits,
)
from fencepost.wire.scram import SCRAM_MECHANISMS

__all__ = [
    "CONTROLLER_LISTENER",
    "INT32_MAX",
    "ITEMS_MAX",
    "PLAINTEXT",
    "SASL_PLAINTEXT",
    "Address",
    "ListenerAddress",
    "Voter",
]

EVERY_NODE_PROVES: Final = (
    "quorum.secret.file is missing: the nodes of a cluster prove to each other that they share a secret; add "
    "quorum.secret.file=FILE, the same content on every node ('fencepost storage format' writes a new one)"
)

VOTERS_MAX: Final = 15  # a majority of more costs every commit, and no proposal needs it
SEGMENT_BYTES_MIN: Final = 14  # Kafka's


class ConfigError(ValueError):
    """The configuration cannot be used. Says where, which key, what came and what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig(AuthorizerConfig):
    """The configuration of one node. A field's ``key`` is its name in the file; None = the key is absent.

    Raises ConfigError when two settings contradict each other.
    """

    log_directories: tuple[Path, ...] = field(metadata=keyed("log.dirs", list_of(PATH)))
    metadata_directory: Path | None = field(default=None, metadata=keyed("metadata.log.dir", PATH))
    voters: tuple[Voter, ...] = field(
        default=(), metadata=keyed("controller.quorum.voters", list_of(VOTER, items_max=VOTERS_MAX))
    )
    controller_bootstrap: tuple[Address, ...] = field(
        metadata=keyed("controller.quorum.bootstrap.servers", list_of(ADDRESS))
    )
    secret_file: Path | None = field(default=None, metadata=keyed("quorum.secret.file", PATH))
    metrics_port: int | None = field(default=None, metadata=keyed("metrics.port", PORT))
    metrics_host: str = field(default="127.0.0.1", metadata=keyed("fencepost.metrics.host", HOST))
    metrics_protocol: str = field(
        default=PLAINTEXT, metadata=keyed("fencepost.metrics.security.protocol", choice(PLAINTEXT, SSL))
    )

    producer_id_block_size: int = field(
        default=1000, metadata=keyed("producer.id.block.size", integer(1, INT32_MAX))
    )
    producer_id_allocation_rate: float = field(  # blocks per second and broker; 0 = unlimited
        default=10.0, metadata=keyed("producer.id.allocation.rate", number(0, 1e9))
    )
    producer_id_allocation_burst: float = field(  # blocks at once
        default=100.0, metadata=keyed("producer.id.allocation.burst", number(1, 1e9))
    )
    broker_session_timeout_ms: int = field(
        default=9000, metadata=keyed("broker.session.timeout.ms", MILLISECONDS)
    )
    broker_heartbeat_interval_ms: int = field(
        default=2000, metadata=keyed("broker.heartbeat.interval.ms", MILLISECONDS)
    )
    election_timeout_ms_min: int = field(
        default=300, metadata=keyed("quorum.election.timeout.ms.min", MILLISECONDS)
    )
    election_timeout_ms_max: int = field(
        default=600, metadata=keyed("quorum.election.timeout.ms.max", MILLISECONDS)
    )
    raft_heartbeat_interval_ms: int = field(
        default=50, metadata=keyed("quorum.heartbeat.interval.ms", MILLISECONDS)
    )

    partitions_default: int = field(  # of a topic that does not say how many
        default=1, metadata=keyed("num.partitions", integer(1, PARTITIONS_PER_REQUEST_MAX))
    )
    replication_factor_default: int = field(
        default=1, metadata=keyed("default.replication.factor", integer(1, REPLICATION_FACTOR_MAX))
    )
    allow_unreplicated: bool = field(  # a topic that wants more replicas gets one, and is not refused
        default=False, metadata=keyed("fencepost.allow.unreplicated", BOOLEAN)
    )
    testing: bool = field(  # a test may cut the node off, and move its clock: node/testing_port.py
        default=False, metadata=keyed("fencepost.testing", BOOLEAN)
    )
    auto_create_topics: bool = field(default=True, metadata=keyed("auto.create.topics.enable", BOOLEAN))
    delete_topics: bool = field(default=True, metadata=keyed("delete.topic.enable", BOOLEAN))
    log_segment_bytes: int = field(
        default=1024**3, metadata=keyed("log.segment.bytes", integer(SEGMENT_BYTES_MIN, INT32_MAX))
    )
    log_retention_ms: int = field(  # -1: keep everything
        default=7 * DAY_MS, metadata=keyed("log.retention.ms", integer(-1, INT64_MAX))
    )
    log_retention_bytes: int = field(  # of a partition; -1: unlimited
        default=-1, metadata=keyed("log.retention.bytes", integer(-1, INT64_MAX))
    )
    log_retention_check_ms: int = field(
        default=300_000, metadata=keyed("log.retention.check.interval.ms", MILLISECONDS)
    )
    log_cleaner_backoff_ms: int = field(
        default=15_000, metadata=keyed("log.cleaner.backoff.ms", MILLISECONDS)
    )
    log_flush_messages: int = field(  # fsync after so many records; the default: never, as Kafka
        default=INT64_MAX, metadata=keyed("log.flush.interval.messages", integer(1, INT64_MAX))
    )
    message_bytes_max: int = field(  # of one record batch
        default=1_048_588, metadata=keyed("message.max.bytes", integer(0, INT32_MAX))
    )

    zookeeper_migration_enabled: bool = field(  # a cluster that is made for the upgrade; see upgrade.py
        default=False, metadata=keyed("zookeeper.metadata.migration.enable", BOOLEAN)
    )
    zookeeper_connect: str | None = field(default=None, metadata=keyed("zookeeper.connect", TEXT))
    zookeeper_session_timeout_ms: int = field(
        default=6_000, metadata=keyed("zookeeper.session.timeout.ms", integer(1_000, 600_000))
    )
    zookeeper_tls: bool = field(default=False, metadata=keyed("zookeeper.ssl.client.enable", BOOLEAN))
    zookeeper_truststore: Path | None = field(  # PEM: authorities; None: the system's
        default=None, metadata=keyed("zookeeper.ssl.truststore.location", PATH)
    )
    zookeeper_keystore: Path | None = field(  # PEM: this client's key and certificate
        default=None, metadata=keyed("zookeeper.ssl.keystore.location", PATH)
    )
    zookeeper_sasl_username: str | None = field(default=None, metadata=keyed("zookeeper.sasl.username", TEXT))
    zookeeper_sasl_password_file: Path | None = field(
        default=None, metadata=keyed("zookeeper.sasl.password.file", PATH)
    )

    snapshot_entries_interval: int = field(
        default=50_000, metadata=keyed("snapshot.entries.interval", integer(1, INT64_MAX))
    )
    archive_retention_bytes: int | None = field(  # None: keep the whole audit log
        default=None, metadata=keyed("log.retention.metadata.bytes", BYTES)
    )
    disk_free_bytes_min: int = field(default=256 * 1024 * 1024, metadata=keyed("disk.free.min.bytes", BYTES))
    frame_bytes_max: int = field(
        default=FRAME_BYTES_MAX, metadata=keyed("socket.request.max.bytes", integer(64, INT32_MAX))
    )
    queued_request_bytes_max: int = field(  # of all listeners together; Kafka's default is no limit
        default=QUEUED_REQUEST_BYTES_MAX,
        metadata=keyed("queued.max.request.bytes", integer(1024 * 1024, INT64_MAX)),
    )
    connections_max: int = field(  # per listener; Kafka's default is no limit
        default=CONNECTIONS_MAX, metadata=keyed("max.connections", integer(1, 1_000_000))
    )
    connections_per_ip_max: int | None = field(
        default=None, metadata=keyed("max.connections.per.ip", integer(1, INT32_MAX))
    )
    connections_idle_ms_max: int = field(
        default=CONNECTIONS_IDLE_MS_MAX, metadata=keyed("connections.max.idle.ms", MILLISECONDS)
    )
    failed_authentication_delay_ms: int = field(
        default=FAILED_AUTHENTICATION_DELAY_MS,
        metadata=keyed("connection.failed.authentication.delay.ms", integer(0, INT32_MAX)),
    )
    log_level: str = field(
        default="info", metadata=keyed("log.level", choice("debug", "info", "warning", "error"))
    )
    log_rotate_bytes: int = field(  # of a node's own log file, which ``fencepost up`` and ``start`` make
        default=16 * 1024 * 1024, metadata=keyed("log.rotate.bytes", integer(64 * 1024, INT64_MAX))
    )
    log_rotate_files: int = field(default=4, metadata=keyed("log.rotate.files", integer(1, 1000)))
    log_format: str = field(default="console", metadata=keyed("log.format", choice("console", "json")))

    def __post_init__(self) -> None:
        for holds, complaint in _checks(self):
            if not holds:
                raise ConfigError(complaint)

    @property
    def serves_scram(self) -> bool:
        """Whether clients log in by SCRAM on any listener."""
        served = [self.of(each.name).sasl_mechanisms for each in self.listeners if self.logs_in(each.name)]
        return any(each in SCRAM_MECHANISMS for mechanisms in served for each in mechanisms)

    @property
    def directory(self) -> Path:
        """``metadata.log.dir``, or the first of ``log.dirs``: identity, store, snapshots, archive."""
        return self.metadata_directory or self.log_directories[0]

    def keeps_archive(self, log: Log) -> bool:
        """Whether no retention deletes the first segments of a log's archive."""
        of_groups = self.group_archive_retention_bytes
        return self.archive_retention_bytes is None if log is not Log.CONSUMER_OFFSETS else of_groups < 0

    @property
    def controllers_at_first(self) -> dict[NodeId, tuple[str, int]]:
        """Where the voters' controller listeners should be, until each says so itself; {}: not known."""
        voters, servers = self.voters, self.controller_bootstrap
        if len(voters) != len(servers):
            return {}
        return {v.node_id: (a.host, a.port) for v, a in zip(sorted(voters), servers, strict=True)}

    @property
    def raft_address(self) -> Address | None:
        """This node's own Raft address; None if it is no voter."""
        return next((each.address for each in self.voters if each.node_id == self.node_id), None)

    def limits(self, listener_name: str = "") -> ListenerLimits:
        """The limits of one listener: connections, requests, bytes. Without a name: of any other socket."""
        own = self.of(listener_name)
        return ListenerLimits(
            frame_bytes_max=self.frame_bytes_max,
            connections_max=own.connections_max,
            connections_per_ip_max=self.connections_per_ip_max,
            idle_ms_max=self.connections_idle_ms_max,
            failed_authentication_delay_ms=self.failed_authentication_delay_ms,
            reauth_ms_max=own.reauth_ms_max,
            reauth_ms_by_mechanism={
                each.mechanism: each.value for each in self.overrides_of(listener_name) if each.mechanism
            },
        )

    def render(self) -> str:
        """The properties file that says this. Settings at their default are left out."""
        lines, kinds = [], {each.name: (each.metadata["key"], each.metadata["kind"]) for each in fields(self)}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "overrides" and (each.default is MISSING or value != each.default):
                key, kind = kinds[each.name]
                lines.append(f"{key}={kind.render(value)}")
        for own in self.overrides:
            key, kind = kinds[own.setting]
            lines.append(f"{own.prefix}{key}={kind.render(own.value)}")
        return "\n".join(lines) + "\n"


def _checks(config: NodeConfig) -> Iterator[tuple[bool, str]]:
    """What must hold between settings, with the complaint if it does not."""
    yield from checks_of_listeners(config)
    yield from checks_of_authorizer(config)
    yield from _checks_of_peers(config)
    yield (
        config.raft_heartbeat_interval_ms < config.election_timeout_ms_min,
        "quorum.heartbeat.interval.ms must be less than quorum.election.timeout.ms.min",
    )
    yield (
        config.election_timeout_ms_min <= config.election_timeout_ms_max,
        "quorum.election.timeout.ms.min must not be greater than quorum.election.timeout.ms.max",
    )
    yield (
        config.group_session_timeout_ms_min <= config.group_session_timeout_ms_max,
        "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms",
    )
    yield (
        config.broker_heartbeat_interval_ms < config.broker_session_timeout_ms,
        "broker.heartbeat.interval.ms must be less than broker.session.timeout.ms",
    )
    yield (
        (config.sasl_username is None) == (config.sasl_password_file is None),
        "sasl.username and sasl.password.file: expected both or neither",
    )
    yield (
        not config.zookeeper_migration_enabled or config.zookeeper_connect is not None,
        "zookeeper.metadata.migration.enable: zookeeper.connect must say which ZooKeeper",
    )
    yield (
        (config.zookeeper_sasl_username is None) == (config.zookeeper_sasl_password_file is None),
        "zookeeper.sasl.username and zookeeper.sasl.password.file: expected both or neither",
    )
    yield (
        config.zookeeper_tls or not (config.zookeeper_truststore or config.zookeeper_keystore),
        "zookeeper.ssl.client.enable: stores are given, but TLS is not enabled",
    )
    yield (
        config.failed_authentication_delay_ms < config.connections_idle_ms_max,
        "connection.failed.authentication.delay.ms must be less than connections.max.idle.ms",
    )
    yield (
        config.queued_request_bytes_max >= 2 * config.frame_bytes_max,
        f"queued.max.request.bytes: at least {2 * config.frame_bytes_max}, two of the largest requests",
    )
    yield from _checks_of_size(config)


def _checks_of_peers(config: NodeConfig) -> Iterator[tuple[bool, str]]:
    """Who proves what to whom."""
    yield bool(config.log_directories), "log.dirs: expected at least one directory"
    yield bool(config.controller_bootstrap), "controller.quorum.bootstrap.servers: expected at least one"
    yield (
        not config.is_controller or config.raft_address is not None,
        f"controller.quorum.voters: node.id {config.node_id} is not among the voters",
    )
    yield (
        len({each.node_id for each in config.voters}) == len(config.voters),
        "controller.quorum.voters: a node id is there twice",
    )
    raft = config.raft_address
    yield (
        raft is None or is_loopback(raft) or config.links_use_tls or config.allow_insecure,
        (
            f"controller.quorum.voters: the links to voters listen on {raft}, which others than this host "
            "may reach, and go in the clear: use TLS for the controllers' listener, or loopback; or "
            "fencepost.allow.insecure.listeners=true if all who can listen may read and change everything"
        ),
    )
    yield config.secret_file is not None, EVERY_NODE_PROVES
    reached = [each.address for each in config.listeners] + ([] if raft is None else [raft])
    yield (
        not config.testing or all(is_loopback(each) for each in reached),
        "fencepost.testing=true: a node whose clock and links a test may move listens on loopback alone",
    )
    scraped = Address(config.metrics_host, config.metrics_port or 0)
    yield (
        is_loopback(scraped)
        or config.allow_insecure
        or (config.metrics_protocol == SSL and config.ssl_client_auth == "required"),
        (
            f"fencepost.metrics.host={config.metrics_host}: others than this host may read the metrics: "
            "use loopback, or fencepost.metrics.security.protocol=SSL with ssl.client.auth=required, or "
            "fencepost.allow.insecure.listeners=true"
        ),
    )
    yield (
        config.metrics_protocol == PLAINTEXT or config.tls_settings.has_key,
        "fencepost.metrics.security.protocol=SSL: ssl.keystore.location is missing",
    )


def _checks_of_size(config: NodeConfig) -> Iterator[tuple[bool, str]]:
    """What a cluster of this size can keep. Elsewhere such a setting makes a client's first call hang."""
    voters = len(config.voters) or len(config.controller_bootstrap)
    replicas = config.transaction_log_replication_factor
    in_sync = config.transaction_log_isr_min
    kept = f"transaction state is kept by the quorum's voters, and there are {voters}"
    remedy = f"leave the key out, or set it to {voters} or less"
    unreplicated = "leave the key out, or set fencepost.allow.unreplicated=true"
    factor = config.replication_factor_default
    yield (
        replicas is None or replicas <= voters,
        f"transaction.state.log.replication.factor={replicas}: {kept}; {remedy}",
    )
    yield (
        in_sync is None or in_sync <= voters,
        f"transaction.state.log.min.isr={in_sync}: {kept}; {remedy}",
    )
    yield (
        factor == 1 or config.allow_unreplicated,
        f"default.replication.factor={factor}: partitions have one replica; {unreplicated}",
    )
