"""A node's log lines: one that cannot be written is lost, and nothing else is.

A full disk, or a reader that went away, is no reason to stop what the line tells of: it is inside a turn of
Raft, or a client's request. As soon as lines can be written again, one says how many were lost.
"""

import os
from collections.abc import Callable


class LogLines:
    """Writes lines to a descriptor, at once. ``on_lost`` is given the number and the reason of those lost."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lost = 0
        self._reason = ""
        self._torn = False
        self.on_lost: Callable[[int, str], None] = lambda lines, reason: None

    def msg(self, message: str) -> None:
        """One line. Raises nothing."""
        raw = ("\n" if self._torn else "").encode() + message.encode("utf-8", "backslashreplace") + b"\n"
        written = 0
        try:
            while written < len(raw):
                written += os.write(self._descriptor, raw[written:])
        except OSError as error:
            self._lost += 1
            self._reason = os.strerror(error.errno or 0)
            self._torn = self._torn or written > 0
            return
        self._torn = False
        if self._lost:
            lost, self._lost = self._lost, 0
            self.on_lost(lost, self._reason)

    debug = info = warning = error = critical = msg
