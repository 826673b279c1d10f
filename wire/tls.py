"""TLS: contexts made of PEM files, and made again for new connections when a file has changed.

Files       keys and certificates as Kafka's properties name them. What holds a private key must be its
            owner's alone. No error names a byte of it.
Changed     files are looked at when a connection is made, and while one is open whose certificate counts,
            every LOOK_S. What two looks in a row find the same is no longer being written: contexts are
            replaced together, if all files are sound; else the file is named in the log and the contexts
            stay. Connections whose authority is trusted no more are closed then (tls_peers.py): of clients,
            brokers, controllers and voters alike.
Peers       a client verifies the chain and the name of each server; a server what ``ClientAuth`` says. Each
            certificate of the trusted ones ends a chain, an intermediate authority's too, as in Java.
            TLS 1.2 and 1.3, without renegotiation.
Source      Kafka SslConfigs, DefaultSslEngineFactory.
"""

import asyncio
import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from structlog.typing import FilteringBoundLogger

from fencepost.wire.principals import PrincipalRules
from fencepost.wire.setting_files import SettingFileError, read_setting_file
from fencepost.wire.tls_peers import TlsPeers, authorities_of, ends_early

LOOK_S: Final = 1.0
ClientAuth: TypeAlias = Literal["none", "requested", "required"]
_VERIFIED: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_KEY_STORE: Final = "ssl.keystore.location"
_TRUST_STORE: Final = "ssl.truststore.location"


class TlsError(ValueError):
    """Keys or certificates cannot be used. Says the setting, the file and what is expected; no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Where keys and certificates are, as Kafka's properties name them, and what is verified of a peer.

    A file, or the PEM text itself. Without a key this side shows no certificate; without ``trusted`` the
    system's authorities are trusted.
    """

    key_file: Path | None = None  # the private key and its chain, the own certificate first
    key: str | None = field(default=None, repr=False)
    chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    trusted_file: Path | None = None
    trusted: str | None = field(default=None, repr=False)
    client_auth: ClientAuth = "none"
    verifies_host: bool = True
    rules: PrincipalRules = field(default_factory=PrincipalRules)

    @property
    def has_key(self) -> bool:
        """Whether this side can show a certificate."""
        return self.key_file is not None or self.key is not None

    @property
    def has_trusted(self) -> bool:
        """Whether it says which authorities are trusted."""
        return self.trusted_file is not None or self.trusted is not None


