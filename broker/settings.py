"""What a broker reads of its node's configuration and identity, and the secrets that they name.

The shapes are those of ``fencepost.quorum.config.NodeConfig`` and
``fencepost.quorum.node_identity.Identity``, which this folder may not import (docs/design.md 1): whatever has
these attributes will do.
"""

from pathlib import Path
from typing import Protocol
from uuid import UUID

from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.authorization import Acls, AclSyntaxError
from fencepost.wire.auth import UsersSyntaxError, parse_users
from fencepost.wire.client import Address
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.secret_proof import ClusterSecret, parse_secret
from fencepost.wire.setting_files import SettingFileError, read_setting_file


class BrokerConfig(Protocol):
    """Settings of one node, those that concern its broker."""

    @property
    def node_id(self) -> int:
        """node.id; the broker's id, too."""

    @property
    def client_listener(self) -> tuple[str, Address] | None:
        """Name and address of the listener for clients."""

    @property
    def controller_bootstrap(self) -> tuple[Address, ...]:
        """controller.quorum.bootstrap.servers."""

    @property
    def sasl_username(self) -> str | None:
        """sasl.username: as whom the broker speaks to the controllers; None: without a login."""

    @property
    def sasl_password_file(self) -> Path | None:
        """sasl.password.file: there iff the user name is."""

    @property
    def sasl_users_file(self) -> Path | None:
        """sasl.plain.users.file: who may speak to listeners that want SASL."""

    @property
    def secret_file(self) -> Path | None:
        """quorum.secret.file: what the nodes of the cluster prove to each other that they know."""

    @property
    def acls_file(self) -> Path | None:
        """authorizer.acls.file: who may write markers here; None: every principal."""

    @property
    def super_users(self) -> tuple[str, ...]:
        """super.users."""

    @property
    def directory(self) -> Path:
        """log.dirs: the node's one folder."""

    @property
    def log_segment_bytes(self) -> int:
        """log.segment.bytes."""

    @property
    def log_retention_ms(self) -> int:
        """log.retention.ms."""

    @property
    def log_retention_bytes(self) -> int:
        """log.retention.bytes."""

    @property
    def log_retention_check_ms(self) -> int:
        """log.retention.check.interval.ms."""

    @property
    def log_flush_messages(self) -> int:
        """log.flush.interval.messages."""

    @property
    def message_bytes_max(self) -> int:
        """message.max.bytes."""

    @property
    def partition_verification(self) -> bool:
        """transaction.partition.verification.enable."""

    @property
    def producer_id_expiration_ms(self) -> int:
        """producer.id.expiration.ms."""

    @property
    def broker_heartbeat_interval_ms(self) -> int:
        """broker.heartbeat.interval.ms."""

    @property
    def listener_limits(self) -> ListenerLimits:
        """What the client listener bears."""

    def security_protocol(self, listener_name: str) -> str:
        """``PLAINTEXT`` or ``SASL_PLAINTEXT``."""


class BrokerIdentity(Protocol):
    """Whose directory this is."""

    @property
    def cluster_id(self) -> str:
        """22 characters of base64."""

    @property
    def directory_id(self) -> UUID:
        """Proof to the controllers that an earlier process of this directory is dead: it is locked."""


class SettingsError(ValueError):
    """A file that the configuration names cannot be used. Says which, and what is expected; no secrets."""


def own_credentials(config: BrokerConfig) -> tuple[str, str] | None:
    """User name and password for the controllers; None: anonymous. Raises SettingsError."""
    if config.sasl_username is None or config.sasl_password_file is None:
        return None
    password = _read("sasl.password.file", config.sasl_password_file).rstrip("\r\n")
    if not password:
        raise SettingsError(
            f"sasl.password.file={config.sasl_password_file}: expected a password, it is empty"
        )
    return config.sasl_username, password


def cluster_secret(config: BrokerConfig, identity: BrokerIdentity) -> ClusterSecret:
    """What this node proves to the coordinator, and the coordinator to it. Raises SettingsError."""
    if config.secret_file is None:
        raise SettingsError("quorum.secret.file is missing: a broker believes the coordinator that proves it")
    text = _read("quorum.secret.file", config.secret_file)
    try:
        secret = parse_secret(text)
    except ValueError as error:
        raise SettingsError(f"quorum.secret.file={config.secret_file}: {error}") from error
    return ClusterSecret(secret=secret, cluster_id=identity.cluster_id, node_id=config.node_id)


def client_credentials(config: BrokerConfig, listener_name: str) -> dict[str, str] | None:
    """Passwords by user for the client listener; None: it does not want SASL. Raises SettingsError."""
    if config.security_protocol(listener_name) != "SASL_PLAINTEXT" or config.sasl_users_file is None:
        return None
    try:
        return parse_users(_read("sasl.plain.users.file", config.sasl_users_file))
    except UsersSyntaxError as error:
        raise SettingsError(f"sasl.plain.users.file={config.sasl_users_file}: {error}") from error


def cluster_acls(config: BrokerConfig) -> Acls:
    """Who may do what to the cluster; without a file everything is allowed. Raises SettingsError."""
    if config.acls_file is None:
        return Acls()
    try:
        return Acls.parse(
            _read("authorizer.acls.file", config.acls_file, is_secret=False), config.super_users
        )
    except AclSyntaxError as error:
        raise SettingsError(f"authorizer.acls.file={config.acls_file}: {error}") from error


def log_config(config: BrokerConfig) -> LogConfig:
    """The settings of a partition's log whose topic sets none of its own."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        retention_ms=config.log_retention_ms,
        retention_bytes=config.log_retention_bytes,
        message_bytes_max=config.message_bytes_max,
        flush_messages=config.log_flush_messages,
        producer_expiration_ms=config.producer_id_expiration_ms,
        verification=config.partition_verification,
    )


def _read(setting: str, file: Path, *, is_secret: bool = True) -> str:
    try:
        return read_setting_file(setting, file, is_secret=is_secret)
    except SettingFileError as error:
        raise SettingsError(str(error)) from error
