"""What is said of a test that does not end, and to whom."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fencepost.testing.armory import Armory
from fencepost.testing.proxy import Waiting
from fencepost.testing.waiting import ROWS_MAX, Watched, lines, standard_error, watch
from fencepost.wire.k26_end_txn import END_TXN


def proxy(*waiting: Waiting) -> Any:
    armory = Armory()
    armory.arm(
        key=END_TXN.key,
        action="delay",
        text="delay(EndTxn, 9 ms)",
        match={},
        topic_id=None,
        times=None,
        ms=9,
        code=0,
    )
    return SimpleNamespace(armory=armory, waiting=lambda: list(waiting))


def watched(**more: Any) -> Watched:
    said: dict[str, Any] = {"name": "test_it", "pid": 7, "report": "/gone", "after_s": 60, "ends": False}
    return Watched(**said | more)


def test_clients_that_wait_are_named() -> None:
    long = Waiting("shop", 2, END_TXN.key, 58.25)
    assert list(lines(proxy(long, Waiting("", 1, 9999, 3), Waiting("poll", 1, 1, 0.5)), watched())) == [
        "\nfencepost: test_it has not ended after 60 s.",
        "  client 'shop' waits for node 2: EndTxn, for 58.2 s",
        "  client '' waits for node 1: API key 9999, for 3.0 s",
        "  armed: delay(EndTxn, 9 ms), fired 0 times",
        "  To end it, with its stacks: kill -ABRT 7, or pytest --fencepost-within SECONDS",
    ]
    assert "  and 2 more" in lines(proxy(*[long] * (ROWS_MAX + 2)), watched())


def test_where_none_waits_the_cluster_owes_nothing() -> None:
    said = list(lines(proxy(Waiting("poll", 1, 1, 0.5)), watched(ends=True)))
    assert said[1].startswith("  No client waits for an answer: the test, or a library that it uses")
    assert said[-1] == "  The run is ended, with the stacks of its threads."


def test_what_is_said_stays_in_a_file_that_others_write_to(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as out:
        out.write(b"before\n")
        report = standard_error(out.fileno())
        asyncio.run(watch(proxy(), watched(report=report, after_s=0)))
        out.write(b"after\n")
    said = (tmp_path / "out").read_text().splitlines()
    assert (said[0], said[2], said[-1]) == ("before", "fencepost: test_it has not ended after 0 s.", "after")


def test_the_run_is_ended_if_that_was_asked_for(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("before\n")
    for ends in (False, True):
        with subprocess.Popen(["sleep", "60"]) as run:
            asyncio.run(watch(proxy(), watched(pid=run.pid, report=str(report), after_s=0, ends=ends)))
            if not ends:
                os.kill(run.pid, signal.SIGKILL)
        assert run.returncode == (-signal.SIGABRT if ends else -signal.SIGKILL)
    assert report.read_text().splitlines()[0] == "before"
    assert report.read_text().count("has not ended after 0 s") == 2
