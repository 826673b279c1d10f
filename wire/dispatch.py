"""What an API is, who serves it, and how an answer finds its way back.

An ``Api`` turns the bytes of one Kafka API key, at each version, into one version-less request and
back. An ``Endpoint`` is a plain callable on the event loop: it is given a request, says who sent it, and
calls ``reply`` exactly once, now or later. No Task or Future is made on the way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from fencepost.controller.errors import ApiError
from fencepost.wire.schema import Buffer
from fencepost.wire.steps import Steps

Q = TypeVar("Q")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

API_VERSIONS_KEY: Final = 18
PRIVATE_KEY_MIN: Final = 20_000
"""From here on a key is one that only fencepost has."""

ListenerKind: TypeAlias = Literal["broker", "controller"]
BROKER: Final = "broker"
CONTROLLER: Final = "controller"
"""The listeners that Kafka's message schemas name: for clients and for brokers' requests to controllers."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nothing is sent. With a ``failure`` the connection is closed: all that such a client can learn."""

    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[Q, R]):
    """One API key: its bytes, in every version of ``versions``, and where it is served.

    listeners         those that serve it on a node with both roles; a broker alone lacks the coordinator's.
    request_bytes_max looked at as soon as a request's key is here (wire/request_limits.py).
    decode_request    (version, body) -> request; raises CorruptData, or ApiError for a request that can
                      be read but never served.
    encode_response   (version, response, throttle_ms) -> body.
    refusal           (version, request or None if it was not read, error, throttle_ms) -> body.
    encode_request    (version, request) -> body; raises UnsupportedVersion if the version cannot say it.
    decode_response   (version, body) -> response; raises CorruptData, and the ApiError it carries.
    frame_response    (version, correlation id, response, throttle_ms) -> the whole frame, where that is
                      worth a codec of its own; equal to what encode_response and the framing give.
    encode_steps      as encode_response, where a response may be too large to be written in one step: the
                      pieces of the body, joined with the framing alone.
    decode_steps      as decode_response, likewise.
    newest_for        (request) -> the newest version that means what the request does, where a newer one
                      means more; a client sends none above it.
    served_from       versions below it are advertised, read, and refused with UNSUPPORTED_VERSION.
    unanswered        (request, response or ApiError) -> None if it is to be sent, as almost always.
    """

    key: int
    name: str
    versions: range
    flexible_from: int  # the first version with tagged fields; 1 << 15 if none has
    listeners: tuple[ListenerKind, ...]
    request_bytes_max: int
    decode_request: Callable[[int, Buffer], Q]
    encode_response: Callable[[int, R, int], bytes]
    refusal: Callable[[int, Q | None, ApiError, int], bytes]
    encode_request: Callable[[int, Q], bytes]
    decode_response: Callable[[int, Buffer], R]
    frame_response: Callable[[int, int, R, int], bytes] | None = None
    encode_steps: Callable[[int, R, int], Steps[list[bytes]]] | None = None
    decode_steps: Callable[[int, Buffer], Steps[R]] | None = None
    newest_for: Callable[[Q], int] | None = None
    served_from: int = 0
    unanswered: Callable[[Q, R | ApiError], Unanswered | None] | None = None

    def has_tagged_response_header(self, version: int) -> bool:
        """Response header v1. ApiVersions keeps v0 always: its reader knows no version yet (KIP-511)."""
        return version >= self.flexible_from and self.key != API_VERSIONS_KEY


NEVER_FLEXIBLE: Final = 1 << 15


@dataclass(slots=True, eq=False)
class Proof:
    """One connection's proof of the cluster's secret: see wire/secret_proof.py. ``offered``: half of one."""

    proved: bool = False
    offered: Any = None


UNPROVED: Final = Proof()
"""Of a connection whose listener takes no proof."""


@dataclass(frozen=True, slots=True)
class Context:
    """Who sent a request, and where it came in."""

    principal: str  # "User:NAME"
    listener: str
    client_id: str | None
    peer: str  # "host:port"
    proof: Proof = field(default=UNPROVED, compare=False)
    host: str = field(init=False, compare=False)  # of ``peer``, as ACLs name it: cut once per connection

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.peer.rpartition(":")[0].strip("[]"))

    @property
    def proved(self) -> bool:
        """The sender is a node of this cluster: it proved that it knows the secret."""
        return self.proof.proved


class Closing(Protocol):
    """Where a reply goes, if that can be closed: a client's connection."""

    def close(self, reason: str, /) -> None:
        """No answer can be given: close the connection, so that the client finds out at once."""


class Reply(Closing, Protocol[R_contra]):
    """Answers one request, once. A second call is an InvariantViolation; after a lost connection, nothing."""

    def __call__(self, outcome: R_contra | ApiError, throttle_ms: int = 0, /) -> None:
        """``outcome`` is the response or an ApiError; the connection is muted for ``throttle_ms``."""


class Then(Generic[R]):
    """Gives outcomes to ``call``, which gives them to a reply; closes where that reply goes."""

    __slots__ = ("_call", "close")

    def __init__(self, call: Callable[[R | ApiError, int], None], closing: Closing) -> None:
        self._call = call
        self.close = closing.close

    def __call__(self, outcome: R | ApiError, throttle_ms: int = 0, /) -> None:
        """Implements ``Reply.__call__``."""
        self._call(outcome, throttle_ms)


Endpoint: TypeAlias = Callable[[Q, Context, Reply[R]], None]
"""(request, context, reply). May raise ApiError instead of replying with it."""

Served: TypeAlias = tuple[Api[Any, Any], Endpoint[Any, Any]]
"""An API and the endpoint of its own request and response; see ``served``."""

Service: TypeAlias = Mapping[int, Served]
"""What a listener serves, by API key. ApiVersions and SASL are the listener's own."""


def served(api: Api[Q, R], endpoint: Endpoint[Q, R]) -> tuple[int, Served]:
    """An item of a Service. The endpoint takes the API's request, and replies with its response."""
    return api.key, (api, endpoint)
