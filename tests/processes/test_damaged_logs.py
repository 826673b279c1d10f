"""One flipped bit in a partition's segment: nothing acknowledged is cut without an operator's word."""

import confluent_kafka
import pytest

from tests.harness.nodes import Nodes, wait_for

pytestmark = pytest.mark.slow

TOPIC = "damaged"
TRANSACTIONS = 60
FLIPPED = 0.25  # of the segment


def committed(nodes: Nodes, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": nodes.bootstrap, "transactional.id": "damaged"})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        producer.produce(TOPIC, f"value-{number}".encode(), partition=0)
        producer.commit_transaction(30)
    # The last one is answered; its marker is written a moment later.
    words = ("transactions", "describe", "--transactional-id", "damaged")
    wait_for("the last marker", lambda: nodes.read(*words)["transaction_state"] == "CompleteCommit")


def test_a_flipped_bit_takes_one_partition_offline_until_it_is_repaired(nodes: Nodes) -> None:
    nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1,2")
    committed(nodes, TRANSACTIONS)
    nodes.kill(1)
    path = nodes.home(1) / f"{TOPIC}-0" / f"{0:020d}.log"
    raw = path.read_bytes()
    at = int(len(raw) * FLIPPED)
    path.write_bytes(raw[:at] + bytes((raw[at] ^ 4,)) + raw[at + 1 :])
    mark = nodes.log_size(1)
    nodes.start(1)
    event = nodes.await_event(1, "partition_offline", mark)
    assert event["partition"] == f"{TOPIC}-0"
    assert "storage repair" in event["reason"]
    assert "whole batches lie behind it" in event["reason"]
    wait_for("node 1 registers", lambda: nodes.events(1, "broker_registered", mark))
    assert path.read_bytes()[at + 1 :] == raw[at + 1 :], "all bytes are kept"
    nodes.kill(1)
    words = ("storage", "repair", "--node", 1, "--partition", f"{TOPIC}-0")
    shown = nodes.read(*words, status=1)
    assert shown["lost"]["batches"] > TRANSACTIONS
    repaired = nodes.read(*words, "--accept-data-loss")
    end = repaired["end_offset"]
    mark = nodes.log_size(1)
    nodes.start(1)
    nodes.up()
    assert f"{TOPIC}:0:{end}\n" in nodes.run("get-offsets", "--topic", TOPIC)
    nodes.run("topics", "delete", "--topic", TOPIC)
    assert not nodes.events(1, "partition_offline", mark)
