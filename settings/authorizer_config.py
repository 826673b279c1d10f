"""The settings of authorization, a part of every node's configuration (config.py).

Spelling    Kafka's names where Kafka has the setting.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.settings.config_values import BOOLEAN, PATH, PRINCIPAL, choice, keyed, list_of
from fencepost.settings.listener_config import ListenerConfig

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_ONE_OF_THEM: Final = (
    "authorizer.class.name and authorizer.acls.file: expected one of them; with the class, ACLs are added by "
    "'fencepost acls add' and kafka-acls"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfig(ListenerConfig):
    """What of a node's configuration says who may do what."""

    authorizer_class: str | None = field(
        default=None, metadata=keyed("authorizer.class.name", choice(STANDARD_AUTHORIZER))
    )
    allow_if_no_acl: bool = field(default=False, metadata=keyed("allow.everyone.if.no.acl.found", BOOLEAN))
    acls_file: Path | None = field(default=None, metadata=keyed("authorizer.acls.file", PATH))
    super_users: tuple[str, ...] = field(
        default=(), metadata=keyed("super.users", list_of(PRINCIPAL, separator=";"))
    )

    authorizer_log_file: Path | None = field(
        default=None, metadata=keyed("fencepost.authorizer.log.file", PATH)
    )

    @property
    def has_authorizer(self) -> bool:
        """ACLs of the metadata log decide, on every listener."""
        return self.authorizer_class is not None


def checks_of_authorizer(config: AuthorizerConfig) -> Iterator[tuple[bool, str]]:
    """What must hold between these settings, with the complaint if it does not."""
    yield not (config.has_authorizer and config.acls_file), _ONE_OF_THEM
    yield (
        config.has_authorizer or not config.allow_if_no_acl,
        "allow.everyone.if.no.acl.found means something with authorizer.class.name alone",
    )
    yield (
        config.has_authorizer or config.authorizer_log_file is None,
        "fencepost.authorizer.log.file means something with authorizer.class.name alone",
    )
