"""The nodes that a command contacts, by address or by a local cluster's folder; refusals in words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.controller.errors import ApiError
from fencepost.settings.config_values import SASL_PLAINTEXT, Address, parse_address
from fencepost.wire.setting_files import SettingFileError, read_setting_file

TIMEOUT_SECONDS: Final = 10.0
TEMPORARY_ID_FIRST: Final = 1_000_000_000  # far above any broker's own id
TEMPORARY_ID_LAST: Final = 2**31 - 1
_CREDENTIAL_KEYS: Final = ("sasl.username", "sasl.password.file")


@dataclass(frozen=True, slots=True)
class Target:
    """Controllers or brokers that a command contacts. ``cluster`` is None if only addresses are known."""

    addresses: tuple[Address, ...]
    sasl: tuple[str, str] | None = None
    cluster: LocalCluster | None = None

    @property
    def name(self) -> str:
        """``host:port[,..]``, for messages; of brokers also what a client takes as ``bootstrap.servers``."""
        return ",".join(str(address) for address in self.addresses)


def target_at(option: str, text: str, sasl: tuple[str, str] | None) -> Target:
    """The target that an option such as ``--bootstrap-server`` names. Raises WrongUsage."""
    try:
        return Target(tuple(parse_address(each.strip()) for each in text.split(",")), sasl)
    except ValueError:
        raise WrongUsage(f"{option}: expected HOST:PORT[,..], got {text!r}") from None


def controllers_of(cluster: LocalCluster) -> Target:
    """The controllers of a local cluster, and the credentials of its brokers if it wants any."""
    for node in cluster.nodes:
        config = node.config
        listener = config.controller_listener
        if listener is None or config.security_protocol(listener.name) != SASL_PLAINTEXT:
            continue
        if config.sasl_username is not None and config.sasl_password_file is not None:
            password = _secret(config.sasl_password_file)
            return Target(cluster.controllers, (config.sasl_username, password), cluster)
    return Target(cluster.controllers, None, cluster)


def brokers_of(cluster: LocalCluster, sasl: tuple[str, str] | None = None) -> Target:
    """The brokers of a local cluster; with the nodes' own credentials if they want any and none are given."""
    listeners = [(node.config, node.config.client_listener) for node in cluster.nodes]
    there = [(config, listener) for config, listener in listeners if listener is not None]
    wants_sasl = any(config.security_protocol(each.name) == SASL_PLAINTEXT for config, each in there)
    own = controllers_of(cluster).sasl if wants_sasl else None
    addresses = tuple(config.advertised_address(each.name) for config, each in there)
    return Target(addresses, sasl or own, cluster)


def read_login(file: Path) -> tuple[str, str]:
    """User and password of a ``--command-config``. Raises WrongUsage or Unreadable."""
    pairs = dict(
        line.split("=", 1) for line in _read(file).splitlines() if "=" in line and line[0] not in "#!"
    )
    username, password_file = (pairs.get(key, "").strip() for key in _CREDENTIAL_KEYS)
    if not username or not password_file:
        raise WrongUsage(f"{file}: expected {' and '.join(_CREDENTIAL_KEYS)}")
    return username, _secret(file.absolute().parent / password_file)


def _secret(file: Path) -> str:
    try:
        return read_setting_file("sasl.password.file", file, is_secret=True).strip()
    except SettingFileError as error:
        raise Unreadable(str(error)) from error


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: {error}") from error


def sentence_of(error: ApiError) -> str:
    """A refusal in words: the other side's, else the name of its code."""
    text = str(error)
    return text if text and text != error.code.name else f"refused with {error.code.name} ({error.code})"


def hint_of(cluster: LocalCluster | None) -> str:
    """A line that names the nodes that do not run; empty if all do, or if that is unknown."""
    if cluster is None:
        return ""
    gone = [str(node.node_id) for node in cluster.nodes if node.status() != "running"]
    if not gone:
        return ""
    return f"\nNot running: node {', '.join(gone)}. Type: fencepost ps --dir {cluster.directory}"
