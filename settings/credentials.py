"""What a node reads from the files that its configuration names: secret, ACLs, users, its own password.

Read        once, when the node starts, for each of its roles.
Errors      say the setting, the file, and what is expected in it. No secret reaches a message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from fencepost.controller.authorization import Acls, AclSyntaxError
from fencepost.settings.config import EVERY_NODE_PROVES, PLAINTEXT, ConfigError, NodeConfig
from fencepost.wire.auth import Login, Logins, UsersSyntaxError, parse_users
from fencepost.wire.scram import Recorded
from fencepost.wire.secret_proof import ClusterSecret, parse_secrets
from fencepost.wire.setting_files import SettingFileError, read_setting_file
from fencepost.wire.tls import Tls, TlsError


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of a node's files, in the shapes that its roles use."""

    secret: ClusterSecret
    acls: Acls
    own: Login | None = field(repr=False)
    """User and password with which the node logs in at controllers; None: it does not."""
    own_for_brokers: Login | None = field(repr=False)
    """The same for the brokers' client listeners; None where they want no login."""
    tls: Tls | None
    """The node's key, certificate and trusted authorities; None: it has none."""
    tls_of: Mapping[str, Tls | None]
    """Those of each listener, which are the node's unless it has its own."""
    tls_for_controllers: Tls | None
    """Those of the controllers' listener if it is spoken to by TLS, and with it Raft's links."""
    tls_for_brokers: Tls | None
    """Those of the listener that brokers use among themselves if that is spoken to by TLS."""
    users: Mapping[str, Logins | None] = field(repr=False)
    """By the name of each listener of the node: who may log in there; None where no login is wanted."""

    def look_up_recorded(self, recorded: Recorded) -> None:
        """From now on users of the metadata log can log in by SCRAM, too."""
        for logins in self.users.values():
            if logins is not None and logins.scram is not None:
                logins.scram.recorded = recorded


def read_credentials(
    config: NodeConfig, cluster_id: str, log: FilteringBoundLogger | None = None
) -> Credentials:
    """Read every file that the configuration names. Raises ConfigError.

    ``log`` gets what is found of keys and certificates later.
    """
    own, made = _own(config), _MadeTls(log)
    client = config.client_listener
    wanted = client is None or config.security_protocol(client.name).startswith("SASL_")
    between = (config.inter_broker_name or PLAINTEXT) if client is None else client.name
    secret, second = _secrets(config)
    controllers = config.controller_names[0]
    logins: dict[tuple[object, ...], Logins] = {}

    def logins_of(name: str) -> Logins:
        of = config.of(name)
        key = (of.sasl_mechanisms, of.sasl_users_file)
        if key not in logins:
            logins[key] = _logins(of, secret)
        return logins[key]

    return Credentials(
        secret=ClusterSecret(secret=secret, second=second, cluster_id=cluster_id, node_id=config.node_id),
        acls=_acls(config),
        own=own if config.logs_in_at_controllers else None,
        own_for_brokers=own if wanted else None,
        tls=made.of(config),
        tls_of={each.name: made.of(config.of(each.name)) for each in config.listeners},
        tls_for_controllers=made.of(config.of(controllers), always=True) if config.links_use_tls else None,
        tls_for_brokers=made.of(config.of(between), always=True) if config.uses_tls(between) else None,
        users={
            each.name: logins_of(each.name) if config.logs_in(each.name) else None
            for each in config.listeners
        },
    )


def _secrets(config: NodeConfig) -> tuple[bytes, bytes | None]:
    if config.secret_file is None:
        raise ConfigError(EVERY_NODE_PROVES)
    text = _read("quorum.secret.file", config.secret_file)
    try:
        return parse_secrets(text)
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


def _logins(config: NodeConfig, secret: bytes) -> Logins:
    """The users of the SASL listeners with these settings."""
    if config.sasl_users_file is None:  # users are in the metadata log alone
        return Logins.of({}, config.sasl_mechanisms, secret)
    try:
        users = parse_users(_read("sasl.plain.users.file", config.sasl_users_file))
    except UsersSyntaxError as error:
        raise ConfigError(f"sasl.plain.users.file={config.sasl_users_file}: {error}") from error
    return Logins.of(users, config.sasl_mechanisms, secret)


class _MadeTls:
    """One Tls for equal settings, so that a file is looked at, and a connection closed, once."""

    def __init__(self, log: FilteringBoundLogger | None) -> None:
        self._log = log
        self._made: list[Tls] = []

    def of(self, config: NodeConfig, *, always: bool = False) -> Tls | None:
        """None where the settings name no key and no authority; ``always``: the system's will do then."""
        settings = config.tls_settings
        if not (settings.has_key or settings.has_trusted or always):
            return None
        found = next((each for each in self._made if each.settings == settings), None)
        if found is None:
            try:
                found = Tls(settings, self._log)
            except TlsError as error:
                raise ConfigError(str(error)) from error
            self._made.append(found)
        return found


def _own(config: NodeConfig) -> Login | None:
    if config.sasl_username is None or config.sasl_password_file is None:
        return None
    password = _read("sasl.password.file", config.sasl_password_file).rstrip("\r\n")
    if not password:
        raise ConfigError(
            f"sasl.password.file={config.sasl_password_file}: expected a password, the file is empty"
        )
    return Login(config.sasl_username, password, config.sasl_mechanism_of_nodes)


def _read(setting: str, file: Path, *, is_secret: bool = True) -> str:
    try:
        return read_setting_file(setting, file, is_secret=is_secret)
    except SettingFileError as error:
        raise ConfigError(str(error)) from error
