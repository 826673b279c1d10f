"""ListTransactions: a thread reads the image as it is on disk, in slices, and makes the answer's bytes.

A million ids take seconds, of which the loop gives none: it flushes what the list must see, and sends bytes.
Each row has the sum that it was written with, or there is no answer (snapshots/verified_reader.py).
"""

import time
from collections import deque
from contextlib import ExitStack
from typing import Final

from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    PolicyViolation,
)
from fencepost.controller.transactions import describe
from fencepost.controller.transactions.describe import Selection
from fencepost.controller.view import View
from fencepost.coordinator.marker_sender import CallLater
from fencepost.quorum.port import Background
from fencepost.quorum.replica import Replica
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.wire.dispatch import Reply
from fencepost.wire.k66_list_transactions import EncodedList, encode_rows

LISTS_MAX: Final = 2  # under way at once, each on a thread
LISTS_WAITING_MAX: Final = 100
LIST_ROWS_MAX: Final = 200  # that a list reads before it lets the loop run
LIST_PAUSE_S: Final = 0.0005
LIST_BYTES_MAX: Final = 64 * 1024 * 1024  # of one answer: more than a million ids


class TransactionLists:
    """Lists that are read or wait to be. On the node's one thread, but for the reading itself."""

    def __init__(self, replica: Replica, call_later: CallLater, background: Background) -> None:
        self._replica = replica
        self._call_later = call_later
        self._background = background
        self._waiting: deque[tuple[Selection, int, Reply[EncodedList]]] = deque()
        self._running = 0

    def read(self, selection: Selection, now_ms: int, reply: Reply[EncodedList]) -> None:
        """Answer with what is selected of all that is applied by now; later, on this thread."""
        if len(self._waiting) >= LISTS_WAITING_MAX:
            reply(CoordinatorLoadInProgress(f"{LISTS_WAITING_MAX} lists wait; retry later"), 0)
            return
        self._waiting.append((selection, now_ms, reply))
        self._call_later(0.0, self._next)

    def _next(self) -> None:
        if not self._waiting or self._running >= LISTS_MAX:
            return
        selection, now_ms, reply = self._waiting.popleft()
        self._running += 1
        self._replica.flush()  # what was applied before the list was requested is on disk: the thread sees it
        opened = ExitStack()
        view = opened.enter_context(self._replica.store.verified_reader())

        def work() -> EncodedList:
            with opened:
                return _listed(view, selection, now_ms)

        def done(outcome: EncodedList | BaseException) -> None:
            self._running -= 1
            if isinstance(outcome, EncodedList | ApiError):
                reply(outcome, 0)
            else:
                reply(CoordinatorNotAvailable(f"the list could not be read: {outcome!r}"), 0)
            if isinstance(outcome, RowsChanged):
                self._replica.watch.differs(str(outcome))
            self._next()

        self._background(work, done)


def _listed(view: View, selection: Selection, now_ms: int) -> EncodedList:
    """On a thread of its own, which lets the loop run after each slice. Raises PolicyViolation."""
    rows: list[bytes] = []
    count = size = 0
    after: str | None = None
    while True:
        found, after = describe.list_slice(
            view, selection, after=after, rows_max=LIST_ROWS_MAX, now_ms=now_ms
        )
        rows.append(encode_rows(found))
        count, size = count + len(found), size + len(rows[-1])
        if size > LIST_BYTES_MAX:
            raise PolicyViolation(f"more than {LIST_BYTES_MAX} bytes of transactions match; filter them")
        if after is None:
            return EncodedList(selection.unknown_state_filters, count, tuple(rows))
        time.sleep(LIST_PAUSE_S)
