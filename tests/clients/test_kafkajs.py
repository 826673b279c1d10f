"""The stories of ``test_transactions.py``, played by kafkajs; what it wrote is read by aiokafka.

kafkajs comes from npm. Where node or npm is missing, or npm cannot get it, that is said as NOT RUN.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.act import PRODUCED, TRANSACTIONS
from tests.clients.real_cluster import COMMAND_SECONDS_MAX, NODE_IDS, RealCluster, real_cluster
from tests.clients.test_transactions import messages, played

pytestmark = pytest.mark.slow

KAFKAJS = "kafkajs@2.2.4"
READER = "aiokafka"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of node modules with kafkajs."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NOT RUN: kafkajs needs node and npm")
    folder = tmp_path_factory.mktemp("kafkajs")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), KAFKAJS]
    try:
        subprocess.run(install, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"NOT RUN: npm cannot install {KAFKAJS}: {error}")
    return folder / "node_modules"


@pytest.fixture(scope="module")
def cluster(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("kafkajs-cluster") / "cluster") as started:
        yield started


def acted(cluster: RealCluster, modules: Path, story: str) -> tuple[Any, Any]:
    """What kafkajs saw, and what aiokafka reads afterwards."""
    bootstrap = ",".join(cluster.address(node_id) for node_id in NODE_IDS)
    topic = f"kafkajs-{story}"
    ended = subprocess.run(
        ["node", str(Path(__file__).with_name("act.js")), story, bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
        env={**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), played(cluster, READER, "reads", topic)


def test_what_plain_and_idempotent_producers_send_is_read(cluster: RealCluster, modules: Path) -> None:
    _, read = acted(cluster, modules, "plain")
    sent = [f"{idempotent}-{number}" for idempotent in (True, False) for number in range(PRODUCED)]
    assert read["all"] == sent


def test_exactly_the_committed_is_read_by_who_reads_committed(cluster: RealCluster, modules: Path) -> None:
    _, read = acted(cluster, modules, "transactions")
    assert read == {"committed": messages(*range(1, TRANSACTIONS, 2)), "all": messages(*range(TRANSACTIONS))}


@pytest.mark.row("360.1", "588.4")
def test_a_second_instance_fences_the_first(cluster: RealCluster, modules: Path) -> None:
    saw, read = acted(cluster, modules, "fenced")
    assert "INVALID_PRODUCER_EPOCH" in saw["error"]
    assert saw["again"] is not None, "the fenced producer went on"
    assert read["committed"] == ["first-committed", "second-committed"]


@pytest.mark.row("588.2", "588.3")
def test_after_a_timeout_a_successor_works_at_once(cluster: RealCluster, modules: Path) -> None:
    saw, read = acted(cluster, modules, "timed_out")
    assert saw["error"] is not None
    assert read["committed"] == ["next"]
