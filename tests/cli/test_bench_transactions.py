"""``fencepost bench transactions``: its rows, its windows, its table, and real clusters."""

import logging
import os
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.bench import transactions
from fencepost.bench.listeners import pid_listening
from fencepost.bench.process import Child
from fencepost.bench.transaction_load import CLIENT, CONFLUENT, FENCEPOST, Delete, Loaded
from fencepost.bench.transaction_records import Load
from fencepost.bench.transaction_subjects import CLUSTER, MOCK, PEER, Subject, found
from fencepost.bench.transactions import Plan, lines
from fencepost.cluster.console import Failed
from fencepost.cluster.target import target_at
from tests.harness.command import here, in_process, in_process_json
from tests.harness.nodes import CALM, Nodes, running, wait_for
from tests.ports import cluster_port
from tests.together import table

FIELDS = {
    "cluster", "client", "protocol", "producers", "messages", "message_bytes", "txn_per_s", "windows",
    "p50_ms", "p99_ms", "cpu_ms", "leader", "verified",
}  # fmt: skip
NODES = {"node-1", "node-2", "node-3"}


class Recorder(Child):
    """Answers each load at once: a transaction of 1 ms per call so far; 10 ms of CPU on two nodes."""

    def __init__(self, failing: str = "no such topic") -> None:
        self.failing = failing
        self.loads: list[Load] = []
        self.deleted: list[tuple[str, str]] = []

    def ask(self, command: Any, result: Any) -> Any:
        if isinstance(command, Delete):
            self.deleted += [(command.bootstrap, each) for each in command.topics]
            return None
        assert isinstance(command, Load)
        self.loads.append(command)
        if self.failing in command.topic:
            raise Failed("the client could not go on")
        cpu_s = {"node-1": 0.006, "node-2": 0.004, CLIENT: 0.005}
        return Loaded([1_000_000] * len(self.loads), cpu_s, "")


def plan(**changes: object) -> Plan:
    numbers = {"producers": (1,), "messages": (1,), "message_bytes": 100, "seconds": 2.0}
    rest = {"clients": (CONFLUENT,), "protocol": None, "warm_up_s": 0.0, "windows": 1}
    return Plan(**(numbers | rest | changes))  # type: ignore[arg-type]


def load() -> Load:
    return Load(
        client=CONFLUENT, bootstrap="", topic="t", producers=1, messages=1, message_bytes=100, warm_up_s=0.5,
        seconds=2.0, hides_aborted=True,
    )  # fmt: skip


OWN = Subject(name=CLUSTER, bootstrap="own", leader="node-2", transaction_version=2)
OTHER = Subject(name=PEER, bootstrap="other", transaction_version=2)


def test_windows_are_in_abba_order_each_with_a_topic_of_its_own() -> None:
    child = Recorder()
    transactions._windows(plan(windows=3), load(), child, [OWN, OTHER], lambda _: None)
    assert [each.bootstrap for each in child.loads] == ["own", "other", "other", "own", "own", "other"]
    assert len({each.topic for each in child.loads}) == 6
    assert all(each.is_verified and each.seconds == 2.0 for each in child.loads)


def test_a_warm_up_loads_both_and_is_not_counted() -> None:
    child = Recorder()
    loaded = transactions._windows(plan(warm_up_s=7.0), load(), child, [OWN, OTHER], lambda _: None)
    assert [each.seconds for each in child.loads] == [7.0, 7.0, 2.0, 2.0]
    assert [each.is_verified for each in child.loads] == [False, False, True, True]
    assert [len(each.latencies_ns) for each in loaded] == [3, 4]  # of the third call and of the fourth


def test_what_was_loaded_is_deleted_but_for_the_mock_cluster() -> None:
    child = Recorder()
    mock = Subject(name=MOCK, bootstrap="mock")
    transactions._windows(plan(warm_up_s=1.0, windows=2), load(), child, [OWN, mock], lambda _: None)
    loaded = [(each.bootstrap, each.topic) for each in child.loads]
    assert child.deleted == [each for each in loaded if each[0] == "own"]
    assert len(child.deleted) == 3


def test_a_row_has_the_median_of_its_windows_and_the_cpu_time_of_one_transaction() -> None:
    child = Recorder()
    (windows,) = transactions._windows(plan(windows=3), load(), child, [OWN], lambda _: None)
    row = windows.row(OWN, load())
    assert set(row) == FIELDS
    assert row["windows"] == [0.5, 1.0, 1.5]  # 1, 2 and 3 transactions in 2 s
    assert row["txn_per_s"] == 1.0
    assert row["cpu_ms"] == {"node-1": 3.0, "node-2": 2.0, CLIENT: 2.5}  # of 6 transactions in 3 windows
    assert (row["leader"], row["verified"], row["p50_ms"]) == ("node-2", True, 1.0)


