"""Additions of brokers for transactions whose last one still waits for its markers (transactions V2)."""

from typing import Any

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.coordinator.early_additions import PARK_S_MAX
from fencepost.coordinator.transaction_requests import TransactionRequest
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.k20024_announce_partitions import Announcement
from tests.coordinator.bench import TOPIC, Bench

Pair = tuple[int, int]


def ending(bench: Bench, whose: str) -> Pair:
    """A producer whose transaction is prepared; the pair of its next one."""
    producer_id, epoch = bench.begun(whose, 0)
    request = EndTxn(whose, ProducerId(producer_id), epoch, committed=True, bumps_epoch=True)
    bench.ask(bench.server.end_txn, request)
    bench.settle()
    bench.announced.clear()
    assert bench.state(whose) == "PrepareCommit"
    return producer_id, epoch + 1


def addition(whose: str, pair: Pair, *indexes: int) -> AddPartitions:
    return AddPartitions(
        whose, ProducerId(pair[0]), pair[1], (TopicPartitions(TOPIC, indexes),), for_client=True
    )


def request(bench: Bench, *additions: AddPartitions) -> Any:
    return bench.ask(bench.server.add_partitions, AddPartitionsToTxn(additions, batched=True))


def codes(answer: Any) -> dict[str, int]:
    return {whose: result.errors[0][1][0][1] for whose, result in answer.answered().results}


def write_markers(bench: Bench) -> None:
    for sent in bench.take_sent():
        sent.answer()
    bench.settle()


def test_it_is_refused_at_once_and_made_with_the_completion(bench: Bench) -> None:
    pair = ending(bench, "alice")
    version = bench.replica.image.header.version
    assert codes(request(bench, addition("alice", pair, 1))) == {"alice": ErrorCode.CONCURRENT_TRANSACTIONS}
    bench.settle()
    assert bench.replica.image.header.version == version, "no entry for a refusal"
    write_markers(bench)
    assert bench.replica.image.header.version == version + 1, "one for the completion and what waited"
    row = bench.row("alice")
    assert (row.state.wire_name, row.partitions) == ("Ongoing", (TopicPartitions(TOPIC, (1,)),))
    ((_, _, _, request_to_leader),) = bench.announced
    assert request_to_leader.announcements == (Announcement(*pair, version + 1, ((TOPIC, (1,)),)),)


def test_others_of_the_request_are_decided_as_ever(bench: Bench) -> None:
    early, bob = ending(bench, "alice"), bench.begun("bob", 0)
    answer = request(bench, addition("bob", bob, 1), addition("alice", early, 1))
    bench.settle()
    assert codes(answer) == {"bob": ErrorCode.NONE, "alice": ErrorCode.CONCURRENT_TRANSACTIONS}
    assert bench.row("bob").partitions == (TopicPartitions(TOPIC, (0, 1)),)


def test_only_what_a_broker_adds_for_a_client_is_parked(bench: Bench) -> None:
    """A verification that comes too early says nothing of the next transaction."""
    producer_id, epoch = ending(bench, "alice")
    asked = AddPartitions(
        "alice", ProducerId(producer_id), epoch, (TopicPartitions(TOPIC, (1,)),), verify_only=True
    )
    answer = request(bench, asked)
    bench.settle()
    assert codes(answer) == {"alice": ErrorCode.CONCURRENT_TRANSACTIONS}
    write_markers(bench)
    assert bench.state("alice") == "CompleteCommit"
    assert not bench.announced


def test_one_that_is_asked_again_is_decided_and_parked_once(bench: Bench) -> None:
    """An entry proves who leads: a broker whose coordinator was deposed finds the next one."""
    pair = ending(bench, "alice")
    request(bench, addition("alice", pair, 1))
    again = request(bench, addition("alice", pair, 1))
    assert again.answered() is ...
    bench.settle()
    assert codes(again) == {"alice": ErrorCode.CONCURRENT_TRANSACTIONS}
    write_markers(bench)
    (announced,) = (each for sent in bench.announced for each in sent.request.announcements)
    assert announced.producer_epoch == pair[1]
    assert len(bench.server._early) == 0


def test_those_of_several_leaders_are_all_made(bench: Bench) -> None:
    pair = ending(bench, "alice")
    for index in (0, 1):
        request(bench, addition("alice", pair, index))
    write_markers(bench)
    assert bench.row("alice").partitions == (TopicPartitions(TOPIC, (0, 1)),)
    assert [(each.broker_id, each.request.announcements[0].topics) for each in bench.announced] == [
        (1, ((TOPIC, (0,)),)),
        (2, ((TOPIC, (1,)),)),
    ]


def test_a_pair_that_is_fenced_meanwhile_adds_nothing(bench: Bench) -> None:
    pair = ending(bench, "alice")
    request(bench, addition("alice", (pair[0], pair[1] - 1), 1))
    write_markers(bench)
    assert bench.state("alice") == "CompleteCommit"
    assert not bench.announced
    assert len(bench.server._early) == 0


def test_it_is_parked_for_as_long_as_a_broker_asks(bench: Bench) -> None:
    pair = ending(bench, "alice")
    request(bench, addition("alice", pair, 1))
    bench.wait(PARK_S_MAX + 0.1)
    assert len(bench.server._early) == 0
    write_markers(bench)
    assert bench.state("alice") == "CompleteCommit"


def test_it_ends_with_the_leadership(bench: Bench) -> None:
    pair = ending(bench, "alice")
    request(bench, addition("alice", pair, 1))
    bench.server.deposed()
    assert len(bench.server._early) == 0
    assert not bench.announced


def test_one_whose_outcome_cannot_be_given_is_parked_again(bench: Bench) -> None:
    pair = ending(bench, "alice")
    request(bench, addition("alice", pair, 1))
    (parked,) = bench.server.requests.parked.drain()
    assert isinstance(parked, TransactionRequest)
    parked._reply.close("a fault of this node")
    version = bench.replica.image.header.version
    assert codes(request(bench, addition("alice", pair, 1))) == {"alice": ErrorCode.CONCURRENT_TRANSACTIONS}
    assert (bench.replica.image.header.version, len(bench.server._early)) == (version, 1)
