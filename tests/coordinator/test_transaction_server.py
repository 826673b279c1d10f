"""The coordinator's endpoints: who is answered what, when; what is held, and with which entry it leaves."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import fencepost.coordinator.transaction_lists
import fencepost.coordinator.transaction_server
import fencepost.quorum.draft
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.errors import ApiError, ErrorCode, NotController, RequestTimedOut, StorageFull
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions, ListTransactions
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.coordinator import broker_batches
from fencepost.coordinator.parked import PARK_END_S_MAX, PARK_S_MAX
from fencepost.quorum.port import Decide, Reply
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import CLIENT, Answer
from tests.node.conftest import MakeStage


def codes(answer: Answer) -> set[int]:
    """The codes of an AddPartitionsToTxn answer's partitions."""
    ((_, result),) = answer.answered().results
    return {code for _, results in result.errors for _, code in results}


def test_a_transaction_from_begin_to_end(bench: Bench) -> None:
    pair = bench.begun("alice", 0, 1)
    assert bench.state("alice") == "Ongoing"
    ended = bench.end("alice", pair)
    assert ended.answered() is ..., "the outcome is not in the log yet"
    bench.settle()
    assert ended.answered() is None, "it is: the client need not wait for markers"
    assert bench.state("alice") == "PrepareCommit"
    first, second = bench.take_sent()
    assert (first.broker_id, first.port, second.broker_id, second.port) == (1, 9092, 2, 9093)
    assert first.partitions == [(pair[0], TOPIC, 0)]
    assert second.partitions == [(pair[0], TOPIC, 1)]
    (marker,) = first.request.markers
    assert (marker.producer_epoch, marker.committed) == (pair[1], True)
    assert marker.coordinator_epoch == bench.replica.image.header.controller_epoch
    assert marker.image_version == bench.row("alice").prepared_version
    first.answer()
    bench.settle()
    assert bench.state("alice") == "PrepareCommit", "the other partition has no marker yet"
    second.answer()
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"
    assert (bench.server.counts.committed, bench.server.counts.aborted) == (1, 0)


def test_what_begins_while_markers_are_written_shares_the_entry_that_completes(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair)
    bench.settle()
    entries = bench.entries
    added = bench.add("alice", pair, 1)
    bench.settle()
    assert (added.answered(), bench.entries) == (..., entries), "it is held: no entry is spent on a 51"
    (sent,) = bench.take_sent()
    sent.answer()
    bench.settle()
    assert codes(added) == {ErrorCode.NONE}
    assert (bench.state("alice"), bench.entries) == ("Ongoing", entries + 1)


def test_a_51_that_was_decided_before_markers_were_known_to_wait_is_held_too(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    ended, added = bench.end("alice", pair), bench.add("alice", pair, 1)  # both decided in one entry
    bench.settle()
    assert (ended.answered(), added.answered()) == (None, ...)
    bench.take_sent()[0].answer()
    bench.settle()
    assert codes(added) == {ErrorCode.NONE}


def test_a_new_instance_waits_inside_until_what_was_open_is_aborted(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    newer = bench.init("alice")
    bench.settle()
    assert (bench.state("alice"), newer.answered()) == ("PrepareAbort", ...)
    (sent,) = bench.take_sent()
    (marker,) = sent.request.markers
    assert (marker.producer_epoch, marker.committed) == (pair[1] + 1, False), "it fences at the partition"
    sent.answer()
    bench.settle()
    assert (newer.answered().producer_id, newer.answered().producer_epoch) == (pair[0], pair[1] + 2)
    assert bench.server.counts.fenced == 1
    late = bench.end("alice", pair)
    bench.settle()
    assert late.answered() == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("committed", "again", "told"),
    [
        pytest.param(True, True, None, id="commit-again"),
        pytest.param(False, False, None, id="abort-again"),
        pytest.param(True, False, ErrorCode.INVALID_TXN_STATE, id="abort-what-is-committed"),
    ],
)
def test_an_end_that_is_sent_again_is_held_until_the_first_is_complete(
    bench: Bench, committed: bool, again: bool, told: Any
) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair, committed=committed)
    bench.settle()
    retry = bench.end("alice", pair, committed=again)
    bench.wait(PARK_S_MAX + 1)
    assert retry.answered() is ..., "kafkajs dies of a 51 here"
    bench.take_sent()[0].answer()
    bench.settle()
    assert retry.answered() == told


@pytest.mark.parametrize(
    ("ask", "park_s"),
    [
        pytest.param(lambda bench, pair: bench.init("alice"), PARK_S_MAX, id="init-producer-id"),
        pytest.param(lambda bench, pair: bench.add("alice", pair, 1), PARK_S_MAX, id="add-partitions"),
        pytest.param(lambda bench, pair: bench.end("alice", pair), PARK_END_S_MAX, id="end-txn"),
    ],
)
def test_it_is_51_in_the_end(bench: Bench, ask: Callable[..., Answer], park_s: float) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair)
    bench.settle()
    held = ask(bench, pair)
    bench.wait(park_s - 0.2)
    assert held.answered() is ...
    bench.wait(0.4)
    assert held.answered() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.server.counts.parked == 0


