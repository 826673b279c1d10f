"""What the failure of one request costs: its reply, or its connection, and nothing else.

A failure is our bug: an exception that is no ApiError, out of an endpoint or while a reply is encoded. The
request is answered UNKNOWN_SERVER_ERROR (-1) if that is still possible; else its connection is closed, so
that the client finds out at once. It is logged, at a bounded rate, and counted.
"""

from collections.abc import Callable

from fencepost.controller.errors import UnknownServerError
from fencepost.wire.limited_log import LimitedLog


class Isolation:
    """One listener's.

    halting   what is raised further, to the event loop's exception handler, which ends the process.
    count     is called with the request's name.
    """

    def __init__(
        self, log: LimitedLog, halting: tuple[type[Exception], ...], count: Callable[[str], None]
    ) -> None:
        self._log = log
        self._halting = halting
        self._count = count

    def failure(self, api_name: str, error: Exception) -> UnknownServerError:
        """The refusal to answer with. Raises ``error`` again if it halts the node."""
        if isinstance(error, self._halting):
            raise error
        self._count(api_name)
        self._log.error("request_failed", request=api_name, error=repr(error), exc_info=error)
        return UnknownServerError(f"{api_name} failed: {error!r}")