def test_a_window_that_fails_is_a_fault_and_the_others_count() -> None:
    child = Recorder(failing=f"{CLUSTER}-1")
    (windows,) = transactions._windows(plan(windows=3), load(), child, [OWN], lambda _: None)
    found = windows.row(OWN, load())
    assert (found["windows"], found["verified"]) == ([0.5, 1.5], False)
    assert windows.faults == ["the client could not go on"]


def test_a_row_of_windows_that_all_fail_has_no_figures() -> None:
    child = Recorder(failing="t-")
    (windows,) = transactions._windows(plan(warm_up_s=1.0, windows=2), load(), child, [OWN], lambda _: None)
    found = windows.row(OWN, load())
    assert set(found) == FIELDS
    assert [found[each] for each in ("txn_per_s", "p50_ms", "p99_ms", "verified")] == [
        None,
        None,
        None,
        False,
    ]
    assert len(windows.faults) == 3  # the warm-up's, too
    for rows, baseline in (([found], []), ([row()], [found]), ([found], [row(cluster=PEER)])):
        assert " - " in lines({"rows": rows, "baseline": baseline}).splitlines()[1]


def test_a_fault_of_any_window_is_a_fault_of_its_row() -> None:
    windows = transactions._Windows()
    windows.add(Loaded([1], {}, "a record is missing"), 1.0)
    windows.add(Loaded([1], {}, ""), 1.0)
    assert windows.row(OWN, load())["verified"] is False
    assert windows.faults == ["a record is missing"]


@table(
    ("client", "level", "protocol"),
    [
        pytest.param(FENCEPOST, 2, "v2", id="both-know-v2"),
        pytest.param(FENCEPOST, 0, "v1", id="the-cluster-does-not"),
        pytest.param(FENCEPOST, 1, "v1", id="the-level-between"),
        pytest.param(CONFLUENT, 2, "v1", id="the-client-does-not"),
    ],
)
def test_a_row_says_which_protocol_its_client_uses(client: str, level: int, protocol: str) -> None:
    assert Subject(name=CLUSTER, bootstrap="", transaction_version=level).protocol(client) == protocol


def row(**changes: object) -> dict[str, Any]:
    fields = {
        "cluster": CLUSTER, "client": CONFLUENT, "protocol": "v1", "producers": 1, "messages": 100,
        "message_bytes": 100, "txn_per_s": 400.0, "windows": [400.0], "p50_ms": 2.0, "p99_ms": 9.5,
        "cpu_ms": {"node-1": 1.5, "node-2": 2.25, CLIENT: 0.5}, "leader": "node-2", "verified": False,
    }  # fmt: skip
    return fields | changes


def test_the_table_has_the_mock_beside_the_cluster() -> None:
    mock = row(
        cluster=MOCK, txn_per_s=800.0, windows=[800.0], verified=True, cpu_ms={MOCK: 0.25, CLIENT: 1.0}
    )
    first, second, third = lines({"rows": [row(), row(client=FENCEPOST)], "baseline": [mock]}).splitlines()
    assert "X MOCK  MOCK TXN/S" in first
    assert second.split() == [
        "confluent", "v1", "1", "100", "400", "2.00", "9.50", "3.75", "2.25", "0.50", "NO",
        "0.50", "800", "2.00", "9.50", "0.25",
    ]  # fmt: skip
    assert third.split()[10:] == ["NO", "-", "-", "-", "-", "-"]  # the mock is librdkafka's alone


def test_the_table_has_the_range_of_several_windows() -> None:
    peer = row(cluster=PEER, txn_per_s=100.0, windows=[90.0, 100.0, 120.0], leader=None)
    first, second = lines({"rows": [row(windows=[300.0, 400.0, 450.0])], "baseline": [peer]}).splitlines()
    assert "X PEER  PEER TXN/S  PEER RANGE" in first
    assert second.split()[4:6] == ["400", "300-450"]
    assert second.split()[12:15] == ["4.00", "100", "90-120"]


def test_the_table_of_a_cluster_alone() -> None:
    first, second = lines({"rows": [row(cpu_ms={CLIENT: 0.5}, leader=None)], "baseline": []}).splitlines()
    assert first.split()[-1] == "VERIFIED"
    assert second.split()[-4:] == ["-", "-", "0.50", "NO"]  # the nodes' processes were not found


def test_the_process_that_listens_on_a_port_is_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert pid_listening(port) is None
        listening.listen()
        assert pid_listening(port) == os.getpid()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert pid_listening(client.getsockname()[1]) is None
    assert pid_listening(port) is None


