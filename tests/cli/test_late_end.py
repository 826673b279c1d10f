"""A delayed EndTxn: it ends the next transaction of a V1 client, and none of a V2 client."""

from pathlib import Path

import pytest

from tests.harness.command import contents, fencepost
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow

HOLE = ("NONE", "INVALID_TXN_STATE", ["first", "second"])
CLOSED = ("PRODUCER_FENCED", "NONE", ["first"])


def stories(nodes: Nodes, *options: str) -> dict[str, tuple[str, str, list[str]]]:
    said = fencepost(
        "demo", "late-endtxn", "--bootstrap-server", nodes.bootstrap, "--format", "json", *options
    )
    assert said.status == 0, said.stdout + said.stderr
    found = contents(said.stdout)
    return {each["protocol"]: (each["late_answer"], each["abort_answer"], each["seen"]) for each in found}


@pytest.mark.row("beyond.6")
def test_it_ends_the_next_transaction_of_v1_and_none_of_v2(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as nodes:
        assert stories(nodes) == {"v1": HOLE, "v2": CLOSED}
        nodes.run("features", "downgrade", "--feature", "transaction.version=0")
        assert stories(nodes, "--protocol", "v1") == {"v1": HOLE}
        said = fencepost("demo", "late-endtxn", "--bootstrap-server", nodes.bootstrap, "--protocol", "v2")
        assert said.status == 1
        assert "transaction.version is 0; V2 needs 2" in said.stderr
        assert nodes.complaints() == []
