"""The load of ``bench transactions`` against librdkafka's mock cluster, and what its read-back notices."""

import os
from functools import partial
from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer

from fencepost.bench.transaction_load import CLIENT, CONFLUENT, load_cluster
from fencepost.bench.transaction_records import Load, difference, values_of
from fencepost.bench.transaction_threads import Threads
from fencepost.client import read_back, transactional_producer
from fencepost.client.read_back import READ_COMMITTED, READ_UNCOMMITTED, NotReadToEnd, read_topic
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from tests.together import Together


@pytest.fixture
def bootstrap(mock_cluster: str) -> str:
    return mock_cluster


def load(bootstrap: str, topic: str, **changes: object) -> Load:
    settings = {"producers": 2, "messages": 3, "message_bytes": 100, "warm_up_s": 0.0, "seconds": 0.2}
    common = {"client": CONFLUENT, "bootstrap": bootstrap, "topic": topic, "hides_aborted": False}
    return Load(**(common | settings | changes))  # type: ignore[arg-type]


def test_what_was_committed_is_read_back(bootstrap: str) -> None:
    loaded = load_cluster(load(bootstrap, "sound"))
    assert loaded.fault == ""
    assert loaded.latencies_ns
    assert all(0 < each < 5e9 for each in loaded.latencies_ns)


def test_the_cpu_time_of_the_window_is_measured(bootstrap: str) -> None:
    # Node 1 is this process, which loads the cluster: it used as much as the client. No process has id 2**30.
    nodes = {"node-1": os.getpid(), "node-2": 2**30}
    loaded = load_cluster(load(bootstrap, "cpu", seconds=0.5, nodes=nodes))
    assert set(loaded.cpu_s) == {"node-1", CLIENT}
    assert loaded.cpu_s["node-1"] == pytest.approx(loaded.cpu_s[CLIENT], abs=0.05)
    assert 0 < loaded.cpu_s[CLIENT] < 5


def test_a_load_without_a_read_back_has_no_fault(bootstrap: str) -> None:
    assert load_cluster(load(bootstrap, "unread", hides_aborted=True, is_verified=False)).fault == ""


def test_a_cluster_that_is_gone_ends_the_load_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_producer, "CALL_SECONDS", 0.2)
    hasty = partial(TransactionalProducer, patience_s=0.2)
    monkeypatch.setattr("fencepost.bench.transaction_threads.TransactionalProducer", hasty)
    writers = Threads(load("127.0.0.1:1", "gone"), 4)
    with pytest.raises(KafkaException):
        writers.open()


def test_values_have_the_size_that_is_wanted(bootstrap: str) -> None:
    wanted = load(bootstrap, "sized", message_bytes=1000)
    assert {len(each) for each in values_of(wanted, 0, 0)} == {1000}
    assert load_cluster(wanted).fault == ""
    assert difference(load(bootstrap, "sized"), [[], []]) == "saw a value of 1000 bytes, expected 100"


def test_an_aborted_record_that_is_seen_is_a_fault(bootstrap: str) -> None:
    # The mock cluster shows aborted records to everyone: the check must notice that.
    loaded = load_cluster(load(bootstrap, "torn", hides_aborted=True))
    assert "expected None" in loaded.fault


READ_BACK: Final = {  # what producer 0 has committed -> what is wrong with the two transactions that are seen
    "all-there": ([0, 1], ""),
    "lost": ([0, 1, 2], "producer 0: never saw (transaction, record) (2, 0)"),
    "too-much": ([0], "producer 0: saw (transaction, record) (1, 0), expected None"),
    "out-of-order": ([1, 0], "producer 0: saw (transaction, record) (0, 0), expected (1, 0)"),
}


def test_the_read_back_is_held_against_what_was_committed(bootstrap: str) -> None:
    asked = load(bootstrap, "held", producers=1, messages=2, hides_aborted=True)
    producer = TransactionalProducer(bootstrap, "held")
    for number in range(2):
        values = values_of(asked, 0, number)
        assert producer.write([Record("held", value, 0) for value in values]) is Outcome.COMMITTED
    with Together() as cases:
        for name, (committed, fault) in READ_BACK.items():
            with cases.case(name):
                found = difference(asked, [committed])
                assert found.startswith(fault)
                assert bool(fault) == bool(found)


def test_a_topic_is_read_to_its_end(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(40):
        producer.produce("whole", str(number).encode(), partition=number % 4)
    assert producer.flush(10) == 0
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        seen = list(read_topic(bootstrap, "whole", isolation, timeout_s=20))
        assert sorted(int(each.value) for each in seen) == list(range(40))
        assert {each.partition: each.offset for each in seen} == dict.fromkeys(range(4), 9)


def test_a_topic_whose_end_does_not_come_is_named(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("late", b"1", partition=2)
    assert producer.flush(10) == 0
    with pytest.raises(NotReadToEnd, match=r"late: not read to \{2: 1\}"):
        list(read_topic(bootstrap, "late", READ_COMMITTED, timeout_s=-1))


def test_a_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_back, "ASK_SECONDS", 0.2)
    with pytest.raises(KafkaException):
        list(read_topic("127.0.0.1:1", "t", READ_COMMITTED, timeout_s=1))
