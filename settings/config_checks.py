"""What must hold between the settings of a node, and what is said where it does not."""

from typing import TYPE_CHECKING, Final

from fencepost.settings.config_values import SASL_PLAINTEXT

if TYPE_CHECKING:
    from fencepost.settings.config import NodeConfig

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The listener that serves the controller APIs. Every other name is a client listener."""

EVERY_NODE_PROVES: Final = (
    "quorum.secret.file is missing: the nodes of a cluster prove to each other that they share a secret; add "
    "quorum.secret.file=FILE, the same content on every node ('fencepost storage format' writes a new one)"
)


def checks(config: "NodeConfig") -> list[tuple[bool, str]]:
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
        (config.secret_file is not None, EVERY_NODE_PROVES),
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
        (
            config.failed_authentication_delay_ms < config.connections_idle_ms_max,
            "connection.failed.authentication.delay.ms must be less than connections.max.idle.ms",
        ),
        (
            config.queued_request_bytes_max >= 2 * config.frame_bytes_max,
            f"queued.max.request.bytes: at least {2 * config.frame_bytes_max}, two of the largest requests",
        ),
        *_checks_of_size(config),
    ]


def _checks_of_size(config: "NodeConfig") -> list[tuple[bool, str]]:
    """What a cluster of this size can keep. Elsewhere such a setting makes a client's first call hang."""
    voters = len(config.voters) or len(config.controller_bootstrap)
    replicas = config.transaction_log_replication_factor
    in_sync = config.transaction_log_isr_min
    kept = f"transaction state is kept by the quorum's voters, and there are {voters}"
    remedy = f"leave the key out, or set it to {voters} or less"
    unreplicated = "leave the key out, or set fencepost.allow.unreplicated=true"
    factor = config.replication_factor_default
    return [
        (
            replicas is None or replicas <= voters,
            f"transaction.state.log.replication.factor={replicas}: {kept}; {remedy}",
        ),
        (
            in_sync is None or in_sync <= voters,
            f"transaction.state.log.min.isr={in_sync}: {kept}; {remedy}",
        ),
        (
            factor == 1 or config.allow_unreplicated,
            f"default.replication.factor={factor}: partitions have one replica; {unreplicated}",
        ),
    ]
