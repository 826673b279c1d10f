"""Kafka's own tools at a cluster of ``fencepost up --tls``, with the settings that it wrote for them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cluster.local_cluster import create_cluster
from fencepost.cluster.secured import secured
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.players import FETCHED, HERE, NotHere, copied, need
from tests.harness.nodes import JSON_LOGS, Nodes, ended_clean
from tests.ports import cluster_port

pytestmark = pytest.mark.slow

USERS = {"alice": "wonder land=#1"}


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        need("java", "mvn")
        return f"{copied(HERE / 'tools/pom.xml', FETCHED / 'tools')}/*"
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture(params=[USERS, None], ids=["by-scram", "by-a-certificate"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    home, port = tmp_path / "cluster", cluster_port()
    own, files = secured(str(home), 1, port, request.param)
    found = Nodes(create_cluster(home, 1, port, (JSON_LOGS,), own=own, files=files))
    with ended_clean(found):
        found.up()
        yield found


def topics(nodes: Nodes, jars: str, settings: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tool = ["java", "-cp", jars, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", nodes.bootstrap]
    return subprocess.run(
        [*tool, "--command-config", str(settings), *words],
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )


def test_kafka_topics_makes_a_topic(nodes: Nodes, jars: str) -> None:
    (settings,) = (nodes.directory / "clients").iterdir()
    made = topics(nodes, jars, settings, "--create", "--topic", "from-java")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "from-java" in nodes.run("topics", "list")
    if "scram" not in settings.read_text("utf-8"):
        return
    wrong = nodes.directory / "wrong.properties"
    wrong.write_text(settings.read_text("utf-8").replace("wonder", "guess"), "utf-8")
    refused = topics(nodes, jars, wrong, "--list")
    assert refused.returncode == 1
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in refused.stdout + refused.stderr
