"""A named point ends the process as kill -9 does, at the n-th time, and only if it is asked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.quorum.crash_points import COMMAND_POINTS, CONTROLLER_POINTS, VARIABLE, reach_in
from fencepost.records.invariant import InvariantViolation
from tests.together import table

ROOT = Path(__file__).parents[2]
SCRIPT = """
from fencepost.quorum.crash_points import reach_in
reach = reach_in()
for n in range(3):
    print(n, flush=True)
    reach("fence:intent-applied")
    reach("finalize:phase-applied")
"""


@pytest.mark.parametrize(
    ("wanted", "status", "printed"),
    [
        ("", 0, "0 1 2"),
        ("fence:intent-applied", -signal.SIGKILL, "0"),
        ("fence:intent-applied:2", -signal.SIGKILL, "0 1"),
        ("fence:intent-applied:4", 0, "0 1 2"),
        ("rollback:stop-applied", 0, "0 1 2"),
    ],
)
def test_a_process_ends_there(wanted: str, status: int, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, VARIABLE: wanted},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()) == (status, printed.split())
    assert (f"{wanted.removesuffix(':2')} reached" in ended.stderr) == (status != 0)


@table("wanted", ["fence", "fence:intent-applied:0", "fence:intent-applied:x", "a:b:1"])
def test_a_point_that_does_not_exist_is_refused(wanted: str) -> None:
    with pytest.raises(ValueError, match=r"expected POINT or POINT:COUNT, a point of allocate:range-written"):
        reach_in({VARIABLE: wanted})


def test_code_reaches_named_points_only() -> None:
    reach = reach_in({})
    for point in (*CONTROLLER_POINTS, *COMMAND_POINTS):
        reach(point)
    with pytest.raises(InvariantViolation, match="an unnamed crash point"):
        reach("fence:done")
