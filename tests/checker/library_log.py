"""The log that librdkafka writes at debug level: kept in two files per process, and read as it is written.

Bound     LOG_BYTES_MAX per file: the older one is replaced when the newer is full. Files of a process that
          left as it should are removed, the others are beside the history.
Requests  which ones the producer sent, and which of them have no response: why a call hangs.
"""

import os
import re
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.checker.evidence import Verdict

CLIENT_ID: Final = "checker-producer"
PRODUCER: Final = {"client.id": CLIENT_ID, "debug": "eos,protocol,broker", "log_level": 7}
CONSUMER: Final = {"client.id": "checker-consumer", "debug": "cgrp,protocol,broker", "log_level": 7}
LOG_BYTES_MAX: Final = 2 * 1024 * 1024
READ_BYTES: Final = 64 * 1024
LAST_REQUESTS: Final = 12
COORDINATED: Final = {
    "FindCoordinator",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "InitProducerId",
}
"""What a call of a transactional producer may wait for; Metadata and Produce go on by themselves."""

_LINE: Final = re.compile(rb"%7\|(?P<at>[0-9.]+)\|\w+\|(?P<client>\S+)\| \[thrd:(?P<thread>[^\]]*)\]:")
_SENT: Final = re.compile(rb"Sent (?P<api>\w+)Request \(v\d+, .*CorrId (?P<number>\d+)\)")
_RECEIVED: Final = re.compile(rb"Received \w+Response \(v\d+, .*CorrId (?P<number>\d+),")
_DOWN: Final = re.compile(rb"Broker changed state \w+ -> DOWN")
_NOISE: Final = b"Handle is terminating in state"
"""Written a thousand times a second while a dropped connection is still the coordinator's (2.16.0)."""


class Request(NamedTuple):
    """A request as the library logged it."""

    api: str
    thread: str  # of the library, one per broker
    number: int
    sent_at: float  # seconds of the wall clock

    def __str__(self) -> str:
        return f"{self.api} {self.number} on {self.thread}"


class Requests:
    """What the producer of this process sent: what is open, and the last ones. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int], Request] = {}
        self._last: deque[Request] = deque(maxlen=LAST_REQUESTS)
        self._coordinated_at = 0.0

    def read(self, line: bytes) -> None:
        """A line of the log."""
        start = _LINE.match(line)
        if start is None or not start["client"].startswith(CLIENT_ID.encode() + b"#"):
            return
        thread = start["thread"].decode()
        with self._lock:
            if sent := _SENT.search(line):
                request = Request(sent["api"].decode(), thread, int(sent["number"]), float(start["at"]))
                self._open[thread, request.number] = request
                self._last.append(request)
                if request.api in COORDINATED:
                    self._coordinated_at = request.sent_at
            elif received := _RECEIVED.search(line):
                self._open.pop((thread, int(received["number"])), None)
            elif _DOWN.search(line):
                self._open = {key: each for key, each in self._open.items() if each.thread != thread}

    def verdict(self, quiet_since: float) -> Verdict:
        """Why a call hangs since before ``quiet_since``, a moment on the wall clock."""
        with self._lock:
            if any(each.sent_at < quiet_since for each in self._open.values()):
                return Verdict.UNANSWERED
            return Verdict.ASKING if self._coordinated_at >= quiet_since else Verdict.LIBRARY

    def facts(self) -> dict[str, Any]:
        """For the history."""
        with self._lock:
            return {"open": [*map(str, self._open.values())], "last": [*map(str, self._last)]}


class LibraryLog:
    """Takes the place of the process's standard error, which librdkafka's own threads write to."""

    def __init__(self, folder: Path, name: str, requests: Requests) -> None:
        self._files = [folder / f"{name}.library.{each}.log" for each in range(2)]
        self._requests = requests
        reading, writing = os.pipe()
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)  # Python's own words go where they went before
        os.dup2(writing, 2)
        os.close(writing)
        threading.Thread(target=self._copy, args=(reading,), daemon=True).start()

    def remove(self) -> None:
        """Nothing of it is of interest."""
        for each in self._files:
            each.unlink(missing_ok=True)

    def _copy(self, reading: int) -> None:
        place = size = 0
        stream = self._files[place].open("wb", buffering=0)
        rest = b""
        while chunk := os.read(reading, READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            kept = [line for line in lines if _NOISE not in line]
            for line in kept:
                self._requests.read(line)
            written = b"".join(line + b"\n" for line in kept)
            if size + len(written) > LOG_BYTES_MAX:
                stream.close()
                place, size = 1 - place, 0
                stream = self._files[place].open("wb", buffering=0)
            stream.write(written)
            size += len(written)
