"""The properties file of ``--command-config``: how a command reaches a cluster, by Kafka's names.

Keys        ``security.protocol``, ``ssl.*``, and for a login ``sasl.mechanism`` and ``sasl.username`` with
            ``sasl.password`` or ``sasl.password.file``, or ``sasl.jaas.config``. Others are left aside.
Node        a node's own file will do: it says what the node uses towards the controllers.
Secrets     a file that holds one must be its owner's alone. No message names one.
"""

import re
from dataclasses import fields
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.config_values import PLAINTEXT, SASL_PLAINTEXT, SECURITY_PROTOCOLS
from fencepost.settings.properties import logical_lines, parse_properties, parse_value
from fencepost.settings.tls_config import TlsConfig
from fencepost.wire.auth import Login
from fencepost.wire.scram import SCRAM_MECHANISMS
from fencepost.wire.setting_files import SettingFileError, read_setting_file, require_private
from fencepost.wire.tls import Tls, TlsError, TlsSettings

MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS)
_JAAS: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_SECRET_KEYS: Final = ("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key")


class Access(NamedTuple):
    """How a cluster is reached: user and password, if it wants a login; keys and authorities, if by TLS."""

    sasl: Login | None = None
    tls: Tls | None = None


def read_access(file: Path) -> Access:
    """What a ``--command-config`` says. Raises WrongUsage or Unreadable."""
    try:
        text = read_setting_file("--command-config", file, is_secret=False)
        pairs = _pairs(text)
        if any(key in pairs for key in _SECRET_KEYS):
            require_private("--command-config", file)
        if "process.roles" in pairs:
            return access_of(parse_properties(text, file.absolute()), to_brokers=False)
        return _access(pairs, file)
    except (SettingFileError, TlsError) as error:
        raise Unreadable(str(error)) from error
    except ConfigError as error:
        raise WrongUsage(str(error)) from error


def access_of(config: NodeConfig, *, to_brokers: bool) -> Access:
    """How a node itself reaches the controllers, or the brokers. Raises Unreadable."""
    listener = config.client_listener
    name = listener.name if to_brokers and listener is not None else config.controller_names[0]
    sasl = None
    try:
        wants_login = config.logs_in(name)
        if wants_login or (name == config.controller_names[0] and config.logs_in_at_controllers):
            if config.sasl_username is not None and config.sasl_password_file is not None:
                password = _password(config.sasl_password_file)
                sasl = Login(config.sasl_username, password, config.sasl_mechanism_of_nodes)
        return Access(sasl, Tls(config.of(name).tls_settings) if config.uses_tls(name) else None)
    except (SettingFileError, TlsError) as error:
        raise Unreadable(str(error)) from error


def _access(pairs: dict[str, str], file: Path) -> Access:
    sasl = _login(pairs, file)
    protocol = pairs.get("security.protocol", PLAINTEXT if sasl is None else SASL_PLAINTEXT)
    if protocol not in SECURITY_PROTOCOLS:
        raise WrongUsage(
            f"{file}: security.protocol: expected one of {', '.join(SECURITY_PROTOCOLS)}; "
            f"got {protocol[:50]!r}"
        )
    if not protocol.startswith("SASL_"):
        sasl = None
    elif sasl is None:
        raise WrongUsage(
            f"{file}: {protocol}: expected sasl.username and sasl.password.file (or sasl.password), "
            "or sasl.jaas.config with username and password"
        )
    return Access(sasl, Tls(_tls_settings(pairs, file)) if protocol.endswith("SSL") else None)


def _login(pairs: dict[str, str], file: Path) -> Login | None:
    mechanism = pairs.get("sasl.mechanism", MECHANISMS[0])
    if mechanism not in MECHANISMS:
        raise WrongUsage(
            f"{file}: sasl.mechanism: expected one of {', '.join(MECHANISMS)}; got {mechanism!r}"
        )
    if "sasl.jaas.config" in pairs:
        found = {
            key: re.sub(r"\\(.)", r"\1", value) for key, value in _JAAS.findall(pairs["sasl.jaas.config"])
        }
        if len(found) < 2:
            raise WrongUsage(f'{file}: sasl.jaas.config: expected username="..." and password="..."')
        return Login(found["username"], found["password"], mechanism)
    user = pairs.get("sasl.username", "")
    if not user:
        return None
    if "sasl.password" in pairs:
        return Login(user, pairs["sasl.password"], mechanism)
    if "sasl.password.file" not in pairs:
        raise WrongUsage(f"{file}: sasl.username: expected sasl.password.file or sasl.password, too")
    return Login(user, _password(file.absolute().parent / pairs["sasl.password.file"]), mechanism)


def _tls_settings(pairs: dict[str, str], file: Path) -> TlsSettings:
    """Raises ConfigError."""
    values = {
        each.name: parse_value(
            each.metadata["kind"], pairs[each.metadata["key"]], f"{file}: {each.metadata['key']}", file.parent
        )
        for each in fields(TlsConfig)
        if each.name.startswith("ssl_") and each.metadata["key"] in pairs
    }
    for kind in ("keystore", "truststore"):
        if any(key.startswith(f"ssl.{kind}.") for key in pairs) and f"ssl.{kind}.type" not in pairs:
            raise WrongUsage(
                f"{file}: ssl.{kind}.type is missing: expected PEM (JKS and PKCS12 are not read)"
            )
    return TlsConfig(**values).tls_settings


def _pairs(text: str) -> dict[str, str]:
    lines = (line.strip() for _number, line in logical_lines(text))
    split = (line.partition("=") for line in lines if line and line[0] not in "#!" and "=" in line)
    return {key.strip(): value.strip() for key, _equals, value in split}


def _password(file: Path) -> str:
    return read_setting_file("sasl.password.file", file, is_secret=True).strip()
