"""What the client library raises.

Kinds       ``Refused``: the cluster refused a request, with a code of Kafka's. ``AbortableError``: the
            transaction must be aborted; the producer goes on with the next one. ``FatalError``: this producer
            can never be used again. ``IllegalState``: a call that the object's state does not allow.
Unknown     ``RequestTimedOut`` and ``OutcomeUnknown``: the request may have been done, or may yet be.
Not seen    errors that a retry heals are not raised until the time that the call may take is over.
"""

from fencepost.wire.errors import UnlistedError
from fencepost.wire.requests import ApiError, ErrorCode


class ClientError(Exception):
    """Base of all errors of the client library. ``code``: the cluster's error code, 0 if it sent none."""

    def __init__(self, message: str, code: int = ErrorCode.NONE) -> None:
        super().__init__(message)
        self.code = code


class IllegalState(ClientError):
    """The call does not fit the state of the producer or consumer. Nothing was done."""


class InvalidSetting(ClientError, ValueError):
    """An argument or setting that can never work."""


class NotReachable(ClientError):
    """No connection could be made in time. The request was not done."""


class RequestTimedOut(ClientError):
    """No answer in time. The request may have been done, or may yet be."""


class DeliveryTimedOut(ClientError):
    """A record was not written within ``delivery_timeout_ms``. It was never appended."""


class Refused(ClientError):
    """The cluster refused a request with ``code``; nothing was done."""


class AuthorizationFailed(Refused):
    """The principal may not do this."""


class UnknownTopic(Refused):
    """The topic or partition does not exist, or the principal may not see it."""


class AbortableError(ClientError):
    """The transaction cannot commit: call ``abort_transaction``, then begin the next one."""


class TransactionTimedOut(AbortableError):
    """The coordinator aborted the transaction, which was open for longer than its timeout (KIP-588).

    The producer was not fenced: ``abort_transaction`` or ``init_transactions`` gets it a new epoch.
    """


class CommitFailed(AbortableError):
    """The offsets of a consumer are not its group's any more: it was replaced, or there was a rebalance."""


class RecordRefused(AbortableError):
    """A record of the transaction could not be written, so the transaction cannot commit."""


class FatalError(ClientError):
    """The producer can never be used again: close it."""


class ProducerFenced(FatalError):
    """A newer producer has the same transactional id."""


class OutcomeUnknown(FatalError):
    """A record may have been written or not, and that can no longer be found out."""


_AUTHORIZATION = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    )
)
_UNKNOWN_TOPIC = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))


def number_of(error: ApiError) -> int:
    """The error code that an answer carried, also one that has no name here."""
    return error.number if isinstance(error, UnlistedError) else int(error.code)


def name_of(code: int) -> str:
    """The error code's name as Kafka has it, or its number."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def refused(code: int, what: str) -> Refused:
    """The exception of a refusal. ``what``: the request and what it was of."""
    kind: type[Refused] = Refused
    if code in _AUTHORIZATION:
        kind = AuthorizationFailed
    elif code in _UNKNOWN_TOPIC:
        kind = UnknownTopic
    return kind(f"{what}: {name_of(code)}", code)
