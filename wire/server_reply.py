"""The one reply to one request, on its way into the bytes of a connection."""

import asyncio
from functools import partial
from typing import Any, Protocol

from fencepost.controller.errors import ApiError
from fencepost.records.invariant import InvariantViolation
from fencepost.wire import frame as framing
from fencepost.wire.dispatch import Api
from fencepost.wire.isolation import Isolation
from fencepost.wire.stalls import Stalls
from fencepost.wire.steps import Steps


class Answers(Protocol):
    """The connection that the request came on."""

    is_advancing: bool
    loop: asyncio.AbstractEventLoop
    stalls: Stalls
    isolation: Isolation

    def answer(self, framed: bytes, throttle_ms: int) -> None:
        """Send the reply and go on to the next request."""

    def close_because(self, reason: str) -> None:
        """Say why in the log, and close."""

    def stay_silent(self, api_name: str, failure: str | None, throttle_ms: int) -> None:
        """Go on without a reply; or close, for this reason."""


class ServerReply:
    """The one answer to one request. ``request`` is None until it is read."""

    __slots__ = ("_api", "_connection", "_correlation_id", "_given", "request", "version")

    def __init__(self, connection: Answers, api: Api[Any, Any], version: int, correlation_id: int) -> None:
        self._connection = connection
        self._given = False
        self._api = api
        self._correlation_id = correlation_id
        self.version = version
        self.request: Any = None

    def __call__(self, outcome: Any, throttle_ms: int = 0, /) -> None:
        """Implements ``dispatch.Reply.__call__``."""
        if self._given:
            raise InvariantViolation(f"{self._api.name} was answered twice: {outcome!r}")
        self._given = True
        connection = self._connection
        if connection.is_advancing:  # what serves the request is measured with its reply
            self._send(connection, outcome, throttle_ms)
            return
        begun = connection.stalls.begin()
        self._send(connection, outcome, throttle_ms)
        connection.stalls.end(self._api.name, begun)

    def fail(self, refusal: ApiError) -> None:
        """The request failed: refuse it, or close the connection if it was answered, or seemed to be."""
        if self._given:
            self.close(str(refusal))
        else:
            self(refusal)

    def close(self, reason: str) -> None:
        """Implements ``dispatch.Reply.close``."""
        self._given = True
        self._connection.close_because(reason)

    def _send(self, connection: Answers, outcome: Any, throttle_ms: int) -> None:
        api = self._api
        if api.unanswered is not None and self.request is not None:
            silence = api.unanswered(self.request, outcome)
            if silence is not None:
                connection.stay_silent(api.name, silence.failure, throttle_ms)
                return
        if api.encode_steps is not None and not isinstance(outcome, ApiError):
            self._advance(api.encode_steps(self.version, outcome, throttle_ms), throttle_ms)
            return
        try:
            version = self.version
            if isinstance(outcome, ApiError):
                framed = self._framed(api.refusal(version, self.request, outcome, throttle_ms))
            elif api.frame_response is not None:
                framed = api.frame_response(version, self._correlation_id, outcome, throttle_ms)
            else:
                framed = self._framed(api.encode_response(version, outcome, throttle_ms))
        except Exception as error:  # noqa: BLE001 - around one request's reply
            connection.close_because(str(connection.isolation.failure(api.name, error)))
            return
        connection.answer(framed, throttle_ms)

    def _advance(self, encoding: Steps[list[bytes]], throttle_ms: int) -> None:
        """Encode up to the next pause; after the last one, send."""
        connection, api = self._connection, self._api
        try:
            next(encoding)
        except StopIteration as ended:
            tagged = api.has_tagged_response_header(self.version)
            framed = framing.response_frame_of(self._correlation_id, ended.value, tagged=tagged)
        except Exception as error:  # noqa: BLE001 - around one request's reply
            self.close(str(connection.isolation.failure(api.name, error)))
            return
        else:
            connection.loop.call_soon(partial(self._go_on, encoding, throttle_ms))
            return
        connection.answer(framed, throttle_ms)

    def _go_on(self, encoding: Steps[list[bytes]], throttle_ms: int) -> None:
        begun = self._connection.stalls.begin()
        self._advance(encoding, throttle_ms)
        self._connection.stalls.end(self._api.name, begun)

    def _framed(self, body: bytes) -> bytes:
        tagged = self._api.has_tagged_response_header(self.version)
        return framing.response_frame(self._correlation_id, body, tagged=tagged)