def test_what_comes_while_the_completion_is_in_flight_goes_behind_it(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair)
    bench.settle()
    bench.take_sent()[0].answer()  # the completion is submitted, and not decided yet
    added = bench.add("alice", pair, 1)
    bench.settle()
    assert codes(added) == {ErrorCode.NONE}


def test_what_is_wedged_parks_no_request(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair)
    bench.settle()
    bench.take_sent()[0].answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    bench.settle()
    entries = bench.entries
    added = bench.add("alice", pair, 1)
    bench.settle()
    assert (added.answered(), bench.entries) == (ErrorCode.CONCURRENT_TRANSACTIONS, entries + 1)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        pytest.param(RequestTimedOut("who knows"), ErrorCode.COORDINATOR_NOT_AVAILABLE, id="unknown-fate"),
        pytest.param(StorageFull("full"), ErrorCode.COORDINATOR_NOT_AVAILABLE, id="disk-full"),
        pytest.param(NotController("deposed"), ErrorCode.NOT_COORDINATOR, id="superseded"),
    ],
)
def test_failures_are_told_in_a_coordinators_words(bench: Bench, failure: ApiError, told: ErrorCode) -> None:
    pair = bench.begun("alice", 0)

    def fail(decide: Decide[Any], reply: Reply[Any], **_how: Any) -> None:
        reply(failure, 0)

    bench.server._submit = bench.server.requests.port = fail
    asked = [
        bench.init("bob"),
        bench.add("alice", pair, 1),
        bench.end("alice", pair),
        bench.ask(bench.server.add_partitions, AddPartitionsToTxn((part("alice", pair, 0),), batched=True)),
        bench.ask(bench.server.describe, DescribeTransactions(("alice",))),
        bench.ask(bench.server.list_transactions, ListTransactions()),
    ]
    assert {each.answered() for each in asked} == {told}


def test_who_begins_to_lead_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.replica.proposer, "active_epoch", None)
    assert bench.init("alice").answered() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_leadership_that_ends_answers_who_is_held(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.end("alice", pair)
    bench.settle()
    held = bench.add("alice", pair, 1)
    bench.server.deposed()
    assert held.answered() == ErrorCode.NOT_COORDINATOR


def test_who_does_not_lead_says_so(make_stage: MakeStage) -> None:
    bench = Bench(make_stage())
    bench.settle()
    asked = [
        bench.init("alice"),
        bench.add("alice", (1, 0), 0),
        bench.end("alice", (1, 0)),
        bench.ask(bench.server.describe, DescribeTransactions(("alice",))),
        bench.ask(bench.server.list_transactions, ListTransactions()),
    ]
    assert {each.answered() for each in asked} == {ErrorCode.NOT_COORDINATOR}


def test_without_a_producer_id_at_hand_the_producer_comes_again(bench: Bench) -> None:
    claimed: list[int] = []
    claim = bench.server.allocate_producer_id

    def counting() -> ProducerId:
        claimed.append(1)
        return claim()

    bench.server.allocate_producer_id = counting
    pair = bench.begun("alice", 0)
    bench.end("alice", pair, committed=False)
    bench.settle()
    bench.take_sent()[0].answer()
    bench.settle()
    again = bench.init("alice")
    bench.settle()
    assert again.answered().producer_id == pair[0]
    assert len(claimed) == 1, "an id that is known needs no other"


def test_a_null_id_is_a_brokers_to_answer(bench: Bench) -> None:
    asked = bench.ask(bench.server.init_producer_id, InitProducerId(None, 0))
    assert asked.answered() == ErrorCode.INVALID_REQUEST


def test_the_client_that_fenced_is_remembered(bench: Bench) -> None:
    bench.begun("alice", 0)
    bench.init("alice")
    bench.settle()
    assert bench.row("alice").fences[-1].by == CLIENT.client_id


# -- brokers verify ------------------------------------------------------------------------------------------


def verify(bench: Bench, *asked: AddPartitions) -> Any:
    answer = bench.ask(bench.server.add_partitions, AddPartitionsToTxn(asked, batched=True))
    bench.settle()
    return answer.answered()


def part(
    transactional_id: str, pair: tuple[int, int], *indexes: int, verify_only: bool = True
) -> AddPartitions:
    return AddPartitions(
        transactional_id,
        ProducerId(pair[0]),
        pair[1],
        (TopicPartitions(TOPIC, indexes),),
        verify_only=verify_only,
    )


@pytest.mark.parametrize(("count", "refused"), [(2, False), (3, True)])
def test_the_transactions_of_one_request_of_a_broker_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int, refused: bool
) -> None:
    """Each is decided in the same step, whether it writes or not."""
    monkeypatch.setattr(fencepost.coordinator.transaction_server, "ADDED_MAX", 2)
    pairs = {f"t{number}": bench.begun(f"t{number}", 0) for number in range(count)}
    told = verify(bench, *(part(each, pair, 0) for each, pair in pairs.items()))
    assert (told == ErrorCode.INVALID_REQUEST) is refused


