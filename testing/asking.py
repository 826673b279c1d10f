"""A question to a process beside this one, over its socket, and the answer.

Line      a question is ``{"verb": ..., "with": {...}}``, an answer ``{"said": ...}`` or ``{"error": ...}``.
Apart     each question has a connection of its own: threads and forks of this process do not mix up answers.
"""

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.settings.short_path import short_path
from fencepost.testing.cluster_failed import ClusterFailed

__tracebackhide__ = True  # as in lease.py

QUESTION_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024  # the whole journal is some 8 MB


def ask(path: Path, verb: str, words: Mapping[str, object], answer_s: float) -> Any:
    """What the process at ``path`` says. Raises ClusterFailed: it refused.

    OSError: none is there, it ended within its answer or before, or (TimeoutError) there is none after
    ``answer_s`` seconds.
    """
    with opened(path, verb, words, answer_s) as (_, said):
        return said


@contextlib.contextmanager
def opened(
    path: Path, verb: str, words: Mapping[str, object], answer_s: float
) -> Iterator[tuple[socket.socket, Any]]:
    """The same, and the connection, which is closed at the end of the block."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(answer_s)
        with short_path(path) as short:
            asking.connect(short)
        asking.sendall(json.dumps({"verb": verb, "with": words}).encode() + b"\n")
        with asking.makefile("rb") as answers:
            line = answers.readline(ANSWER_BYTES_MAX)
        if len(line) == ANSWER_BYTES_MAX:
            raise ClusterFailed(f"the answer to {verb!r} is longer than {ANSWER_BYTES_MAX} bytes")
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the cluster ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ClusterFailed(answer["error"])
        yield asking, answer["said"]
