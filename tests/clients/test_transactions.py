"""Real producers produce and transact against a real cluster, and real consumers read what they did.

Every story is played by each library in a process of its own (``act.py``), on a topic that is created by it.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.act import FIRSTS, MESSAGES, PRODUCED, TRANSACTIONS
from tests.clients.libraries import LIBRARIES
from tests.clients.real_cluster import COMMAND_SECONDS_MAX, NODE_IDS, RealCluster, real_cluster

pytestmark = pytest.mark.slow

ACT = (sys.executable, "-W", "ignore", "-m", "tests.clients.act")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("transactions") / "cluster") as started:
        yield started


def played(cluster: RealCluster, library: str, story: str, topic: str | None = None) -> Any:
    """What the library saw. Topic and transactional id are of this story and library alone."""
    bootstrap = ",".join(cluster.address(node_id) for node_id in NODE_IDS)
    arguments = [library, story, bootstrap, topic or f"{library}-{story}"]
    ended = subprocess.run(
        [*ACT, *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def timed_out(
    cluster: RealCluster, library: str, topic: str, first: str, between: Callable[[], None] = lambda: None
) -> Any:
    """What the library saw of the story. ``between`` happens when its transaction has timed out."""
    bootstrap = ",".join(cluster.address(node_id) for node_id in NODE_IDS)
    with subprocess.Popen(
        [*ACT, library, "timed_out", bootstrap, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as playing:
        assert playing.stdout is not None
        assert playing.stdout.readline() == "timed out\n"
        between()
        said, complaints = playing.communicate(f"{first}\n", timeout=COMMAND_SECONDS_MAX)
    assert playing.returncode == 0, complaints
    return json.loads(said)


def messages(*transactions: int) -> list[str]:
    return [f"{number}-{message}" for number in transactions for message in range(MESSAGES)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_plain_and_idempotent_producers_send_is_read_in_order(
    cluster: RealCluster, library: str
) -> None:
    read = played(cluster, library, "plain")["read"]
    assert read == [f"{idempotent}-{number}" for idempotent in (True, False) for number in range(PRODUCED)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_exactly_the_committed_is_read_by_who_reads_committed(cluster: RealCluster, library: str) -> None:
    saw = played(cluster, library, "transactions")
    assert saw["committed"] == messages(*range(1, TRANSACTIONS, 2))
    assert saw["all"] == messages(*range(TRANSACTIONS))


FENCED = {  # what each makes of the 47 that a fenced producer's Produce is answered with
    "confluent-kafka": "_FENCED",
    "kafka-python": "InvalidProducerEpochError",
    "aiokafka": "ProducerFenced",
}


@pytest.mark.row("360.1", "588.4")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_second_instance_fences_the_first_and_aborts_what_it_left_open(
    cluster: RealCluster, library: str
) -> None:
    saw = played(cluster, library, "fenced")
    assert FENCED[library] in saw["error"]
    assert saw["again"] is not None, "the fenced producer went on"
    assert saw["committed"] == ["first-committed", "second-committed"]


@pytest.mark.row("588.1", "588.2", "588.3", "588.4")
@pytest.mark.parametrize(
    ("library", "first"),
    [
        *(("confluent-kafka", first) for first in FIRSTS),
        ("kafka-python", "produce-first"),
        ("aiokafka", "produce-first"),
    ],
)
def test_after_a_timeout_the_producer_or_its_successor_goes_on(
    cluster: RealCluster, library: str, first: str
) -> None:
    saw = timed_out(cluster, library, f"{library}-timed-out-{first}", first)
    assert saw["error"] is not None, "the transaction was ended by the coordinator"
    assert saw["stopped"] is None or library != "confluent-kafka", "librdkafka can recover, so it must"
    assert saw["committed"] == ["next"]


@pytest.mark.row("588.3", "360.3")
def test_librdkafka_goes_on_after_a_timeout_and_a_failover_of_the_coordinator(cluster: RealCluster) -> None:
    """The new coordinator knows which epoch timed out, as that is in the replicated state."""

    def fail_over() -> None:
        leader = cluster.leader()
        cluster.run("kill", str(leader))
        cluster.run("start", str(leader))
        assert cluster.leader() != leader

    saw = timed_out(cluster, "confluent-kafka", "failed-over", "commit-first", fail_over)
    assert saw["error"] is not None
    assert saw["stopped"] is None, "librdkafka can recover, so it must"
    assert saw["committed"] == ["next"]


@pytest.mark.parametrize("library", ["aiokafka"])
def test_what_was_committed_survives_the_death_of_every_node(cluster: RealCluster, library: str) -> None:
    """Killed, not stopped; and the partition's snapshots of its producers are gone, too."""
    topic = "survives"
    committed = played(cluster, library, "transactions", topic)["committed"]
    for node_id in NODE_IDS:
        cluster.run("kill", str(node_id))
    for snapshot in cluster.directory.glob(f"nodes/*/data/{topic}-0/*.snapshot"):
        snapshot.unlink()
    for node_id in NODE_IDS:
        cluster.run("start", str(node_id))
    saw = played(cluster, library, "reread", topic)
    assert saw == {"before": committed, "after": [*committed, "next"]}