class Tls:
    """The contexts of one node or client. Raises TlsError if they cannot be made."""

    def __init__(
        self,
        settings: TlsSettings,
        log: FilteringBoundLogger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._seen = self._found = self._signature()
        self._contexts = _contexts(settings)
        self._trusted = _trusted(settings)
        self._peers = TlsPeers()
        self._looked_s = clock()
        self._watched_by: asyncio.AbstractEventLoop | None = None  # it has a timer for the next look

    def client(self) -> ssl.SSLContext:
        """For a connection that this side dials."""
        self._look()
        return self._contexts["client"]

    def server(self, client_auth: ClientAuth) -> ssl.SSLContext:
        """For a connection that this side accepts. Only with a key."""
        self._look()
        return self._contexts[client_auth]

    def keep(self, transport: asyncio.BaseTransport) -> None:
        """A connection after its handshake: it is closed when its authority is trusted no more.

        At once if that happened during the handshake, whose context is that of its begin.
        """
        context = transport.get_extra_info("ssl_object").context
        is_late = self.settings.has_trusted and context not in self._contexts.values()
        self._peers.add(transport, self._trusted if is_late else None)
        loop = asyncio.get_running_loop()
        if len(self._peers) and self._watched_by is not loop:
            self._watch(loop)

    def look(self) -> None:
        """Look for changed files, if it is time. To be called every second or so."""
        self._look()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look now, and again while there is a connection to look for: no listener may do so."""
        self._look()
        self._watched_by = loop if len(self._peers) else None
        if self._watched_by is not None:
            loop.call_later(LOOK_S, self._watch, loop)

    def _look(self) -> None:
        now_s = self._clock()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        self._peers.forget_closed()
        before, self._found = self._found, self._signature()
        if self._found == self._seen or self._found != before:
            return  # a file that is being written is read by the next look
        self._seen = self._found
        try:
            contexts, trusted = _contexts(self.settings), _trusted(self.settings)
        except TlsError as error:
            if self._log is not None:
                self._log.error(
                    "tls_files_refused", reason=str(error), next="the last sound ones stay in use"
                )
            return
        closed = self._peers.close_others(trusted) if self._trusted - trusted else 0
        self._contexts, self._trusted = contexts, trusted
        if self._log is not None:
            files = ", ".join(str(each) for each in self._files())
            self._log.info("tls_files_read", files=files, connections_closed=closed)

    def _files(self) -> list[Path]:
        return [each for each in (self.settings.key_file, self.settings.trusted_file) if each is not None]

    def _signature(self) -> list[tuple[int, int, int] | None]:
        """What changes when a file is written or replaced."""
        found: list[tuple[int, int, int] | None] = []
        for file in self._files():
            try:
                status = file.stat()
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append(None)
        return found


def _contexts(settings: TlsSettings) -> dict[str, ssl.SSLContext]:
    """The client's context, and a server's for each ClientAuth it can have. Raises TlsError."""
    found = {"client": _context(settings, ssl.PROTOCOL_TLS_CLIENT)}
    found["client"].check_hostname = settings.verifies_host
    if not settings.has_trusted:
        found["client"].load_default_certs()
    if settings.has_key:
        for client_auth, verified in _VERIFIED.items():
            if client_auth == "none" or settings.has_trusted:
                found[client_auth] = _context(settings, ssl.PROTOCOL_TLS_SERVER)
                found[client_auth].verify_mode = verified
    return found


def _context(settings: TlsSettings, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.has_trusted:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_trusted(context, settings)
    if settings.has_key:
        _load_key(context, settings)
    return context


def _trusted_text(settings: TlsSettings) -> str:
    if settings.trusted_file is not None:
        return _read(_TRUST_STORE, settings.trusted_file, is_secret=False)
    return settings.trusted or ""


def _trusted(settings: TlsSettings) -> frozenset[bytes]:
    """The authorities that are named; none where they are the system's, which do not change."""
    return authorities_of(_trusted_text(settings))


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings) -> None:
    named = "ssl.truststore.certificates"
    if settings.trusted_file is not None:
        named = f"{_TRUST_STORE}={settings.trusted_file}"
    text = _trusted_text(settings)
    if ends_early(text):  # OpenSSL passes over a certificate that has just begun
        raise TlsError(f"{named}: a certificate in it has no end")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(f"{named}: expected certificates of authorities in PEM") from error


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    named = "ssl.keystore.key and ssl.keystore.certificate.chain"
    text = f"{settings.key}\n{settings.chain}\n"
    if settings.key_file is not None:
        named = f"{_KEY_STORE}={settings.key_file}"
        text = _read(_KEY_STORE, settings.key_file, is_secret=True)
    for label, what in (("PRIVATE KEY-----", "a private key"), ("BEGIN CERTIFICATE-----", "a certificate")):
        if label not in text:
            raise TlsError(f"{named}: expected {what} in PEM")
    password = settings.key_password or ""  # never None: OpenSSL would ask on the terminal
    try:
        with _as_file(text) as file:
            context.load_cert_chain(file, password=lambda: password)
    except ssl.SSLError as error:
        raise TlsError(f"{named}: {_why(error, has_password=bool(password))}") from None
    except (OSError, ValueError) as error:
        raise TlsError(f"{named}: cannot be used: {type(error).__name__}") from None


def _why(error: ssl.SSLError, *, has_password: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the first certificate"
    if has_password:
        return "the key or a certificate is damaged, or ssl.key.password is wrong"
    return "the key or a certificate is damaged, or the key is encrypted and ssl.key.password is missing"


def _read(setting: str, file: Path, *, is_secret: bool) -> str:
    try:
        return read_setting_file(setting, file, is_secret=is_secret)
    except SettingFileError as error:
        raise TlsError(str(error)) from error


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A name for text that the ssl module reads from files alone: in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fencepost")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # of mode 0600
        file.write(text.encode())
        file.flush()
        yield file.name


def why_refused(error: ssl.SSLError) -> str:
    """In words, why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message.rstrip('.')}"
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it shows no certificate (ssl.client.auth=required)"
    return f"TLS: {reason.lower().replace('_', ' ')}"
