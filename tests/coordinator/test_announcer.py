"""What the coordinator announces of open transactions: to whom, when, and as of which image."""

import pytest

import fencepost.coordinator.announcer
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.k20024_announce_partitions import Announcement
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import CLIENT
from tests.wire.answering import Answering


def test_each_partition_leader_is_told_its_own_part_as_of_the_decisions_image(bench: Bench) -> None:
    pair = bench.begun("alice", 0, 1)
    first, second = bench.announced
    version = bench.replica.image.header.version
    assert (first.broker_id, second.broker_id) == (1, 2)
    (told,) = first.request.announcements
    assert told == Announcement(*pair, told.image_version, ((TOPIC, (0,)),))
    assert told.image_version <= version
    bench.end("alice", pair)
    bench.settle()
    assert told.image_version < bench.row("alice").prepared_version, "a marker is newer than what began it"


def test_it_is_sent_before_the_producer_is_answered(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    before: list[int] = []
    request = AddPartitions("alice", ProducerId(pair[0]), pair[1], (TopicPartitions(TOPIC, (1,)),))
    bench.server.add_partitions(
        AddPartitionsToTxn((request,), batched=False),
        CLIENT,
        Answering(lambda *_: before.append(len(bench.announced))),
    )
    bench.settle()
    assert before == [2]


@pytest.mark.parametrize(("most", "announced"), [(2, 2), (1, 0)])
def test_a_wide_transaction_is_not_announced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, most: int, announced: int
) -> None:
    monkeypatch.setattr(fencepost.coordinator.announcer, "ANNOUNCED_MAX", most)
    bench.begun("alice", 0, 1)
    assert len(bench.announced) == announced


def test_a_refused_addition_is_not_announced(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.add("alice", (pair[0], pair[1] + 1), 1)
    bench.settle()
    assert len(bench.announced) == 1


def test_a_broker_that_is_not_there_is_told_nothing(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.heartbeat(2, want_fence=True)
    bench.add("alice", pair, 1)
    bench.settle()
    assert [each.broker_id for each in bench.announced] == [1]
