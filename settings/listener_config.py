"""The settings of listeners: where a node listens, what it says its addresses are, and how it is spoken to.

Names       a listener of ``controller.listener.names`` serves the controllers' APIs, any other one clients.
Protocol    by ``listener.security.protocol.map``, or by a name that is a protocol's. Any other is PLAINTEXT,
            as in earlier versions; where there are several client listeners, each must have a protocol.
Safety      a listener that others than this host reach, and that asks no one who it is, is refused.
Own         what a listener has of its own (overrides.py) counts where this node accepts connections, and
            where it dials the same listener of others. Voters' links are as the controllers' listener.
Source      Kafka SocketServerConfigs, KafkaConfig.validateValues. Kafka also wants a port of its own for each
            listener; here an address of its own is enough.
"""

import copy
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from fencepost.records.types import NodeId
from fencepost.settings.config_values import (
    ADVERTISED,
    BOOLEAN,
    CONTROLLER_LISTENER,
    INT32_MAX,
    LISTENER,
    LISTENER_NAME,
    PLAINTEXT,
    PROTOCOL,
    SASL_PLAINTEXT,
    SASL_SSL,
    SECURITY_PROTOCOLS,
    SSL,
    Address,
    Kind,
    ListenerAddress,
    choice,
    integer,
    keyed,
    list_of,
)
from fencepost.settings.overrides import PREFIX, Override
from fencepost.settings.sasl_config import SaslConfig, checks_of_sasl
from fencepost.settings.tls_config import checks_of_tls
from fencepost.wire.tls import ClientAuth

CLIENT_LISTENERS_MAX: Final = 16  # what a registration of a broker may have
LINKS: Final = "the links of voters"

