"""Errors on their way over the wire: a number and sometimes a text, and back.

The refusals that only the wire itself has live here; all others in ``fencepost.controller.errors``.
"""

from collections.abc import Iterable
from typing import Final

from fencepost.controller import acl_errors, errors, group_errors
from fencepost.controller.errors import ApiError, ErrorCode

ERROR_MESSAGE_CHARS_MAX: Final = 1000  # a message may quote what a client sent


class UnsupportedSaslMechanism(ApiError):
    """A mechanism that is not enabled; the answer lists those that are."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM

    def __init__(self, message: str = "", enabled: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.enabled = enabled


class IllegalSaslState(ApiError):
    """A request out of order: SASL where it is over or not wanted, or something else before it is done."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class SaslAuthenticationFailed(ApiError):
    """Unknown user, wrong password or an unreadable token: the answer does not say which."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class MismatchedEndpointType(ApiError):
    """The request is about controllers, and its listener is for brokers' clients."""

    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE


class UnsupportedEndpointType(ApiError):
    """The request is about what is neither brokers nor controllers."""

    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


class UnlistedError(ApiError):
    """A Kafka error code that this project never answers with itself. ``number`` is the code."""

    def __init__(self, number: int, message: str):
        super().__init__(f"Kafka error {number}: {message}")
        self.number = number


def error_for(code: int, message: str | None = None) -> ApiError:
    """The ApiError that an answer carries. ``code`` is not NONE."""
    kind = _KINDS.get(code)
    if kind is not None:
        # Some constructors take what only the controller knows; here its text is all that is left.
        return kind.__new__(kind, message or ErrorCode(code).name)
    if code not in _LISTED:
        return UnlistedError(code, message or "no message")
    error = ApiError(message or ErrorCode(code).name)
    error.code = ErrorCode(code)
    return error


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the error that an answer carries, if it does."""
    if code != 0:
        raise error_for(code, message)


def raise_if_elsewhere(codes: Iterable[int]) -> None:
    """Raise NotController if every row of a response says so: the request belongs on another node."""
    if set(codes) == {ErrorCode.NOT_CONTROLLER}:
        raise errors.NotController("the node is not the active controller; nothing was done")


def code_of(number: int) -> ErrorCode:
    """The code of that number; UNKNOWN_SERVER_ERROR for one that is not listed."""
    return ErrorCode(number) if number in _LISTED else ErrorCode.UNKNOWN_SERVER_ERROR


def gated(code: int, version: int, *, fenced_from: int = 0, abortable_from: int = 0) -> int:
    """The code as an API's version may say it: clients of older versions die of codes they do not know.

    PRODUCER_FENCED is INVALID_PRODUCER_EPOCH below ``fenced_from`` (row 588.5), TRANSACTION_ABORTABLE is
    INVALID_TXN_STATE below ``abortable_from`` (KIP-890).
    """
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < abortable_from:
        return ErrorCode.INVALID_TXN_STATE
    return code


def message_of(error: ApiError) -> str:
    """The text for an ErrorMessage field: always UTF-8, and short enough for a string with an int16."""
    return sendable(str(error)[:ERROR_MESSAGE_CHARS_MAX]) or error.code.name


def sendable(text: str) -> str:
    """The text with a question mark for what UTF-8 does not have: half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def _kinds() -> dict[int, type[ApiError]]:
    listed = (*vars(acl_errors).values(), *vars(errors).values(), *vars(group_errors).values())
    known = [kind for kind in listed if isinstance(kind, type) and issubclass(kind, ApiError)]
    own: list[type[ApiError]] = [
        UnsupportedSaslMechanism,
        IllegalSaslState,
        SaslAuthenticationFailed,
        MismatchedEndpointType,
        UnsupportedEndpointType,
    ]
    by_code = {kind.code: kind for kind in (*known, *own) if kind is not ApiError}
    by_code[ErrorCode.UNKNOWN_SERVER_ERROR] = errors.UnknownServerError  # several say "-1"
    return {int(code): kind for code, kind in by_code.items()}


_KINDS: Final = _kinds()
_LISTED: Final = frozenset(int(code) for code in ErrorCode)
