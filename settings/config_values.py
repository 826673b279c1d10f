"""The values of settings: how each sort is written in a properties file, read and refused.

Inverse     ``kind.parse(kind.render(value)) == value``. ``parse`` raises ValueError; config.py says where.
"""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.records.types import NodeId

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The listener that serves the controller APIs. Every other name is a client listener."""

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 24 * 3_600_000
REPLICATION_FACTOR_MAX: Final = 2**15 - 1  # an int16 on the wire
ITEMS_MAX: Final = 1_000  # of a list in one value


class Address(NamedTuple):
    """Where a socket listens or is reached: a loopback host (until there is TLS) and a port."""

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
    """Read ``host:port`` or ``[ipv6]:port``. Raises ValueError unless loopback, port 1 .. 65535."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    ensure(colon == ":" and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535)
    ensure(host == "localhost" or ipaddress.ip_address(host).is_loopback)
    return Address(host, int(port))


def _parse_voter(text: str) -> Voter:
    node_id, at, address = text.partition("@")
    ensure(at == "@" and node_id.isascii() and node_id.isdigit() and int(node_id) <= INT32_MAX)
    return Voter(NodeId(int(node_id)), parse_address(address))


def _parse_listener(text: str) -> ListenerAddress:
    name, separator, address = text.partition("://")
    ensure(bool(separator) and name.replace("_", "").isalnum() and name == name.upper())
    return ListenerAddress(name, parse_address(address))


def _parse_protocol(text: str) -> tuple[str, str]:
    name, colon, protocol = text.partition(":")
    ensure(bool(name) and colon == ":" and protocol in (PLAINTEXT, SASL_PLAINTEXT))
    return name, protocol


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
ADDRESS: Final = Kind("host:port, the host on the loopback interface", parse_address)
VOTER: Final = Kind("ID@host:port, the host on the loopback interface", _parse_voter, "{0[0]}@{0[1]}".format)
LISTENER: Final = Kind(
    "NAME://host:port, the host on the loopback interface", _parse_listener, "{0[0]}://{0[1]}".format
)
PROTOCOL: Final = Kind(f"NAME:{PLAINTEXT} or NAME:{SASL_PLAINTEXT}", _parse_protocol, ":".join)
PRINCIPAL: Final = Kind("User:NAME", _parse_principal)
MILLISECONDS: Final = integer(1, INT32_MAX)
BYTES: Final = integer(0, INT64_MAX)
