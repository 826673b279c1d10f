"""The values of settings: how each sort is written in a properties file, read and refused.

Inverse     ``kind.parse(kind.render(value)) == value``. ``parse`` raises ValueError; config.py says where.
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.records.types import NodeId

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
"""In the order of Kafka's numbers for them."""
CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The listener that serves the controller APIs, unless ``controller.listener.names`` says another."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 24 * 3_600_000
REPLICATION_FACTOR_MAX: Final = 2**15 - 1  # an int16 on the wire
ITEMS_MAX: Final = 1_000  # of a list in one value

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9.])?")
_HOST_OR_NONE: Final = re.compile(f"({_HOST.pattern})?")


class Address(NamedTuple):
    """Where a socket listens or is reached: a name or an IP address, and a port. Host "": every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Voter(NamedTuple):
    """A member of the quorum and the address of its Raft port."""

    node_id: NodeId
    address: Address


class ListenerAddress(NamedTuple):
    """A named listener, as in ``listeners=NAME://host:port``."""

    name: str
    address: Address


class Kind(NamedTuple):
    """How one sort of value is read and written. ``parse`` raises ValueError."""

    expected: str
    parse: Callable[[str], Any]
    render: Callable[[Any], str] = str
    is_secret: bool = False  # never shown, not even where it cannot be read


def keyed(key: str, kind: Kind) -> dict[str, Any]:
    """The metadata of a dataclass field that is a setting: its name in the file, and its sort of value."""
    return {"key": key, "kind": kind}


def ensure(holds: bool) -> None:
    """Raise ValueError unless ``holds``."""
    if not holds:
        raise ValueError


def integer(first: int, last: int) -> Kind:
    """From ``first`` to ``last``, both inclusive."""

    def parse(text: str) -> int:
        ensure(text.isascii() and text.lstrip("-").isdigit())
        ensure(first <= int(text) <= last)
        return int(text)

    return Kind(f"a whole number from {first} to {last}", parse)


def number(first: float, last: float) -> Kind:
    """From ``first`` to ``last``, both inclusive."""

    def parse(text: str) -> float:
        ensure(first <= float(text) <= last)  # also refuses nan
        return float(text)

    return Kind(f"a number from {first:g} to {last:g}", parse, repr)


def choice(*choices: str) -> Kind:
    """A setting whose value is one of these words."""

    def parse(text: str) -> str:
        ensure(text in choices)
        return text

    return Kind("one of " + ", ".join(choices), parse)


def list_of(kind: Kind, separator: str = ",", items_max: int = ITEMS_MAX) -> Kind:
    """Several, none twice; none at all is the empty text."""

    def parse(text: str) -> tuple[Any, ...]:
        items = tuple(kind.parse(item.strip()) for item in text.split(separator)) if text else ()
        ensure(len(items) <= items_max and len(set(items)) == len(items))
        return items

    def render(items: tuple[Any, ...]) -> str:
        return separator.join(kind.render(item) for item in items)

    return Kind(f"{kind.expected}; several with '{separator}' between, none twice", parse, render)


def parse_address(text: str) -> Address:
    """Read ``host:port`` or ``[ipv6]:port``; a name is looked up when it is used, each time.

    Raises ValueError unless host and port, 1 .. 65535, can be ones.
    """
    return _parse_endpoint(text, _HOST)


def _parse_endpoint(text: str, pattern: "re.Pattern[str]") -> Address:
    host, colon, port = text.rpartition(":")
    ensure(colon == ":" and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535)
    if host.startswith("[") or ":" in host:
        host = host.removeprefix("[").removesuffix("]")
        ensure(ipaddress.ip_address(host).version == 6)
    elif host.replace(".", "").isdigit():
        ensure(ipaddress.ip_address(host).version == 4)
    else:
        ensure(pattern.fullmatch(host) is not None)
    return Address(host, int(port))


def _parse_voter(text: str) -> Voter:
    node_id, at, address = text.partition("@")
    ensure(at == "@" and node_id.isascii() and node_id.isdigit() and int(node_id) <= INT32_MAX)
    return Voter(NodeId(int(node_id)), parse_address(address))


def _parse_listener_name(text: str) -> str:
    ensure(re.fullmatch(r"[A-Za-z0-9_-]{1,255}", text) is not None)
    return text.upper()  # as in Kafka, where case does not count


def _parse_listener(text: str) -> ListenerAddress:
    name, separator, address = text.partition("://")
    ensure(bool(separator))
    return ListenerAddress(_parse_listener_name(name), _parse_endpoint(address, _HOST_OR_NONE))


def _parse_advertised(text: str) -> ListenerAddress:
    found = _parse_listener(text)
    ensure(found.address.host not in ("", "0.0.0.0", "::"))  # noqa: S104
    return found


def _parse_protocol(text: str) -> tuple[str, str]:
    name, colon, protocol = text.partition(":")
    ensure(colon == ":" and protocol.strip() in SECURITY_PROTOCOLS)
    return _parse_listener_name(name.strip()), protocol.strip()


def _parse_principal(text: str) -> str:
    ensure(text.startswith("User:") and len(text) > len("User:"))
    return text


def _parse_text(text: str) -> str:
    ensure(text != "")
    return text


BOOLEAN: Final = Kind(
    "true or false",
    lambda text: {"true": True, "false": False}[choice("true", "false").parse(text)],
    lambda value: "true" if value else "false",
)
PORT: Final = integer(1, 65535)
PATH: Final = Kind("a path", lambda text: Path(_parse_text(text)))
TEXT: Final = Kind("some text", _parse_text)
HOST: Final = Kind("a name or an IP address", lambda text: _parse_endpoint(f"{text}:1", _HOST).host)
ADDRESS: Final = Kind("host:port or [IPv6]:port", parse_address)
VOTER: Final = Kind("ID@host:port or ID@[IPv6]:port", _parse_voter, "{0[0]}@{0[1]}".format)
LISTENER_NAME: Final = Kind("the name of a listener", _parse_listener_name)
LISTENER: Final = Kind("NAME://host:port or NAME://[IPv6]:port", _parse_listener, "{0[0]}://{0[1]}".format)
ADVERTISED: Final = Kind(
    "NAME://host:port or NAME://[IPv6]:port, an address that others connect to",
    _parse_advertised,
    "{0[0]}://{0[1]}".format,
)
PROTOCOL: Final = Kind("NAME:PROTOCOL, one of " + ", ".join(SECURITY_PROTOCOLS), _parse_protocol, ":".join)
PRINCIPAL: Final = Kind("User:NAME", _parse_principal)
MILLISECONDS: Final = integer(1, INT32_MAX)
BYTES: Final = integer(0, INT64_MAX)
