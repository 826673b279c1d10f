"""What is known of a failed test: requests by the proxies, fences by the coordinator, the test's error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fencepost.testing.exactly_once import NotExactlyOnce
from fencepost.testing.journal import Pair, Request
from fencepost.wire.k20065_explain_transaction import FenceExplained
from fencepost.wire.requests import ErrorCode

LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Refusals that clients answer by themselves, with the same request a little later."""

FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
    }
)
_KNOWN: Final = frozenset(map(int, ErrorCode))
_CHAIN_MAX: Final = 10  # errors behind an error
_OUT_OF_STATE: Final = frozenset(
    {"_STATE", "_CONFLICT", "IllegalState", "IllegalOperation", "IllegalStateError"}
)
_TIMED_OUT: Final = frozenset({"_TIMED_OUT", "RequestTimedOut", "NotReachable", "KafkaTimeoutError"})
"""librdkafka's names, and the classes of fencepost.client, aiokafka and kafka-python."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """``fences``, ``open``: by transactional id, also of what other tests left; ``open`` has explanations."""

    began_s: float
    requests: Sequence[Request] = ()
    fences: Mapping[str, Sequence[FenceExplained]] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[tuple[float, str]] = ()
    failure: BaseException | None = None

    def at(self, time_s: float) -> str:
        """A time as seconds of the test."""
        return f"+{max(0.0, time_s - self.began_s):.3f} s"

    def ids(self) -> list[str]:
        """Transactional ids, in the order of their first requests."""
        return list(dict.fromkeys(each.transactional_id for each in self.requests if each.transactional_id))

    def of(self, transactional_id: str) -> list[Request]:
        """The requests of one id."""
        return [each for each in self.requests if each.transactional_id == transactional_id]

    @property
    def is_lost_or_doubled(self) -> bool:
        """The check found that not everything is there once."""
        return isinstance(self.failure, NotExactlyOnce)

    @property
    def is_lost(self) -> bool:
        """The check found that something did not come out."""
        return isinstance(self.failure, NotExactlyOnce) and bool(self.failure.findings.lost)

    @property
    def doubled(self) -> list[tuple[str, list[Pair]]]:
        """What the check found more than once, and by which producers it was written."""
        return self.failure.findings.writers if isinstance(self.failure, NotExactlyOnce) else []

    @property
    def out_of_state(self) -> BaseException | None:
        """The error by which a client refused a call in the state that it was in, if that ended the test."""
        return self._error_of(_OUT_OF_STATE)

    @property
    def gave_up(self) -> BaseException | None:
        """The error by which a client's call timed out, if that ended the test."""
        return self._error_of(_TIMED_OUT)

    def _error_of(self, names: frozenset[str]) -> BaseException | None:
        error = self.failure
        for _ in range(_CHAIN_MAX):
            if error is None or error_name(error) in names:
                return error
            error = error.__cause__ or error.__context__
        return None


def code_name(code: int | None) -> str:
    """Kafka's name of an error code."""
    if code is None:
        return "an answer that cannot be read"
    return ErrorCode(code).name if code in _KNOWN else f"error {code}"


def pair_text(pair: Pair | None) -> str:
    """As a sentence has it."""
    return "no producer id" if pair is None else f"producer {pair[0]}, epoch {pair[1]}"


def error_name(error: BaseException) -> str:
    """librdkafka's name of an error that confluent-kafka raised, or the error's class."""
    inner = error.args[0] if error.args else None
    name = getattr(inner, "name", None)
    return str(name()) if callable(name) else type(error).__name__


@dataclass(slots=True, eq=False)
class Instance:
    """A producer of a transactional id, from its InitProducerId on; ``pairs`` are its own, in order."""

    init: Request
    pairs: list[Pair]

    @property
    def began_s(self) -> float:
        """When it was given its first pair."""
        return self.init.answered_s or self.init.at_s


def instances(requests: Sequence[Request]) -> list[Instance]:
    """The producers of one transactional id that were answered, in the order in which they began.

    One that asks again with its own pair (KIP-360), or is given the next by EndTxn (KIP-890), stays the same.
    """
    found: list[Instance] = []
    owner: dict[Pair, Instance] = {}
    for request in requests:
        if not request.is_done or request.given is None or request.given in owner:
            continue
        known = owner.get(request.pair) if request.pair is not None else None
        if known is None and request.api == "InitProducerId":
            known = Instance(request, [])
            found.append(known)
        if known is not None:
            known.pairs.append(request.given)
            owner[request.given] = known
    return found
