"""The port of the replicated log: what everything above it submits, and how it is answered.

Submit      a decision and a reply of one type ``R``: the response that the decision gives is the one that the
            reply takes, so a type checker follows a request from its endpoint to its answer.
Outcome     a response, or an ApiError; an ApiError says whether something may have been done.
Submission  what waits in the proposer's queue: ``R`` is known inside of it, and the queue holds all kinds.
Task        what another thread does for the node's one thread: a ``Work`` of any result.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, TypeVarTuple

from msgspec import Struct

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, UnknownServerError
from fencepost.controller.view import View
from fencepost.records.logged import StateRecord
from fencepost.wire.dispatch import Closing

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
Ts = TypeVarTuple("Ts")

Outcome: TypeAlias = R | ApiError
"""Of what was submitted: the response of its decision, or why there is none."""


class Decide(Protocol[R_co]):
    """A decision on an image. It changes nothing."""

    def __call__(self, view: View, now_ms: int, /) -> Decision[R_co | ApiError]:
        """The records to write, and the response once they are applied, which may be an ApiError.

        Raises ApiError to refuse without records.
        """


class Reply(Protocol[R_contra]):
    """Takes the outcome of one submission, once."""

    def __call__(self, outcome: R_contra | ApiError, throttle_ms: int, /) -> None:
        """``throttle_ms``: for so long the client's connection is muted."""


class Submit(Protocol):
    """See ``Proposer.submit``."""

    def __call__(
        self, decide: Decide[R], reply: Reply[R], *, deferrable: bool = False, closing: Closing | None = None
    ) -> None:
        """Decide when the entry in flight is done."""


class Background(Protocol):
    """Gives work to another thread."""

    def __call__(self, work: Callable[[], R], done: Callable[[R | BaseException], None], /) -> None:
        """``done`` takes, on the node's one thread, what ``work`` returns or raises."""


class Task(Protocol):
    """A ``Work`` of any result."""

    @property
    def name(self) -> str:
        """Of what takes the result, for logs and metrics."""

    def run(self) -> None:
        """Do it, on another thread, and keep its result. Raises what the work raises."""

    def fail(self, error: BaseException, /) -> None:
        """Keep what it raised, or why it was not begun."""

    def end(self) -> None:
        """Give the result, on the node's one thread."""


class Writes(Protocol):
    """A Decision without its response: what the entry takes."""

    @property
    def records(self) -> tuple[StateRecord, ...]:
        """Implements ``Decision.records``."""

    @property
    def extra_cost(self) -> int:
        """Implements ``Decision.extra_cost``."""

    @property
    def ends_entry(self) -> bool:
        """Implements ``Decision.ends_entry``."""


class Submission(Protocol):
    """A ``Request`` of any response type."""

    @property
    def deferrable(self) -> bool:
        """It makes no entry of its own for a while."""

    @property
    def closing(self) -> Closing | None:
        """Closed if the reply cannot be given."""

    @property
    def concern(self) -> str:
        """The decision's name, for logs and metrics."""

    def run(self, view: View, now_ms: int, /) -> Writes:
        """Decide, and keep the response. Raises what the decision raises."""

    def refuse(self, refusal: ApiError, /) -> None:
        """Keep a refusal as the outcome."""

    def respond(self) -> None:
        """Give the outcome that was kept last to the reply."""


UNDECIDED: Final = UnknownServerError("no decision was made")
UNDONE: Final = RuntimeError("the work was not done")


class Request(Struct, Generic[R]):
    """A decision and its reply. It is decided again if it did not fit into an entry."""

    decide: Decide[R]
    reply: Reply[R]
    deferrable: bool = False
    closing: Closing | None = None
    outcome: R | ApiError = UNDECIDED
    throttle_ms: int = 0

    @property
    def concern(self) -> str:
        """Implements ``Submission.concern``."""
        return name_of(self.decide)

    def run(self, view: View, now_ms: int, /) -> Decision[R | ApiError]:
        """Implements ``Submission.run``."""
        decision = self.decide(view, now_ms)
        self.outcome, self.throttle_ms = decision.response, decision.throttle_ms
        return decision

    def refuse(self, refusal: ApiError, /) -> None:
        """Implements ``Submission.refuse``."""
        self.outcome, self.throttle_ms = refusal, 0

    def respond(self) -> None:
        """Implements ``Submission.respond``."""
        self.reply(self.outcome, self.throttle_ms)


class Work(Generic[R]):
    """What another thread does, and what takes its result or exception."""

    __slots__ = ("_done", "_outcome", "_work")

    def __init__(self, work: Callable[[], R], done: Callable[[R | BaseException], None]) -> None:
        self._work = work
        self._done = done
        self._outcome: R | BaseException = UNDONE

    @property
    def name(self) -> str:
        """See Task."""
        return name_of(self._done)

    def run(self) -> None:
        """See Task."""
        self._outcome = self._work()

    def fail(self, error: BaseException, /) -> None:
        """See Task."""
        self._outcome = error

    def end(self) -> None:
        """See Task."""
        self._done(self._outcome)


def name_of(call: Callable[[*Ts], R]) -> str:
    """The name of a function, a method or what a partial is of."""
    if isinstance(call, partial):
        return name_of(call.func)
    return str(getattr(call, "__qualname__", type(call).__qualname__))