@pytest.mark.parametrize(("count", "sizes"), [(2, [2]), (3, [2, 1]), (5, [2, 2, 1])])
def test_the_transactions_of_a_broker_are_decided_a_few_at_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int, sizes: list[int]
) -> None:
    """What an entry has no room for goes with the next one: no transaction of an ordinary size is refused."""
    monkeypatch.setattr(broker_batches, "AT_ONCE_MAX", 2)
    monkeypatch.setattr(fencepost.quorum.draft, "ENTRY_COST_MAX", 4_000)
    monkeypatch.setattr(fencepost.quorum.draft, "OVERSHOOT_COST_MAX", 0)
    pairs = {f"t{number}": bench.begun(f"t{number}", 0) for number in range(count)}
    asked = tuple(part(each, pair, 0, 1, verify_only=False) for each, pair in pairs.items())
    decide, decided = broker_batches._decide_batch, dict[str, int]()

    def counted(transactions: Any, *where: Any) -> Any:
        decided[transactions[0].transactional_id] = len(transactions)
        return decide(transactions, *where)

    monkeypatch.setattr(broker_batches, "_decide_batch", counted)
    entries = bench.entries
    told = verify(bench, *asked)
    assert [name for name, _ in told.results] == [each.transactional_id for each in asked]
    assert all(dict(result.errors[0][1]) == {0: 0, 1: 0} for _, result in told.results)
    assert list(decided.values()) == sizes
    assert bench.entries - entries == len(sizes)


def test_brokers_verify_in_batches_and_each_transaction_has_its_own_codes(bench: Bench) -> None:
    alice, bob = bench.begun("alice", 0), bench.begun("bob", 1)
    bench.end("bob", bob)
    bench.settle()
    told = verify(
        bench,
        part("alice", alice, 0, 1),
        part("bob", bob, 1),
        part("carol", (7, 0), 0),
    )
    results = {name: dict(result.errors[0][1]) for name, result in told.results}
    assert results == {
        "alice": {0: ErrorCode.NONE, 1: ErrorCode.TRANSACTION_ABORTABLE},
        "bob": {1: ErrorCode.CONCURRENT_TRANSACTIONS},
        "carol": {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }


@pytest.mark.parametrize("verify_only", [True, False], ids=["verify", "add"])
def test_in_batches_too_a_pair_is_refused_until_it_is_given_out(bench: Bench, verify_only: bool) -> None:
    producer_id, epoch = bench.begun("alice", 0, timeout_ms=1000)
    bench.wait(3.0)
    bench.take_sent()[0].answer()
    bench.settle()
    assert bench.state("alice") == "CompleteAbort"
    codes = {}
    for asked in (epoch, epoch + 1, epoch + 2, 32767):
        told = verify(bench, part("alice", (producer_id, asked), 0, verify_only=verify_only))
        ((_, result),) = told.results
        codes[asked - epoch] = result.errors[0][1][0][1]
    assert codes == {
        0: ErrorCode.UNKNOWN_PRODUCER_ID,
        1: ErrorCode.PRODUCER_FENCED,
        2: ErrorCode.PRODUCER_FENCED,
        32767 - epoch: ErrorCode.PRODUCER_FENCED,
    }
    recovering = bench.init("alice", producer_id, epoch)
    bench.settle()
    pair = recovering.answered().producer_id, recovering.answered().producer_epoch
    assert pair == (producer_id, epoch + 1)
    told = verify(bench, part("alice", pair, 0, verify_only=verify_only))
    expected = ErrorCode.TRANSACTION_ABORTABLE if verify_only else ErrorCode.NONE
    assert told.results[0][1].errors[0][1][0][1] == expected


def test_only_who_may_act_on_the_cluster_verifies(make_stage: MakeStage) -> None:
    bench = Bench(make_stage(), acls=Acls(frozenset({("User:broker", Operation.CLUSTER_ACTION)})))
    bench.elect()
    asked = AddPartitionsToTxn((part("alice", (1, 0), 0),), batched=True)
    client, broker = CLIENT, dataclasses.replace(CLIENT, principal="User:broker")
    refused = bench.ask(bench.server.add_partitions, asked, client)
    served = bench.ask(bench.server.add_partitions, asked, broker)
    bench.settle()
    assert refused.answered() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes(served) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_a_batch_may_add_as_well(bench: Bench) -> None:
    alice = bench.begun("alice", 0)
    verify(bench, part("alice", alice, 1, verify_only=False))
    assert bench.row("alice").partitions == (TopicPartitions(TOPIC, (0, 1)),)


def test_an_id_is_in_a_batch_once(bench: Bench) -> None:
    alice = bench.begun("alice", 0)
    assert verify(bench, part("alice", alice, 0), part("alice", alice, 1)) == ErrorCode.INVALID_REQUEST