USAGE = [
    pytest.param(("--client", "sarama"), "--client", id="no-such-client"),
    pytest.param(("--protocol", "v2"), "knows v1 alone", id="librdkafka-does-not-know-v2"),
    pytest.param(
        ("--client", "fencepost", "--client", "confluent", "--protocol", "v2"), "librdkafka", id="of-two"
    ),
    pytest.param(("--client", "aiokafka", "--protocol", "v2"), "aiokafka knows v1 alone", id="nor-aiokafka"),
    pytest.param(("--client", "java"), "needs --java-classpath", id="java-without-jars"),
    pytest.param(("--message-bytes", "15"), "16<=x<=524288", id="no-room-for-the-numbers"),
    pytest.param(("--windows", "0"), "--windows", id="no-window"),
    pytest.param(("--command-config", "x"), "needs --bootstrap-server", id="tls-of-a-new-cluster"),
    pytest.param(
        ("--command-config", "x", "--bootstrap-server", "127.0.0.1:1", "--client", "fencepost"),
        "--client confluent alone",
        id="tls-of-another-client",
    ),
    pytest.param(("--peer", "kafka"), "--peer: expected HOST:PORT", id="no-address"),
    pytest.param(("--bootstrap-server", "127.0.0.1:1", "--dir", "x"), "for a new one", id="new-and-running"),
]


@pytest.mark.parametrize(("options", "words"), USAGE)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    result = here(capsys, "bench", "transactions", *options)
    assert result.status == 2
    assert words in result.stderr


@pytest.mark.slow
def test_a_new_cluster_is_given_the_protocol_and_measured_beside_the_mock_cluster() -> None:
    """Of librdkafka, which alone can use the mock cluster, and of a client that knows V2."""
    clients = ("--client", CONFLUENT, "--client", FENCEPOST, "--protocol", "v1")
    rows = ("--producers", "1,2", "--messages", 3, "--message-bytes", 1000)
    words = (*rows, "--seconds", 1.0, "--warm-up", 0, "--port", cluster_port())
    document = in_process_json("bench", "transactions", *clients, *words)
    assert set(document) == {"rows", "baseline"}
    kinds = [(client, count) for count in (1, 2) for client in (CONFLUENT, FENCEPOST)]
    for name, expected in (("rows", kinds), ("baseline", kinds[::2])):
        measured = document[name]
        assert [(each["client"], each["producers"]) for each in measured] == expected
        for each in measured:
            assert set(each) == FIELDS
            assert (each["protocol"], each["messages"], each["message_bytes"]) == ("v1", 3, 1000)
            assert each["verified"] is True
            assert each["txn_per_s"] > 0
            assert 0 < each["p50_ms"] <= each["p99_ms"]
            assert set(each["cpu_ms"]) == {CLIENT} | (NODES if name == "rows" else {MOCK})
            assert each["leader"] in (NODES if name == "rows" else {None})


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("cluster"), *CALM) as nodes:
        yield nodes


@pytest.mark.slow
def test_librdkafka_ends_its_transactions_with_v1_on_a_cluster_that_has_v2(nodes: Nodes) -> None:
    """Where this fails, librdkafka has learnt V2: it leaves ``V1_ONLY``."""
    said: list[str] = []
    log = logging.Logger("librdkafka", logging.DEBUG)  # noqa: LOG001  (private to this test)
    log.addHandler(logging.Handler())
    log.handlers[0].emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    settings = {"bootstrap.servers": nodes.bootstrap, "transactional.id": "t", "debug": "protocol"}
    producer = Producer(settings, logger=log)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("topic", b"value")
    producer.commit_transaction(30)
    producer.poll(0)
    assert re.search(r"Sent EndTxnRequest \(v[0-4],", "\n".join(said))


@pytest.mark.slow
def test_clusters_that_run_are_loaded_and_left_as_they_are(nodes: Nodes) -> None:
    topics = nodes.read("topics", "list")
    common = ("bench", "transactions", "--bootstrap-server", nodes.bootstrap, "--seconds", 1.0)
    client = ("--client", FENCEPOST, "--producers", 2, "--messages", 3)
    document = in_process_json(*common, *client, "--peer", nodes.bootstrap, "--windows", 2, "--warm-up", 0.1)
    for name, rows in (("cluster", document["rows"]), ("peer", document["baseline"])):
        (each,) = rows
        assert (each["cluster"], each["client"], each["protocol"]) == (name, FENCEPOST, "v2")
        assert each["verified"]
        assert len(each["windows"]) == 2
        assert each["leader"] in NODES  # of the row: it may have moved since
        assert set(each["cpu_ms"]) == {CLIENT, *NODES}
    assert nodes.read("topics", "list") == topics
    refused = in_process(*common, "--client", FENCEPOST, "--protocol", "v1")
    assert refused.status == 2
    assert "transaction.version of the cluster" in refused.stderr
    assert "features downgrade" in refused.stderr
    nodes.run("features", "downgrade", "--feature", "transaction.version=0")
    target = target_at("", nodes.bootstrap)
    wait_for("brokers without V2", lambda: found(CLUSTER, target).transaction_version == 0 or None)
    refused = in_process(*common, "--client", FENCEPOST, "--protocol", "v2")
    assert "features upgrade" in refused.stderr
    one = ("--producers", 1, "--messages", 1, "--warm-up", 0)
    (measured,) = in_process_json(*common, "--client", FENCEPOST, *one)["rows"]
    assert measured["protocol"] == "v1"
    assert nodes.complaints() == []
