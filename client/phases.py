"""Where a transactional producer is, and that one call at a time moves it."""

import enum

from fencepost.client.errors import IllegalState


class Phase(enum.Enum):
    """Where the producer is between two transactions, or in one."""

    NEW = "not initialized"
    READY = "without a transaction"
    OPEN = "in a transaction"
    DOOMED = "in a transaction that must abort"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    RENEWING = "aborted, and getting a new epoch"
    OVER = "over"


class OneCall:
    """One call at a time: two would send the same request with different pairs. A context manager."""

    def __init__(self) -> None:
        self._is_busy = False

    def __enter__(self) -> None:
        """Raises IllegalState: another call has not ended yet."""
        if self._is_busy:
            raise IllegalState("another call of this producer's transactions has not ended yet")
        self._is_busy = True

    def __exit__(self, *exc: object) -> None:
        """The call has ended."""
        self._is_busy = False
