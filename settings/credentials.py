"""What a node reads from the files that its configuration names: secret, ACLs, users, its own password.

Read        once, when the node starts, for each of its roles.
Errors      say the setting, the file, and what is expected in it. No secret reaches a message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.controller.authorization import Acls, AclSyntaxError
from fencepost.settings.config import EVERY_NODE_PROVES, SASL_PLAINTEXT, ConfigError, NodeConfig
from fencepost.wire.auth import UsersSyntaxError, parse_users
from fencepost.wire.secret_proof import ClusterSecret, parse_secret
from fencepost.wire.setting_files import SettingFileError, read_setting_file


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of a node's files, in the shapes that its roles use."""

    secret: ClusterSecret
    acls: Acls
    own: tuple[str, str] | None = field(repr=False)
    """User and password with which the node logs in at controllers; None: it does not."""
    own_for_brokers: tuple[str, str] | None = field(repr=False)
    """The same for the brokers' client listeners; None where they want no login."""
    users: Mapping[str, Mapping[str, str] | None] = field(repr=False)
    """By the name of each listener of the node: user to password; None for a plaintext listener."""


def read_credentials(config: NodeConfig, cluster_id: str) -> Credentials:
    """Read every file that the configuration names. Raises ConfigError."""
    own = _own(config)
    client = config.client_listener
    wanted = client is None or config.security_protocol(client.name) == SASL_PLAINTEXT
    return Credentials(
        secret=ClusterSecret(secret=_secret(config), cluster_id=cluster_id, node_id=config.node_id),
        acls=_acls(config),
        own=own,
        own_for_brokers=own if wanted else None,
        users={each.name: _users(config, each.name) for each in config.listeners},
    )


def _secret(config: NodeConfig) -> bytes:
    if config.secret_file is None:
        raise ConfigError(EVERY_NODE_PROVES)
    text = _read("quorum.secret.file", config.secret_file)
    try:
        return parse_secret(text)
    except ValueError as error:
        raise ConfigError(f"quorum.secret.file={config.secret_file}: {error}") from error


def _acls(config: NodeConfig) -> Acls:
    """Without a file every principal may do everything."""
    if config.acls_file is None:
        return Acls(super_users=frozenset(config.super_users))
    text = _read("authorizer.acls.file", config.acls_file, is_secret=False)
    try:
        return Acls.parse(text, config.super_users)
    except AclSyntaxError as error:
        raise ConfigError(f"authorizer.acls.file={config.acls_file}: {error}") from error


def _users(config: NodeConfig, listener_name: str) -> dict[str, str] | None:
    if config.security_protocol(listener_name) != SASL_PLAINTEXT:
        return None
    if config.sasl_users_file is None:
        raise ConfigError(f"listener {listener_name} is {SASL_PLAINTEXT}: sasl.plain.users.file is missing")
    try:
        return parse_users(_read("sasl.plain.users.file", config.sasl_users_file))
    except UsersSyntaxError as error:
        raise ConfigError(f"sasl.plain.users.file={config.sasl_users_file}: {error}") from error


def _own(config: NodeConfig) -> tuple[str, str] | None:
    if config.sasl_username is None or config.sasl_password_file is None:
        return None
    password = _read("sasl.password.file", config.sasl_password_file).rstrip("\r\n")
    if not password:
        raise ConfigError(
            f"sasl.password.file={config.sasl_password_file}: expected a password, the file is empty"
        )
    return config.sasl_username, password


def _read(setting: str, file: Path, *, is_secret: bool = True) -> str:
    try:
        return read_setting_file(setting, file, is_secret=is_secret)
    except SettingFileError as error:
        raise ConfigError(str(error)) from error
