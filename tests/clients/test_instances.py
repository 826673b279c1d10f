"""Instances of a transactional id on a real cluster: who bumps, retries, is fenced, begins anew."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.batch import encode_batch, iter_batches
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from tests.clients.asking import init, outcome_of, outcome_of_leader
from tests.harness.nodes import Nodes, running, wait_for
from tests.processes.leaps import leap

pytestmark = pytest.mark.slow

TOPIC = "instances"
EXPIRATION_MS = 6_000
CLIENT_EPOCH_LAST = 32766  # 32767 is the coordinator's, to fence with
FENCED = ErrorCode.PRODUCER_FENCED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    expiry = (
        f"transactional.id.expiration.ms={EXPIRATION_MS}",
        "transaction.remove.expired.transaction.cleanup.interval.ms=500",
    )
    with running(tmp_path_factory.mktemp("instances") / "cluster", *expiry) as started:
        started.run("topics", "create", "--topic", TOPIC)
        yield started


def started(cluster: Nodes, request: InitProducerId) -> Any:
    assert request.transactional_id is not None
    return outcome_of(cluster, request.transactional_id, INIT_PRODUCER_ID, request)


def begin(cluster: Nodes, name: str, pair: InitProducerIdAnswer) -> None:
    adding = AddPartitions(name, *as_pair(pair), (TopicPartitions(TOPIC, (0,)),))
    ((_, added),) = outcome_of(
        cluster, name, ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn((adding,), batched=False)
    ).results
    assert added.errors == ((TOPIC, ((0, ErrorCode.NONE),)),)


def end(cluster: Nodes, name: str, pair: InitProducerIdAnswer) -> Any:
    return outcome_of(cluster, name, END_TXN, EndTxn(name, *as_pair(pair), True))


def send(cluster: Nodes, name: str, pair: InitProducerIdAnswer, sequence: int, text: bytes) -> ErrorCode:
    batch = encode_batch(
        [(None, text, ())],
        timestamp_ms=1,
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    request = Produce(name, -1, 5_000, (PartitionData(TOPIC, 0, batch),))
    (row,) = outcome_of_leader(cluster, TOPIC, 0, PRODUCE, request).partitions
    return ErrorCode(row.error_code)


def as_pair(answer: InitProducerIdAnswer) -> tuple[ProducerId, int]:
    return answer.producer_id, answer.producer_epoch


@pytest.mark.row("360.1", "360.2")
def test_the_pair_that_is_given_says_who_asks(cluster: Nodes) -> None:
    name = "who"
    first = started(cluster, init(of=name))
    pid, born = as_pair(first)
    bumped = InitProducerIdAnswer(pid, born + 1)
    assert started(cluster, init(pid, born, of=name)) == bumped, "its own bump"
    assert started(cluster, init(pid, born, of=name)) == bumped, "a retry of that"
    assert started(cluster, init(pid, born + 2, of=name)) == FENCED, "an epoch that nobody was given"

    second = started(cluster, init(of=name))
    assert as_pair(second) == (pid, born + 2), "a new instance"
    for stale in (born, born + 1):
        assert started(cluster, init(pid, stale, of=name)) == FENCED
    assert started(cluster, init(ProducerId(pid + 1), born + 2, of=name)) == FENCED, (
        "somebody else's producer id"
    )

    begin(cluster, name, second)
    third = started(cluster, init(of=name))  # answered once what was open is aborted
    assert as_pair(third) == (pid, born + 4), (
        "one epoch fenced the open transaction, the next is the instance's"
    )
    assert started(cluster, init(pid, born + 2, of=name)) == FENCED
    assert started(cluster, init(pid, born + 3, of=name)) == FENCED, "the fencing epoch was nobody's"
    old = replace(INIT_PRODUCER_ID, versions=range(3, 4))
    assert outcome_of(cluster, name, old, init(pid, born, of=name)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.row("360.4")
def test_after_its_id_expired_a_producer_gets_a_new_producer_id(cluster: Nodes) -> None:
    name = "forgotten"
    first = started(cluster, init(of=name))

    def listed() -> list[str]:
        return [row["transactional_id"] for row in cluster.read("transactions", "list")]

    assert name in listed()
    wait_for(f"{name} expires", lambda: name not in listed(), seconds=EXPIRATION_MS / 1000 * 3)
    again = started(cluster, init(*as_pair(first), of=name))
    assert again.producer_id != first.producer_id
    assert again.producer_epoch == 0
    assert started(cluster, init(*as_pair(first), of=name)) == FENCED, (
        "the pair from before belongs to nobody"
    )


@pytest.mark.row("360.8")
def test_who_got_unknown_producer_id_bumps_and_never_writes_before_itself(cluster: Nodes) -> None:
    name = "recovers"
    first = started(cluster, InitProducerId(name, 1_000))
    begin(cluster, name, first)
    assert send(cluster, name, first, 0, b"timed out") == ErrorCode.NONE
    told_of_it = wait_for(
        "its transaction times out",
        lambda: end(cluster, name, first) if state(cluster, name) == "CompleteAbort" else None,
    )
    assert told_of_it == ErrorCode.UNKNOWN_PRODUCER_ID

    again = InitProducerId(name, 60_000, *as_pair(first))
    second = started(cluster, again)
    assert second.producer_id == first.producer_id
    assert second.producer_epoch > first.producer_epoch
    begin(cluster, name, second)
    assert send(cluster, name, first, 1, b"late") != ErrorCode.NONE, "sent before, delivered after the bump"
    assert send(cluster, name, second, 1, b"early") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(cluster, name, second, 0, b"next") == ErrorCode.NONE
    assert send(cluster, name, first, 1, b"late") != ErrorCode.NONE
    assert send(cluster, name, second, 1, b"last") == ErrorCode.NONE
    assert end(cluster, name, second) is None
    read = cluster.run(
        "consume",
        "--topic",
        TOPIC,
        "--isolation-level",
        "read_committed",
        "--from-beginning",
        "--timeout-ms",
        "3000",
    )
    assert read.split("\n")[-3:] == ["next", "last", ""]


def state(cluster: Nodes, name: str) -> str:
    return str(cluster.read("transactions", "describe", "--transactional-id", name)["transaction_state"])


@pytest.mark.row("939.2")
def test_past_the_last_epoch_the_producer_id_rotates_and_the_pair_before_is_known(
    cluster: Nodes,
) -> None:
    name = "rotates"
    pid, _ = as_pair(started(cluster, init(of=name)))
    leap(cluster, CLIENT_EPOCH_LAST - 1, name)
    last = started(cluster, init(of=name))
    assert last == InitProducerIdAnswer(pid, CLIENT_EPOCH_LAST)
    begin(cluster, name, last)
    assert end(cluster, name, last) is None
    assert end(cluster, name, last) is None, "a retry of the commit"

    rotated = started(cluster, init(*as_pair(last), of=name))
    assert rotated.producer_id != pid
    assert rotated.producer_epoch == 0
    assert started(cluster, init(*as_pair(last), of=name)) == rotated, "a retry, by the previous producer id"
    assert end(cluster, name, last) == FENCED
    begin(cluster, name, rotated)
    assert end(cluster, name, rotated) is None

    archive = cluster.home(cluster.leader()) / "archive"  # it answered, so it has them
    rows = [fields for key, fields in values(archive) if key == name]
    turned = next(row for row in rows if 0 in row[1])
    assert turned[0] == (rotated.producer_id, 0), "the pair of now is where every reader looks"
    assert struct.unpack(">q", turned[1][0]) == (pid,), "tag 0, PreviousProducerId"
    before = rows[rows.index(turned) - 1]
    assert before[0] == (pid, CLIENT_EPOCH_LAST)


def values(archive: Path) -> Iterator[tuple[str, tuple[tuple[int, int], dict[int, bytes]]]]:
    """TransactionLogValue v1 as a reader sees it that knows Kafka's document only: its pair, and its tags."""
    for segment in sorted((archive / "__transaction_state-0").glob("*.log")):
        for batch in iter_batches(segment.read_bytes()):
            for record in batch.records:
                if record.key is not None and record.value is not None:
                    yield record.key[4:].decode(), value(record.value)


def value(content: bytes) -> tuple[tuple[int, int], dict[int, bytes]]:
    version, producer_id, epoch, _, _ = struct.unpack_from(">hqhib", content)
    assert version == 1
    at = 17
    topics, at = varint(content, at)
    for _ in range(topics - 1):
        size, at = varint(content, at)
        at += size - 1
        count, at = varint(content, at)
        _, at = varint(content, at + 4 * (count - 1))
    tags = {}
    count, at = varint(content, at + 16)
    for _ in range(count):
        tag, at = varint(content, at)
        size, at = varint(content, at)
        tags[tag] = content[at : at + size]
        at += size
    assert at == len(content)
    return (producer_id, epoch), tags


def varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while content[at] & 0x80:
        number |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return number | content[at] << shift, at + 1
