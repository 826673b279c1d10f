"""What must not work, on a real ensemble: it is refused by name, and the way out that status prints works."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_acl

from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import Nodes
from tests.upgrade.world import FIRST_BLOCK, make_kafkas_znodes, outside, upgrading, znode
from tests.zookeeper.rival import PATH
from tests.zookeeper.servers import Ensemble, ensemble

pytestmark = pytest.mark.slow

REFUSED, NO_ANSWER = 1, 3
BLOCK = "/kafka" + PATH
READ_ONLY = [make_acl("world", "anyone", read=True, admin=True)]
OPEN = [make_acl("world", "anyone", all=True)]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Ensemble]:
    with ensemble(tmp_path / "zookeeper") as group:
        make_kafkas_znodes(group, "/kafka", FIRST_BLOCK)
        yield group


def refusal(nodes: Nodes, *arguments: str) -> str:
    """What a refused command says."""
    result = in_process("migrate", *arguments, "--dir", nodes.directory)
    assert result.status in (REFUSED, NO_ANSWER), result
    return result.stderr


def status(nodes: Nodes) -> Any:
    return nodes.read("migrate", "status")


@pytest.mark.row("beyond.2")
def test_a_wrong_chroot_is_refused_and_the_right_one_named(servers: Ensemble, tmp_path: Path) -> None:
    make_kafkas_znodes(servers, "/deep/er")
    connect = servers.connect_string + "/kafk"
    seen = in_process("migrate", "preflight", "--zookeeper", connect, "--watch", "0.1", "--format", "json",
                      "--dir", tmp_path / "none")  # fmt: skip
    found = json.loads(stdout_of(seen, REFUSED))
    assert found["verdict"] == "blocked"
    assert "there is one below /deep/er and /kafka:" in found["blocking"][0]
    with upgrading(tmp_path / "cluster", connect, count=1) as nodes:
        assert "there is one below /deep/er and /kafka:" in status(nodes)["blocking"][0]
        for flags in ((), ("--no-block-yet",), ("--dry-run", "--no-block-yet")):
            assert "there is one below /deep/er and /kafka:" in refusal(nodes, "bridge", *flags)
        assert status(nodes)["phase"] == "waiting"
        with outside(servers) as client:
            assert client.exists("/kafk") is None, "nothing was made"


@pytest.mark.row("beyond.2")
def test_who_may_not_write_is_refused_before_the_quorum_depends_on_it(
    servers: Ensemble, tmp_path: Path
) -> None:
    with upgrading(tmp_path / "cluster", servers.connect_string + "/kafka", count=1) as nodes:
        with outside(servers) as client:
            client.create("/kafka/migration", b"{}")
            assert "/migration is there" in refusal(nodes, "bridge")
            client.delete("/kafka/migration")
            client.set_acls(BLOCK, READ_ONLY)
            assert "lets no one write it: world:anyone:ra" in refusal(nodes, "bridge")
            client.set_acls(BLOCK, OPEN)
        for command in ("bridge", "import"):
            nodes.run("migrate", command)
        with outside(servers) as client:
            client.set_acls(BLOCK, READ_ONLY)
            kept = znode(servers, "/kafka")
            for _ in range(2):
                assert "NoAuthError" in refusal(nodes, "fence")
            stood = status(nodes)
            assert (stood["phase"], znode(servers, "/kafka")) == ("imported", kept)
            assert "NoAuthError" in stood["blocking"][0]
            assert any("let this login read" in way for way in stood["ways"])
            client.set_acls(BLOCK, OPEN)
            nodes.run("migrate", "fence")
            client.set_acls(BLOCK, READ_ONLY)
            assert "NoAuthError" in refusal(nodes, "rollback")
            assert status(nodes)["phase"] == "quorum", "the quorum still gives out ids"
            client.set_acls(BLOCK, OPEN)
            nodes.run("migrate", "rollback")
            assert status(nodes)["phase"] == "bridge"


@pytest.mark.row("beyond.2")
def test_finalize_has_to_see_the_fence_or_the_operators_word(servers: Ensemble, tmp_path: Path) -> None:
    with upgrading(tmp_path / "cluster", servers.connect_string + "/kafka", count=1) as nodes:
        for command in ("bridge", "import"):
            nodes.run("migrate", command)
        servers.kill()
        stood = status(nodes)
        assert "does not answer" in stood["blocking"][0]
        assert (stood["phase"], stood["ways"][0]) == (
            "imported",
            "start ZooKeeper's servers, then: fencepost migrate fence",
        )
        servers.start()
        nodes.run("migrate", "fence")
        with outside(servers) as client:
            client.set(BLOCK, FIRST_BLOCK)
            for words in ((), ("--zookeeper-is-stopped",), ("--dry-run",)):
                assert "the fence is gone" in refusal(nodes, "finalize", *words)
            stood = status(nodes)
            assert (stood["phase"], len(stood["ways"])) == ("quorum", 1)
            for command in ("rollback", "import", "fence"):
                nodes.run("migrate", command)
            client.create("/kafka/brokers/ids/7", b"{}", ephemeral=True)
            assert status(nodes)["standing_still"] == [7]
        servers.kill()
        assert "say so: --zookeeper-is-stopped" in refusal(nodes, "finalize", "--timeout", "12")
        assert "--zookeeper-is-stopped" in " ".join(status(nodes)["ways"])
        nodes.run("migrate", "finalize", "--zookeeper-is-stopped")
        assert status(nodes)["phase"] == "finalized"
