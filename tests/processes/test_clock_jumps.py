"""A real node whose wall clock is eight days ahead: it deletes nothing until an operator accepts the clock.

The clock is moved by a library that is loaded before the C library, for the one process; the machine's stays.
"""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fencepost.cluster import lifecycle
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.raw_client import RawClient
from tests.processes.txn_requests import Pair, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

AHEAD_S = 8 * 24 * 3600
SHIM = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {{
    static int (*next)(clockid_t, struct timespec *);
    if (next == 0) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += {AHEAD_S};
    return failed;
}}
"""
SETTINGS = ("log.retention.check.interval.ms=100", "log.segment.bytes=14", "log.retention.ms=86400000")
BY_AGE, BY_SIZE = "by-age", "by-size"
RETRIED = frozenset((3, 6))
NO_PRODUCER: Pair = (-1, -1)


def write_once(nodes: Nodes, topic: str, text: str) -> None:
    """A record of this moment by the machine's clock."""

    def look() -> bool:
        with RawClient(nodes.address(1, "client")) as client:
            answer = client.call(write(None, NO_PRODUCER, topic, 0, -1, text, int(time.time() * 1000)))
        (found,) = answer.responses[0].partition_responses
        assert int(found.error_code) in (0, *RETRIED)
        return int(found.error_code) == 0

    wait_for("the partition's leader answers", look)


def earliest(nodes: Nodes, topic: str) -> int:
    (row,) = nodes.read("get-offsets", "--topic", topic, "--time", "earliest")
    return int(row["Offset"])


def test_a_clock_eight_days_ahead_deletes_nothing_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, shim = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    with running(tmp_path / "cluster", NO_QUOTA, *SETTINGS, count=1) as nodes:
        nodes.run("topics", "create", "--topic", BY_AGE)
        nodes.run("topics", "create", "--topic", BY_SIZE, "--config", "retention.bytes=1")
        for number in range(3):
            write_once(nodes, BY_AGE, str(number))
        nodes.kill(1)
        with monkeypatch.context() as patched:
            patched.setenv("LD_PRELOAD", str(shim))
            nodes._children += lifecycle.bring_up(nodes.cluster).values()
        nodes.await_event(1, "clock_jumped")
        for number in range(3):
            write_once(nodes, BY_SIZE, str(number))
        wait_for("what is too much is deleted", lambda: earliest(nodes, BY_SIZE) >= 2)
        assert earliest(nodes, BY_AGE) == 0
        nodes.run("storage", "accept-clock", "--node", 1)
        nodes.await_event(1, "clock_accepted")
        wait_for("what is too old is deleted", lambda: earliest(nodes, BY_AGE) >= 2)
        assert len(nodes.events(1, "clock_jumped")) == 1
