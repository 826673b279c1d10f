"""What the coordinator says of transactions: descriptions, and lists that are read elsewhere."""

from typing import Any

import pytest

import fencepost.coordinator.transaction_lists
import fencepost.coordinator.transaction_server
import fencepost.quorum.draft
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.describe import (
    DescribeTransactions,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.states import TRANSACTIONS
from fencepost.coordinator.transaction_lists import LISTS_MAX
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import TopicPartitions
from fencepost.snapshots.row_ranges import RANGE_ROWS_MAX
from fencepost.snapshots.rows import row_key
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import Answer


def described(bench: Bench, transactional_id: str) -> Any:
    answer = bench.ask(bench.server.describe, DescribeTransactions((transactional_id,)))
    bench.settle()
    return answer.answered().transactions[0]


def test_described_partitions_are_those_whose_marker_is_missing(bench: Bench) -> None:
    pair = bench.begun("alice", 0, 1)
    assert described(bench, "alice").partitions == (TopicPartitions(TOPIC, (0, 1)),)
    bench.end("alice", pair)
    bench.settle()
    assert described(bench, "alice").partitions == (TopicPartitions(TOPIC, (0, 1)),)
    bench.take_sent()[0].answer()
    bench.settle()
    assert described(bench, "alice").partitions == (TopicPartitions(TOPIC, (1,)),)


def test_a_list_is_read_elsewhere_and_has_what_was_answered_before(bench: Bench) -> None:
    for name in ("alice", "bob", "carol"):
        bench.begun(name, 0)
    answer = bench.ask(bench.server.list_transactions, ListTransactions(state_filters=("Ongoing", "Odd")))
    bench.settle()
    assert answer.answered() is ...
    bench.stage.work()
    listed = sent_and_read(answer)
    assert [each.transactional_id for each in listed.transactions] == ["alice", "bob", "carol"]
    assert listed.unknown_state_filters == ("Odd",)


def sent_and_read(answer: Answer) -> ListTransactionsAnswer:
    """What the client reads of it."""
    body = LIST_TRANSACTIONS.encode_response(2, answer.answered(), 0)
    read = LIST_TRANSACTIONS.decode_response(2, body)
    assert isinstance(read, ListTransactionsAnswer)
    return read


def test_a_list_of_many_slices_is_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.transaction_lists, "LIST_ROWS_MAX", 2)
    names = [f"id-{n}" for n in range(7)]
    for name in names:
        bench.init(name)
    bench.settle()
    answer = bench.ask(bench.server.list_transactions, ListTransactions())
    bench.settle()
    bench.stage.work()
    assert [each.transactional_id for each in sent_and_read(answer).transactions] == names


def listing(bench: Bench) -> Answer:
    """A list that a thread is to read."""
    answer = bench.ask(bench.server.list_transactions, ListTransactions())
    bench.settle()
    return answer


def test_a_list_has_the_sums_of_what_was_flushed_for_it(bench: Bench) -> None:
    names = [f"id-{n:03}" for n in range(5 * RANGE_ROWS_MAX)]
    for name in names:
        bench.init(name)
    first = listing(bench)
    bench.begun(names[0], 0)
    bench.init("id-999")
    second = listing(bench)
    bench.stage.work()
    found = [[each.state for each in sent_and_read(answer).transactions] for answer in (first, second)]
    assert found == [["Empty"] * len(names), ["Ongoing"] + ["Empty"] * len(names)]


def test_a_list_is_not_made_of_a_row_that_changed(bench: Bench) -> None:
    bench.init("alice")
    listing(bench)
    bench.stage.work()
    store = bench.replica.store
    at = row_key(store.generation, TRANSACTIONS.name, TRANSACTIONS.encode_key("alice"))
    value = bytes(store.txn.get(at, db=store.image_db) or b"")
    store.txn.put(at, value.replace(b"alice", b"carol"), db=store.image_db)
    store.dirty = True
    answer = listing(bench)
    with pytest.raises(CorruptData, match="table transactions was changed"):  # it is the only voter
        bench.stage.work()
    assert answer.answered() == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("bytes_max", "told"), [(30, "list"), (29, ErrorCode.POLICY_VIOLATION)])
def test_a_list_has_a_bound(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bytes_max: int, told: str | ErrorCode
) -> None:
    monkeypatch.setattr(fencepost.coordinator.transaction_lists, "LIST_BYTES_MAX", bytes_max)
    bench.begun("twelve-bytes", 0)
    answer = bench.ask(bench.server.list_transactions, ListTransactions())
    bench.settle()
    bench.stage.work()
    assert (answer.answered() if isinstance(answer.answered(), ErrorCode) else "list") == told


def test_lists_take_turns(bench: Bench) -> None:
    asked = [bench.ask(bench.server.list_transactions, ListTransactions()) for _ in range(LISTS_MAX + 1)]
    bench.settle()
    assert len(bench.stage.jobs) == LISTS_MAX
    while bench.stage.jobs:
        bench.stage.work()
    assert [each.answered() is ... for each in asked] == [False] * (LISTS_MAX + 1)


def test_a_pattern_that_is_none_is_told_at_once(bench: Bench) -> None:
    asked = bench.ask(bench.server.list_transactions, ListTransactions(pattern="("))
    assert asked.answered() == ErrorCode.INVALID_REGULAR_EXPRESSION
