"""Connections whose other side showed a certificate: closed when its authority is trusted no more.

Anchor      the last certificate of the chain that was verified, which a file of authorities had. Another
            chain may lead to one that is still there: then the other side connects again, and is served.
Resumed     a session that is resumed has no chain: it is closed when any authority is removed. Its ticket is
            good for the context that gave it, so for no later one.
Time        a certificate that ends closes nothing, as in Kafka: it counts at a handshake, that of a session
            which is resumed included (tls_handshake.py).
"""

import asyncio
import re
import ssl
from typing import Any, Final

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_DER: Final = 2  # _ssl.ENCODING_DER
_UNKNOWN: Final = b""  # the anchor where there is no chain


def authorities_of(text: str) -> frozenset[bytes]:
    """The certificates of a PEM text, as DER."""
    return frozenset(ssl.PEM_cert_to_DER_cert(each) for each in _PEM.findall(text))


def ends_early(text: str) -> bool:
    """Whether a PEM text ends in the midst of a certificate."""
    rest = _PEM.sub("", text).rstrip()
    return "-----BEGIN" in rest or "-----END" in rest or rest.rpartition("\n")[2].startswith("--")


class TlsPeers:
    """Open connections, by transport. Those that closed meanwhile are forgotten at the next look."""

    def __init__(self) -> None:
        self._anchors: dict[asyncio.BaseTransport, bytes] = {}

    def __len__(self) -> int:
        return len(self._anchors)

    def add(self, transport: asyncio.BaseTransport, trusted: frozenset[bytes] | None) -> None:
        """A connection after its handshake, to be cut off if ``trusted`` has not its authority.

        None: that was seen to in the handshake. Nothing is verified of one that shows no certificate.
        """
        anchor = _anchor_of(transport.get_extra_info("ssl_object"))
        if anchor is None:
            return
        if trusted is not None and anchor not in trusted:
            _cut(transport)
            return
        self._anchors[transport] = anchor

    def forget_closed(self) -> None:
        """To be called now and then."""
        self._anchors = {each: anchor for each, anchor in self._anchors.items() if not each.is_closing()}

    def close_others(self, trusted: frozenset[bytes]) -> int:
        """Cut off those that none of these authorities vouches for. Returns their number."""
        self.forget_closed()
        others = [each for each, anchor in self._anchors.items() if anchor not in trusted]
        for each in others:
            del self._anchors[each]
            _cut(each)
        return len(others)


def _cut(transport: asyncio.BaseTransport) -> None:
    transport.abort()  # type: ignore[attr-defined]  # of any transport of a socket


def _anchor_of(shaken: ssl.SSLObject | None) -> bytes | None:
    if shaken is None or shaken.context.verify_mode == ssl.CERT_NONE or not shaken.getpeercert(True):
        return None
    public: Any = getattr(shaken, "get_verified_chain", None)  # Python 3.13
    if public is not None:
        shown = public()
        return bytes(shown[-1]) if shown else _UNKNOWN
    found: Any = getattr(getattr(shaken, "_sslobj", None), "get_verified_chain", None)
    chain = found() if found is not None else None
    return bytes(chain[-1].public_bytes(_DER)) if chain else _UNKNOWN
