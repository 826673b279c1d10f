"""The settings of logins, a part of every node's configuration (config.py)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.settings.config_values import INT32_MAX, PATH, TEXT, choice, integer, keyed, list_of
from fencepost.settings.tls_config import TlsConfig
from fencepost.wire.scram import SCRAM_MECHANISMS


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig(TlsConfig):  # a class with slots inherits from one such class alone
    """What of a node's configuration concerns logins by SASL."""

    sasl_users_file: Path | None = field(default=None, metadata=keyed("sasl.plain.users.file", PATH))
    sasl_mechanisms: tuple[str, ...] = field(
        default=("PLAIN",),
        metadata=keyed("sasl.enabled.mechanisms", list_of(choice("PLAIN", *SCRAM_MECHANISMS))),
    )
    sasl_mechanism_of_nodes: str = field(  # of this node's own login
        default="PLAIN",
        metadata=keyed("sasl.mechanism.inter.broker.protocol", choice("PLAIN", *SCRAM_MECHANISMS)),
    )
    sasl_username: str | None = field(default=None, metadata=keyed("sasl.username", TEXT))
    sasl_password_file: Path | None = field(default=None, metadata=keyed("sasl.password.file", PATH))
    reauth_ms_max: int = field(default=0, metadata=keyed("connections.max.reauth.ms", integer(0, INT32_MAX)))


def checks_of_sasl(config: SaslConfig, named: str, *, is_served: bool) -> Iterator[tuple[bool, str]]:
    """What must hold of a listener's logins, with the complaint. ``named``: how the listener begins a key."""
    yield bool(config.sasl_mechanisms), f"{named}sasl.enabled.mechanisms: expected at least one"
    yield (
        not is_served or config.sasl_users_file is not None or "PLAIN" not in config.sasl_mechanisms,
        f"{named}sasl.plain.users.file: a listener with SASL PLAIN needs the users' passwords",
    )
