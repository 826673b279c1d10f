"""Nodes that are forked (tests/harness/forked.py) end and are known as those that are executed."""

from pathlib import Path

import pytest

from fencepost.cluster import node_process
from tests.harness import forked
from tests.harness.nodes import COMMAND_SECONDS_MAX, start_process

pytestmark = pytest.mark.slow


def test_how_a_forked_node_ended_is_known_and_its_last_words_are_in_its_log(tmp_path: Path) -> None:
    child = start_process(tmp_path, tmp_path / "none.properties", [])
    assert isinstance(child, forked.Forked)
    executed = tmp_path / "executed"
    executed.mkdir()
    other = node_process.start(executed, ["node", "--config", str(tmp_path / "none.properties")])
    assert child.wait(COMMAND_SECONDS_MAX) == other.wait(COMMAND_SECONDS_MAX) != 0
    assert node_process.log_tail(tmp_path) == node_process.log_tail(executed) != ""
    recorded = node_process.recorded(tmp_path)
    assert recorded is not None
    assert recorded.status() == "dead"


def test_the_servers_have_hashes_of_their_own() -> None:
    hashes = {server.ask(hash_of="a node") for server in forked.servers()}
    assert len(hashes) == forked.SERVERS
