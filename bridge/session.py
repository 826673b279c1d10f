"""A session with a live ensemble, through kazoo: requests go out, answers come back to the loop.

kazoo      runs its own threads: one for the socket, one each for completions and watches. Only its ``_async``
           calls are made here, which queue a request; answers come back by ``call_soon_threadsafe``.
Bites      A request that waits while the connection is down is sent later, on the next connection; one that
           was sent may be done after its connection broke. So only the errors of ``DEFINITE`` say what
           became of a request; whatever else comes, and silence, is Unanswered.
           kazoo notices a server that is paused only while no request is under way, so a client that let a
           request time out is given up for a new one. Its thread can die of an answer that it does not
           know: then it is given up too. It calls itself connected before the login: here a connection
           counts when a first ``sync`` was answered on it.
           Its wake-up pipe would block the loop at some 270 unanswered requests: ``OUTSTANDING_MAX``.

Source     kazoo 2.11 client.py, connection.py.
"""

import asyncio
import contextlib
import importlib.util
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyCallError,
    QuotaExceededError,
    SASLException,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from structlog.typing import FilteringBoundLogger

from fencepost.bridge.access import Access, ZooKeeperRefused, ZooKeeperUnavailable

OUTSTANDING_MAX: Final = 128
RETIRED_MAX: Final = 4  # clients that were given up and are still closing
RECONNECT_S_MIN: Final = 0.05
RECONNECT_S_MAX: Final = 1.0
LOGIN_RETRY_S: Final = 5.0  # until then every request is refused at once

REFUSALS: Final = (NoAuthError, InvalidACLError, BadArgumentsError, NotReadOnlyCallError, QuotaExceededError)
LOGIN_REFUSALS: Final = (AuthFailedError, SASLException, SessionClosedRequireSaslError)
DEFINITE: Final = (BadVersionError, NodeExistsError, NoNodeError, *REFUSALS)


class Unanswered(Exception):
    """A request was queued, and nothing definite came of it."""


class _Client:
    """One kazoo client: it connects, connects again, and is given up once."""

    def __init__(
        self,
        access: Access,
        on_state: Callable[["_Client"], None],
        ended: Callable[["_Client", Exception], None],
    ) -> None:
        """``on_state`` and ``ended`` are called from kazoo's threads: its state changed, one of them died."""
        self.is_closing = False
        tls = access.tls
        threads = SequentialThreadingHandler()
        spawn = threads.spawn
        threads.spawn = lambda run, *arguments: spawn(self._guarded, ended, run, *arguments)
        logger = logging.Logger("kazoo", logging.WARNING)  # noqa: LOG001 - one per client, not the process's
        self._complaints = _LastLine()
        logger.addHandler(self._complaints)
        self.kazoo: Any = KazooClient(
            hosts=access.connect.servers,
            timeout=access.session_timeout_s,
            auth_data=[("digest", ":".join(access.digest))] if access.digest else None,
            sasl_options=None if access.sasl is None else dict(access.sasl),
            connection_retry=KazooRetry(max_tries=-1, delay=RECONNECT_S_MIN, max_delay=RECONNECT_S_MAX),
            logger=logger,
            handler=threads,
            use_ssl=tls is not None,
            ca=_text(tls and tls.ca),
            certfile=_text(tls and tls.certificate),
            keyfile=_text(tls and tls.key),
            keyfile_password=tls and tls.key_password,
            verify_certs=tls is None or tls.verify,
            check_hostname=tls is not None and tls.verify and tls.check_hostname,
        )
        self.kazoo.add_listener(lambda _: on_state(self))
        self._starting = threading.Thread(target=self.kazoo.start_async, name="zookeeper-start", daemon=True)
        self._starting.start()

    @property
    def complaint(self) -> str:
        """What was said last about its connection."""
        return self._complaints.text

    @complaint.setter
    def complaint(self, text: str) -> None:
        self._complaints.text = text

    def _guarded(
        self, ended: Callable[["_Client", Exception], None], run: Callable[..., object], *arguments: object
    ) -> None:
        try:
            run(*arguments)
        except Exception as error:  # noqa: BLE001 - a thread of kazoo's dies of it: this client halts
            self.complaint = said(error)
            ended(self, error)

    def close(self) -> None:
        """Blocks up to the session timeout."""
        self._starting.join()
        self.kazoo.stop()
        self.kazoo.close()


