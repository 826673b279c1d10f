"""The load of ``bench transactions`` against librdkafka's mock cluster, and what its read-back notices."""

from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer

from fencepost.bench import transaction_load
from fencepost.bench.transaction_load import Load, load_cluster
from fencepost.bench.transactions import lines
from fencepost.client import read_back
from fencepost.client.read_back import READ_COMMITTED, READ_UNCOMMITTED, NotReadToEnd, read_topic
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from tests.together import Together


@pytest.fixture
def bootstrap(mock_cluster: str) -> str:
    return mock_cluster


def load(bootstrap: str, topic: str, **changes: object) -> Load:
    settings = {"producers": 2, "messages": 3, "warm_up_s": 0.0, "seconds": 0.2, "hides_aborted": False}
    return Load(bootstrap=bootstrap, topic=topic, **(settings | changes))  # type: ignore[arg-type]


def test_what_was_committed_is_read_back(bootstrap: str) -> None:
    loaded = load_cluster(load(bootstrap, "sound"))
    assert loaded.fault == ""
    assert loaded.latencies_ns
    assert all(0 < each < 5e9 for each in loaded.latencies_ns)


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
        values = [transaction_load._VALUE.pack(0, number, each) for each in range(2)]
        assert producer.write([Record("held", value, 0) for value in values]) is Outcome.COMMITTED
    with Together() as cases:
        for name, (committed, fault) in READ_BACK.items():
            with cases.case(name):
                found = transaction_load._difference(asked, [committed])
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


def test_the_table_has_the_mock_beside_the_cluster() -> None:
    row = {"producers": 1, "messages": 100, "p50_ms": 2.0, "p99_ms": 9.5}
    figures = {
        "rows": [row | {"txn_per_s": 400.0, "verified": False}],
        "baseline": [row | {"txn_per_s": 800.0, "verified": True}],
    }
    assert lines(figures).splitlines()[1].split() == [
        "1", "100", "400", "0.50", "2.00", "9.50", "NO", "800", "2.00", "9.50",
    ]  # fmt: skip
