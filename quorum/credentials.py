"""What a node reads from the files its configuration names: secret, ACLs, users.

Each error says the setting, the file, and what is expected in it. No secret ever reaches a message.
"""

from pathlib import Path

from fencepost.controller.authorization import Acls, AclSyntaxError
from fencepost.quorum.config import SASL_PLAINTEXT, ConfigError, NodeConfig
from fencepost.quorum.config_checks import EVERY_NODE_PROVES
from fencepost.wire.auth import UsersSyntaxError, parse_users
from fencepost.wire.secret_proof import parse_secret
from fencepost.wire.setting_files import SettingFileError, read_setting_file


def read_secret(config: NodeConfig) -> bytes:
    """The cluster's secret. Raises ConfigError."""
    if config.secret_file is None:
        raise ConfigError(EVERY_NODE_PROVES)
    text = _read("quorum.secret.file", config.secret_file)
    try:
        return parse_secret(text)
    except ValueError as error:
        raise ConfigError(f"quorum.secret.file={config.secret_file}: {error}") from error


def read_acls(config: NodeConfig) -> Acls:
    """The authorizer; without a file every principal may do everything. Raises ConfigError."""
    if config.acls_file is None:
        return Acls(super_users=frozenset(config.super_users))
    try:
        return Acls.parse(
            _read("authorizer.acls.file", config.acls_file, is_secret=False), config.super_users
        )
    except AclSyntaxError as error:
        raise ConfigError(f"authorizer.acls.file={config.acls_file}: {error}") from error


def read_users(config: NodeConfig, listener_name: str) -> dict[str, str] | None:
    """User to password for a SASL listener, None for a plaintext one. Raises ConfigError."""
    if config.security_protocol(listener_name) != SASL_PLAINTEXT:
        return None
    if config.sasl_users_file is None:
        raise ConfigError(f"listener {listener_name} is {SASL_PLAINTEXT}: sasl.plain.users.file is missing")
    try:
        return parse_users(_read("sasl.plain.users.file", config.sasl_users_file))
    except UsersSyntaxError as error:
        raise ConfigError(f"sasl.plain.users.file={config.sasl_users_file}: {error}") from error


def read_own(config: NodeConfig) -> tuple[str, str] | None:
    """User and password for the brokers' client listeners; None: they want none. Raises ConfigError."""
    listener = config.client_listener
    wanted = listener is None or config.security_protocol(listener.name) == SASL_PLAINTEXT
    if not wanted or config.sasl_username is None or config.sasl_password_file is None:
        return None
    password = _read("sasl.password.file", config.sasl_password_file).rstrip("\r\n")
    if not password:
        raise ConfigError(f"sasl.password.file={config.sasl_password_file}: expected a password in it")
    return config.sasl_username, password


def _read(setting: str, file: Path, *, is_secret: bool = True) -> str:
    try:
        return read_setting_file(setting, file, is_secret=is_secret)
    except SettingFileError as error:
        raise ConfigError(str(error)) from error
