"""Nodes that are forked (tests/harness/forked.py) end and are known as those that are executed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cluster import node_process
from fencepost.cluster.forked import Forked
from tests.harness import forked
from tests.harness.nodes import COMMAND_SECONDS_MAX, start_process, wait_for

pytestmark = pytest.mark.slow


def test_how_a_forked_node_ended_is_known_and_its_last_words_are_in_its_log(tmp_path: Path) -> None:
    child = start_process(tmp_path, tmp_path / "none.properties", [])
    assert isinstance(child, Forked)
    executed = tmp_path / "executed"
    executed.mkdir()
    other = node_process.start(executed, ["node", "--config", str(tmp_path / "none.properties")])
    assert child.wait(COMMAND_SECONDS_MAX) == other.wait(COMMAND_SECONDS_MAX) != 0
    assert node_process.log_tail(tmp_path) == node_process.log_tail(executed) != ""
    recorded = node_process.recorded(tmp_path)
    assert recorded is not None
    assert recorded.status() == "dead"


def test_the_servers_have_hashes_of_their_own() -> None:
    paths = [Path(f"/proc/{server.pid}/environ") for server in forked.servers()]
    wait_for("their environments, empty at first", lambda: all(path.read_bytes() for path in paths))
    environments = [path.read_bytes().split(b"\0") for path in paths]
    seeds = {each for environ in environments for each in environ if each.startswith(b"PYTHONHASHSEED=")}
    assert len(seeds) == forked.SERVERS


A_RUN = """
import sys, time
from pathlib import Path
from fencepost.cluster.forked import Server
here = sys.argv[1]
server = Server("sleeps", {"PYTHONPATH": here})
pid = server.call(arguments=["node"], directory=here, log=here + "/log", environment={})
Path(here, "pid.new").write_text(str(pid))
Path(here, "pid.new").rename(Path(here, "pid"))
time.sleep(600)
"""
A_NODE = """
import time
def main(arguments):
    if "--help" not in arguments:
        time.sleep(600)
"""


def test_no_node_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(A_NODE)
    with subprocess.Popen([sys.executable, "-c", A_RUN, tmp_path]) as run:
        wait_for("the node", (tmp_path / "pid").exists)
        node = int((tmp_path / "pid").read_text())
        os.kill(node, 0)
        run.send_signal(signal.SIGKILL)
    wait_for("the end of the node", lambda: not Path(f"/proc/{node}").exists())
