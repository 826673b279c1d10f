"""``fencepost fault run``: a test command in any language has a cluster, breaks it, and leaves nothing."""

import shlex
import sys

import pytest

from fencepost.testing.reaper import started_with
from tests.harness.command import command, fencepost
from tests.testing.shell_application import PROGRAM

pytestmark = pytest.mark.slow


def test_a_command_breaks_its_cluster_and_its_status_is_the_runs() -> None:
    fault = shlex.join([*command("fault")])
    script = f"""
        set -e
        echo $FENCEPOST_FAULTS
        {fault} drop-answer EndTxn --match transactional_id=app --times 1
        {shlex.join([sys.executable, "-c", PROGRAM])}
        {fault} wait 1 --timeout 20
        {fault} kill 1
        {fault} start
        {fault} list --format json
        exit 7
    """
    ended = fencepost("fault", "run", "-n", 1, "--topic", "orders", "--", "sh", "-c", script)
    assert ended.status == 7, ended
    socket, armed, *_ = ended.stdout.splitlines()
    assert armed == "1  drop_answer(EndTxn, transactional_id='app'), fired 0 times"
    assert "committed" in ended.stdout
    assert '"fired": 1' in ended.stdout
    folder = socket.rpartition("/")[0]
    assert not started_with(folder)


def test_what_is_left_armed_fails_the_run() -> None:
    script = f"{shlex.join(command('fault'))} disconnect Produce"
    ended = fencepost("fault", "run", "-n", 1, "--", "sh", "-c", script)
    assert (ended.status, "left armed: disconnect(Produce)" in ended.stderr) == (1, True), ended
    assert fencepost("fault", "run", "-n", 1, "--", "/nonexistent").status == 2