_EACH_BY_ITS_KEY: Final = Kind("the name of a listener and a setting after it", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig(SaslConfig):  # a class with slots inherits from one such class alone
    """Who a node is, and where it is reached."""

    node_id: NodeId = field(metadata=keyed("node.id", integer(0, INT32_MAX)))
    roles: tuple[str, ...] = field(metadata=keyed("process.roles", list_of(choice("controller", "broker"))))
    listeners: tuple[ListenerAddress, ...] = field(metadata=keyed("listeners", list_of(LISTENER)))
    advertised: tuple[ListenerAddress, ...] = field(  # of a listener that is not named: where it listens
        default=(), metadata=keyed("advertised.listeners", list_of(ADVERTISED))
    )
    security_protocols: tuple[tuple[str, str], ...] = field(
        default=((CONTROLLER_LISTENER, PLAINTEXT), (PLAINTEXT, PLAINTEXT)),
        metadata=keyed("listener.security.protocol.map", list_of(PROTOCOL)),
    )
    inter_broker_name: str | None = field(  # None: the only client listener, or the one named PLAINTEXT
        default=None, metadata=keyed("inter.broker.listener.name", LISTENER_NAME)
    )
    controller_names: tuple[str, ...] = field(  # the first is the one that nodes use
        default=(CONTROLLER_LISTENER,), metadata=keyed("controller.listener.names", list_of(LISTENER_NAME))
    )
    allow_insecure: bool = field(default=False, metadata=keyed("fencepost.allow.insecure.listeners", BOOLEAN))
    overrides: tuple[Override, ...] = field(  # repr: it may have secrets
        default=(), repr=False, metadata=keyed(PREFIX, _EACH_BY_ITS_KEY)
    )

    @property
    def is_controller(self) -> bool:
        """Whether this node is a voter of the quorum."""
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        """Whether this node serves clients."""
        return "broker" in self.roles

    @property
    def controller_listeners(self) -> tuple[ListenerAddress, ...]:
        """Where the controller APIs are served: in the order of ``controller.listener.names``."""
        by_name = {each.name: each for each in self.listeners}
        return tuple(by_name[name] for name in self.controller_names if name in by_name)

    @property
    def controller_listener(self) -> ListenerAddress | None:
        """The controller listener that other nodes use; None without the controller role."""
        return next(iter(self.controller_listeners), None)

    @property
    def client_listeners(self) -> tuple[ListenerAddress, ...]:
        """Where clients are served, the inter-broker listener first; none without the broker role."""
        clients = [each for each in self.listeners if each.name not in self.controller_names]
        first = self.inter_broker_name or PLAINTEXT
        return tuple(sorted(clients, key=lambda each: each.name != first))

    @property
    def client_listener(self) -> ListenerAddress | None:
        """The client listener that other nodes use, too; None without the broker role."""
        return next(iter(self.client_listeners), None)

    def advertised_address(self, name: str) -> Address:
        """Where others reach a listener of this node."""
        found = {each.name: each.address for each in (*self.listeners, *self.advertised)}
        return found[name]

    def security_protocol(self, listener_name: str) -> str:
        """How the listener of that name is spoken to: one of Kafka's security protocols."""
        own = listener_name if listener_name in SECURITY_PROTOCOLS else PLAINTEXT
        return dict(self.security_protocols).get(listener_name, own)

    def overrides_of(self, listener_name: str) -> tuple[Override, ...]:
        """What the listener of that name has of its own."""
        return tuple(each for each in self.overrides if each.listener == listener_name)

    def of(self, listener_name: str) -> Self:
        """The configuration as the listener of that name reads it: what it has of its own is in its place."""
        own = [each for each in self.overrides_of(listener_name) if not each.mechanism]
        if not own:
            return self
        found = copy.copy(self)
        for each in own:
            object.__setattr__(found, each.setting, each.value)
        return found

    @property
    def listeners_of_settings(self) -> tuple[str, ...]:
        """The listeners that have settings of their own, and "" for all other ones."""
        return ("", *dict.fromkeys(each.listener for each in self.overrides))

    def client_auth(self, listener_name: str) -> ClientAuth:
        """Whether clients show certificates. By SASL_SSL they do only if that listener says so (KIP-684)."""
        is_own = any(each.setting == "ssl_client_auth" for each in self.overrides_of(listener_name))
        found: ClientAuth = self.of(listener_name).ssl_client_auth
        return found if is_own or not self.logs_in(listener_name) else "none"

    def logs_in(self, listener_name: str) -> bool:
        """Whether clients of the listener of that name log in by SASL."""
        return self.security_protocol(listener_name).startswith("SASL_")

    def uses_tls(self, listener_name: str) -> bool:
        """Whether the listener of that name, of this node or of others, is spoken to by TLS."""
        return self.security_protocol(listener_name) in (SSL, SASL_SSL)

    @property
    def logs_in_at_controllers(self) -> bool:
        """Whether the controllers want a login. A broker alone may have no protocol of theirs in its file."""
        protocol = self.security_protocol(self.controller_names[0])
        return protocol.startswith("SASL_") or (protocol == PLAINTEXT and not self.is_controller)

    @property
    def links_use_tls(self) -> bool:
        """Whether voters' links use TLS: as the controllers' listener does, which in Kafka is the same."""
        return self.uses_tls(self.controller_names[0])

    @property
    def tls_uses(self) -> dict[str, list[str]]:
        """The listeners that need a key, and what else of this node does, in words.

        By the listener whose settings those are, if it has any of its own; the others are under "".
        """
        found: dict[str, list[str]] = {"": []}
        names = [(each.name, each.name) for each in self.listeners if self.uses_tls(each.name)]
        links = [(self.controller_names[0], LINKS)] if self.is_controller and self.links_use_tls else []
        for name, named in (*names, *links):
            found.setdefault(name if self.overrides_of(name) else "", []).append(named)
        return found


def is_loopback(address: Address) -> bool:
    """Whether only this host reaches an address. Of a name that is resolved elsewhere, no one knows."""
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:  # a name, or nothing: every interface
        return False


def is_wildcard(address: Address) -> bool:
    """Whether an address stands for every interface, so that none can connect to it from elsewhere."""
    return address.host in ("", "0.0.0.0", "::")  # noqa: S104


def checks_of_listeners(config: ListenerConfig) -> Iterator[tuple[bool, str]]:
    """What must hold between listeners, with the complaint if it does not."""
    names = [each.name for each in config.listeners]
    clients = [name for name in names if name not in config.controller_names]
    advertised = [each.name for each in config.advertised]
    wanted = "/".join(config.controller_names)
    yield bool(config.roles), "process.roles: expected controller, broker or both; got none"
    yield bool(config.controller_names), "controller.listener.names: expected at least one name"
    yield len(set(names)) == len(names), "listeners: a name is there twice"
    for each in config.listeners:
        yield _is_authenticated(config, each), _insecure(config, each)
    yield (
        config.is_controller == bool(config.controller_listeners),
        f"listeners: a {wanted} listener is needed with the controller role, and only with it",
    )
    yield (
        bool(clients) == config.is_broker and len(clients) <= CLIENT_LISTENERS_MAX,
        (
            f"listeners: expected at least one client listener with the broker role (at most "
            f"{CLIENT_LISTENERS_MAX}), none without; got {clients}"
        ),
    )
    yield len(set(advertised)) == len(advertised), "advertised.listeners: a name is there twice"
    extra = sorted(set(advertised) - set(names))
    yield not extra, f"advertised.listeners: {', '.join(extra)} is not among listeners, {', '.join(names)}"
    for name in names:
        yield (
            not is_wildcard(config.advertised_address(name)),
            (
                f"advertised.listeners: expected {name}://HOST:PORT, an address that others connect to: "
                f"{name} listens on every interface"
            ),
        )
    yield from _checks_of_names(config, clients)
    yield from _checks_of_overrides(config)
    for name, uses in config.tls_uses.items():
        yield from checks_of_tls(config.of(name), uses, mutual=LINKS in uses)
    for name in ("", *names):
        named = f"{PREFIX}{name.lower()}." if config.overrides_of(name) else ""
        yield from checks_of_sasl(config.of(name), named, is_served=bool(name) and config.logs_in(name))


def _checks_of_overrides(config: ListenerConfig) -> Iterator[tuple[bool, str]]:
    between = config.inter_broker_name
    known = {
        *config.controller_names,
        *(each.name for each in config.listeners),
        *([between] if between else []),
    }
    for each in config.overrides:
        yield (
            each.listener in known,
            f"{each.prefix}...: there is no listener {each.listener}, only {', '.join(sorted(known))}",
        )


def _checks_of_names(config: ListenerConfig, clients: list[str]) -> Iterator[tuple[bool, str]]:
    known = dict(config.security_protocols)
    choices = ", ".join(clients)
    between = config.inter_broker_name
    yield (
        between is None or between in clients or not config.is_broker,
        f"inter.broker.listener.name={between}: expected a client listener of this node: {choices}",
    )
    yield (
        len(clients) <= 1 or between is not None or PLAINTEXT in clients,
        f"inter.broker.listener.name is missing: which of {choices} do brokers use among themselves?",
    )
    for name in clients if len(clients) > 1 else ():
        yield (
            name in known or name in SECURITY_PROTOCOLS,
            f"listener.security.protocol.map: no security protocol is given for listener {name}",
        )


def _is_authenticated(config: ListenerConfig, listener: ListenerAddress) -> bool:
    """Only this host reaches it, or clients say safely who they are; or the operator wants it so."""
    protocol = config.security_protocol(listener.name)
    is_safe = protocol == SASL_SSL or (protocol == SSL and config.client_auth(listener.name) == "required")
    return is_safe or config.allow_insecure or is_loopback(listener.address)


def _insecure(config: ListenerConfig, listener: ListenerAddress) -> str:
    protocol = config.security_protocol(listener.name)
    why = "passwords go over it in the clear" if protocol == SASL_PLAINTEXT else "it asks no one who they are"
    return (
        f"listeners: {listener.name} ({protocol}) listens on {listener.address}, which others than this host "
        f"may reach, and {why}: use SASL_SSL, or SSL with ssl.client.auth=required, or a loopback address; "
        "or fencepost.allow.insecure.listeners=true if "
        "everyone who can connect may read and change everything"
    )