class _LastLine(logging.Handler):
    text = "no response yet"

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class Session:
    """``begin`` before use, ``end`` at the end. All on one loop."""

    def __init__(self, access: Access, log: FilteringBoundLogger) -> None:
        """Raises ModuleNotFoundError if SASL is configured and pure-sasl is not installed."""
        if access.sasl is not None and importlib.util.find_spec("puresasl") is None:
            raise ModuleNotFoundError("SASL needs pure-sasl: pip install 'fencepost[zookeeper]'")
        self._access = access
        self._log = log
        self._loop: asyncio.AbstractEventLoop
        self._client: _Client
        self._changed = asyncio.Event()  # set, and replaced by a new one, whenever a state below changes
        self._is_connected = False
        self._refusal = ""  # why the last login failed; later lines of kazoo's do not replace it
        self._is_over = False
        self._outstanding = 0
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_connected(self) -> bool:
        """Whether a request would be sent now."""
        return self._is_connected

    def begin(self) -> None:
        """Begin to connect; returns at once."""
        self._loop = asyncio.get_running_loop()
        self._client = _Client(self._access, self._on_state, self._ended)

    async def end(self) -> None:
        """Close. Requests in flight are Unanswered."""
        self._is_over = True
        self._report(is_connected=False)
        self._close(self._client)
        await asyncio.gather(*self._closing)

    async def queue(self, submit: Callable[[Any], Any], deadline: float) -> "Request":
        """Give kazoo a request. Raises ZooKeeperUnavailable, ZooKeeperRefused: it was not given."""
        client = await self._connected(deadline)
        if self._outstanding >= OUTSTANDING_MAX:
            raise ZooKeeperUnavailable(f"{self._outstanding} requests are unanswered")
        request = Request(self, client, self._loop.create_future())
        result = submit(client.kazoo)
        self._outstanding += 1
        result.rawlink(lambda answer: self.soon(self._answered, request, answer))
        return request

    async def changed(self) -> None:
        """Returns when the connection is made or lost: watches may be gone."""
        await self._changed.wait()

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Have the loop call something; from kazoo's threads, which may outlive the loop."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def give_up(self, client: _Client, reason: str) -> None:
        """Use another client from now on."""
        if client is not self._client or self._is_over:
            return
        if len(self._closing) >= RETIRED_MAX:
            self._loop.call_later(RECONNECT_S_MAX, self.give_up, client, reason)
            return
        self._log.warning("zookeeper_client_replaced", reason=reason, last=client.complaint)
        self._report(is_connected=False)
        self._close(client)
        self._replace(client)

    def _replace(self, client: _Client) -> None:
        if client is self._client and not self._is_over:
            self._client = _Client(self._access, self._on_state, self._ended)

    async def _connected(self, deadline: float) -> _Client:
        try:
            async with asyncio.timeout_at(deadline):
                while not self._is_connected:
                    if self._is_over:
                        raise ZooKeeperUnavailable("the session has ended")
                    if self._refusal:
                        raise ZooKeeperRefused(
                            f"{self._access.connect}: the login was refused ({self._refusal})"
                        )
                    await self._changed.wait()
        except TimeoutError as error:
            said = f"{self._access.connect}: no connection in {self._access.operation_timeout_s} s"
            raise ZooKeeperUnavailable(f"{said} ({self._client.complaint})") from error
        return self._client

    def _answered(self, request: "Request", answer: Any) -> None:
        """kazoo is done with a request, also with one whose caller has given up."""
        self._outstanding -= 1
        request.finish(answer.value, answer.exception)

    def _on_state(self, client: _Client) -> None:
        """Called from kazoo's threads: hand a change of state to the loop."""
        self.soon(self._state_changed, client, client.kazoo.state, client.kazoo.client_state)

    def _ended(self, client: _Client, error: Exception) -> None:
        """Called from kazoo's threads: hand the end of a thread to the loop."""
        self.soon(self._thread_ended, client, error)

    def _state_changed(self, client: _Client, state: str, keeper_state: str) -> None:
        if client is not self._client or self._is_over:
            return
        self._log.info("zookeeper_state_changed", state=keeper_state)
        if state == KazooState.CONNECTED:
            probe = client.kazoo.sync_async("/")
            probe.rawlink(lambda answer: self.soon(self._probed, client, answer))
            return
        self._report(is_connected=False)
        if keeper_state == KeeperState.AUTH_FAILED:
            self._login_refused(client, AuthFailedError())

    def _probed(self, client: _Client, answer: Any) -> None:
        """The connection's first request has come to its end."""
        if client is not self._client or self._is_over:
            return
        if isinstance(answer.exception, LOGIN_REFUSALS):
            self._login_refused(client, answer.exception)
        elif answer.exception is None and client.kazoo.connected:
            self._refusal = ""
            self._report(is_connected=True)

    def _thread_ended(self, client: _Client, error: Exception) -> None:
        if client is not self._client or self._is_over:
            return
        if isinstance(error, LOGIN_REFUSALS):
            self._login_refused(client, error)
        else:
            self._loop.call_later(RECONNECT_S_MAX, self.give_up, client, said(error))

    def _login_refused(self, client: _Client, error: Exception) -> None:
        if self._refusal == said(error) and client.is_closing:
            return  # reported by two threads
        self._refusal = said(error)
        self._log.error("zookeeper_login_refused", reason=self._refusal)
        self._report(is_connected=False)
        self._close(client)
        self._loop.call_later(LOGIN_RETRY_S, self._replace, client)

    def _report(self, *, is_connected: bool) -> None:
        self._is_connected = is_connected
        self._changed.set()
        self._changed = asyncio.Event()

    def _close(self, client: _Client) -> None:
        if client.is_closing:
            return
        client.is_closing = True
        task = self._loop.create_task(self._closed(client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _closed(self, client: _Client) -> None:
        try:
            await asyncio.to_thread(client.close)
        except (KazooException, OSError) as error:  # harmless: the client is not used any more
            self._log.warning("zookeeper_client_not_closed", reason=said(error))


class Request:
    """A request that kazoo has."""

    def __init__(self, session: Session, client: _Client, future: "asyncio.Future[Any]") -> None:
        self._session = session
        self._client = client
        self._future = future

    async def answer(self, deadline: float) -> Any:
        """Raises one of DEFINITE, or Unanswered. After silence the client is given up."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._future
        except TimeoutError as error:
            self._session.give_up(self._client, "a request was not answered in time")
            raise Unanswered("no answer in time") from error

    def finish(self, value: Any, error: BaseException | None) -> None:
        """What kazoo says became of it."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(value)
            return
        known = error if isinstance(error, DEFINITE) else Unanswered(said(error))
        self._future.set_exception(known)
        self._future.exception()  # marks it as retrieved: its caller may have given up


def said(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _text(path: object) -> str | None:
    return None if path is None else str(path)
