"""kafka-python's admin client and our own commands are asked the same; they must answer the same.

find_hanging_transactions of kafka-python means something else than Kafka's tool and ours: open transactions
that are *old*, as their coordinator tells it. Those are ``transactions list --running-longer-than-ms``. What
hangs on a partition, known to no coordinator, only our command finds; either abort ends it.
"""

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AbortTransactionSpec

from tests.clients.hanging import HANGING_PRODUCER_ID, leave_hanging
from tests.clients.stories import WAIT_SECONDS_MAX, expect
from tests.harness.nodes import Nodes

SLACK_MS: Final = 5 * 60 * 1000  # kafka-python adds this to the timeout that it is told

Scenario = Callable[[Nodes], str]


def same_answers(cluster: Nodes) -> str:
    """One committed and one open transaction, listed and described by both."""
    bootstrap = cluster.bootstrap
    ended, opened = _producer(bootstrap, "admin-ended"), _producer(bootstrap, "admin-open")
    _begin(ended, "admin")
    ended.commit_transaction(WAIT_SECONDS_MAX)
    _begin(opened, "admin")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        _same_transactions(cluster, admin)
        _same_producers(cluster, admin)
    finally:
        admin.close()
        opened.abort_transaction(WAIT_SECONDS_MAX)
    return "lists, descriptions, producers and old transactions are the same"


def _same_transactions(cluster: Nodes, admin: Any) -> None:
    listed = admin.list_transactions(transactional_id_pattern="admin-.*")
    theirs = {
        (each.transactional_id, each.producer_id, each.state) for rows in listed.values() for each in rows
    }
    rows = _ask(cluster, "list", "--transactional-id-pattern", "admin-.*")
    ours = {(each["transactional_id"], each["producer_id"], each["transaction_state"]) for each in rows}
    expect("list", theirs, ours)
    expect("ids listed", {each[0] for each in ours}, {"admin-ended", "admin-open"})
    by_state = admin.list_transactions(state_filters=["ongoing"], transactional_id_pattern="admin-.*")
    expect(
        "list --state", [each.transactional_id for rows in by_state.values() for each in rows], ["admin-open"]
    )
    for name, told in admin.describe_transactions(["admin-ended", "admin-open"]).items():
        row = _ask(cluster, "describe", "--transactional-id", name)
        started = row["current_transaction_start_time_ms"]
        ours_now = (
            row["coordinator_id"],
            row["transaction_state"],
            row["producer_id"],
            row["producer_epoch"],
            row["transaction_timeout_ms"],
            -1 if started is None else started,
            set(row["topic_partitions"] or ()),
        )
        partitions = {f"{each.topic}-{each.partition}" for each in told.topic_partitions}
        expect(f"describe {name}", (*told[:6], partitions), ours_now)
    old = admin.find_hanging_transactions(max_transaction_timeout_ms=-SLACK_MS)
    running = _ask(cluster, "list", "--running-longer-than-ms", "0")
    expect("old", {each["transactional_id"] for each in old}, {each["transactional_id"] for each in running})
    expect("none is hanging", admin.find_hanging_transactions(), [])


def _same_producers(cluster: Nodes, admin: Any) -> None:
    partition = TopicPartition("admin", 0)
    theirs = admin.describe_producers([partition])[partition].active_producers
    rows = _ask(cluster, "describe-producers", "--topic", "admin", "--partition", "0")
    ours = [
        (
            row["producer_id"],
            row["producer_epoch"],
            row["last_sequence"],
            row["last_timestamp"],
            row["latest_coordinator_epoch"],
            -1
            if row["current_transaction_start_offset"] in (None, "None")
            else row["current_transaction_start_offset"],
        )
        for row in rows
    ]
    expect("describe-producers", sorted(tuple(each) for each in theirs), sorted(ours))


def hanging(cluster: Nodes) -> str:
    """A transaction that no coordinator knows: our command finds it, kafka-python's admin aborts it."""
    cluster.run("topics", "create", "--topic", "hung", "--replica-assignment", "1")
    leave_hanging(cluster, "hung")
    where = ("transactions", "find-hanging", "--topic", "hung", "--max-transaction-timeout", "0")
    found = cluster.read(*where, status=1)["hanging"]
    expect(
        "found", [(each["producer_id"], each["start_offset"]) for each in found], [(HANGING_PRODUCER_ID, 0)]
    )
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        partition = TopicPartition("hung", 0)
        (held,) = admin.describe_producers([partition])[partition].active_producers
        expect("describe_producers", held.current_transaction_start_offset, 0)
        admin.abort_transaction(AbortTransactionSpec(partition, held.producer_id, held.producer_epoch))
        (free,) = admin.describe_producers([partition])[partition].active_producers
        expect("afterwards", free.current_transaction_start_offset, -1)
    finally:
        admin.close()
    cluster.run(*where)
    return "found by find-hanging, ended by abort_transaction"


def _producer(bootstrap: str, transactional_id: str) -> Any:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    return producer


def _begin(producer: Any, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(WAIT_SECONDS_MAX)


def _ask(cluster: Nodes, *words: str) -> Any:
    return cluster.read("transactions", *words)


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "admin: the answers of our commands": ("kafka-python", same_answers),
    "admin: a hanging transaction": ("kafka-python", hanging),
}
