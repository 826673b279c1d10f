"""What a coordinator's log says: outcomes, producers, records that are missing or cannot be."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_UNCOMMITTED
from tests.audit.walks.feed import in_order, said
from tests.audit.walks.states import BEGAN_MS, PRODUCER, States, outcomes, rows_of

CASES: dict[str, tuple[Callable[[], States], list[str]]] = {}


def case(*expected: str) -> Callable[[Callable[[], States]], Callable[[], States]]:
    def add(make: Callable[[], States]) -> Callable[[], States]:
        CASES[make.__name__.replace("_", "-")] = (make, sorted(expected))
        return make

    return add


@case()
def transactions_of_one_epoch() -> States:
    states = States()
    states.add("Empty")
    for outcome in ("Commit", "Abort", "Commit"):
        states.transaction(outcome=outcome)
    return states


@case()
def transactions_that_bump_the_epoch_up_to_a_new_producer_id() -> States:
    states = States()
    states.add("Empty", 32764)
    states.transaction(32764, bumps=True)
    states.add("Ongoing", 32765)
    states.add("PrepareCommit", 32766)
    states.add("CompleteCommit", 0, producer=PRODUCER + 1)
    states.transaction(0, bumps=True, producer=PRODUCER + 1)
    return states


@case()
def a_timeout_fences_and_the_instance_comes_back() -> States:
    states = States()
    states.add("Ongoing", 0)
    states.add("PrepareAbort", 1)
    states.add("CompleteAbort", 1)
    states.add("Empty", 2)
    states.transaction(2)
    return states


@case()
def an_abort_of_nothing_by_a_client_of_transactions_v2() -> States:
    states = States()
    states.add("Empty", 0)
    states.add("PrepareAbort", 1, parts=())
    states.add("CompleteAbort", 1)
    return states


@case()
def partitions_are_added_one_by_one() -> States:
    states = States()
    for parts in ((0,), (0, 1), (0, 1, 2)):
        states.add("Ongoing", parts=parts)
    states.add("PrepareCommit", parts=(0, 1, 2))
    states.add("PrepareCommit", parts=(0, 1, 2))
    states.add("CompleteCommit")
    return states


@case()
def a_forgotten_id_comes_back() -> States:
    states = States()
    states.transaction()
    states.add(None)
    states.add("Empty", producer=PRODUCER + 7)
    states.transaction(producer=PRODUCER + 7)
    return states


@case("epochs.reused")
def a_forgotten_id_comes_back_with_the_producer_id_that_it_had() -> States:
    states = States()
    states.transaction(2)
    states.add(None)
    states.add("Empty", 1)
    return states


@case()
def what_compaction_left() -> States:
    states = States(flags=FLAG_COMPACTED, unbroken_offset=1)
    states.add("CompleteCommit", 5)
    states.transaction(5)
    return states


@case()
def what_two_brokers_that_cleaned_apart_left() -> States:
    states = States(flags=FLAG_COMPACTED, unbroken_offset=3)
    states.add("Ongoing", 5)
    states.add("Ongoing", 7, offset=3)
    states.add("PrepareCommit", 7, offset=4)
    states.add("CompleteCommit", 7, offset=5)
    return states


@case("states.missing")
def a_prepare_is_missing() -> States:
    states = States()
    states.transaction()
    states.add("Ongoing", 0)
    states.add("CompleteAbort", 0)
    states.transaction()
    return states


@case("states.epoch", "states.missing")
def a_transaction_is_prepared_with_an_epoch_two_above() -> States:
    states = States()
    states.add("Ongoing", 3)
    states.add("PrepareCommit", 5)
    states.add("CompleteCommit", 3)
    return states


@case("states.missing")
def a_complete_is_missing() -> States:
    states = States()
    states.transaction()
    states.add("Ongoing")
    states.add("PrepareCommit")
    states.transaction()
    return states


@case("note states.replaced")
def a_decision_whose_append_failed_came_to_nothing() -> States:
    """Seen in Apache Kafka 3.9 when a broker died: its producer came back, and fenced what was open."""
    states = States(flags=FLAG_COMPACTED)
    states.transaction()
    states.add("Ongoing")
    states.add("PrepareCommit")
    states.add("PrepareAbort", 1)
    states.add("CompleteAbort", 1)
    return states


@case("note states.replaced")
def an_abort_whose_append_failed_came_to_nothing() -> States:
    """Seen in Apache Kafka 4.1 when a broker was killed: the client committed what was still open."""
    states = States(flags=FLAG_COMPACTED)
    states.transaction(1, bumps=True)
    begin = states.add("Ongoing", 2)
    for state in ("PrepareAbort", "PrepareCommit", "CompleteCommit"):
        states.add(state, 3, started_ms=begin["started_ms"])
    return states


@case("states.missing")
def that_an_abort_was_carried_out_is_missing_before_the_next_transactions_commit() -> States:
    states = States(flags=FLAG_COMPACTED)
    for state in ("Ongoing", "PrepareAbort", "PrepareCommit", "CompleteCommit"):
        states.add(state)
    return states


@case("note states.replaced")
def a_begin_whose_append_failed_came_to_nothing() -> States:
    """Seen in Apache Kafka 4.1 when a broker died: its producer came back at once, in the next epoch."""
    states = States(flags=FLAG_COMPACTED)
    states.transaction()
    states.add("Ongoing")
    states.add("Empty", 1)
    states.transaction(1)
    return states


@case("note states.replaced")
def a_begin_that_was_tried_again_came_to_nothing_twice() -> States:
    states = States(flags=FLAG_COMPACTED)
    for epoch, state in ((0, "Ongoing"), (0, "Ongoing"), (1, "Empty")):
        states.add(state, epoch)
    return states


@case("states.missing")
def how_a_transaction_of_several_begins_ended_is_missing() -> States:
    """The second was asked for, as the first had been answered."""
    states = States(flags=FLAG_COMPACTED)
    begin = states.add("Ongoing", parts=(0,))
    states.add("Ongoing", parts=(0, 1), started_ms=begin["started_ms"])
    states.add("Empty", 1)
    return states


@case("states.missing")
def how_a_transaction_ended_is_missing_two_epochs_before() -> States:
    states = States(flags=FLAG_COMPACTED)
    states.add("Ongoing")
    states.add("Empty", 2)
    return states


@case("states.missing")
def an_ongoing_is_missing() -> States:
    states = States()
    states.transaction()
    states.add("PrepareCommit")
    states.add("CompleteCommit")
    return states


@case("states.missing")
def how_a_transaction_ended_is_missing() -> States:
    states = States()
    states.add("Ongoing", 0)
    states.add("Empty", 1)
    states.transaction(1)
    return states


@case("states.missing")
def a_commit_is_completed_as_an_abort() -> States:
    states = States()
    states.add("Ongoing")
    states.add("PrepareCommit")
    states.add("CompleteAbort")
    return states


@case("epochs.reused")
def an_epoch_that_was_left_comes_back() -> States:
    states = States()
    for epoch in (0, 1, 2):
        states.transaction(epoch)
    states.add("Empty", 1)
    states.add("Empty", 1)
    states.transaction(2)
    return states


@case("epochs.reused")
def a_producer_id_that_was_left_comes_back() -> States:
    states = States()
    states.transaction(0)
    states.transaction(0, producer=PRODUCER + 1)
    states.add("Empty", 5)
    return states


@case("ids.shared")
def a_record_has_the_producer_id_of_another_id() -> States:
    states = States()
    states.transaction(name="a", producer=1)
    states.add("Ongoing", name="b", producer=2)
    states.add("PrepareCommit", name="b", producer=1)
    states.add("CompleteCommit", name="b", producer=2)
    states.transaction(name="a", producer=1)
    return states


@case("ids.shared")
def two_ids_have_one_producer_id_from_the_beginning_on() -> States:
    states = States()
    for _ in range(3):
        for name in ("a", "b"):
            states.transaction(name=name)
    return states


@case("hanging.open_past_timeout")
def a_transaction_that_the_coordinator_left_open() -> States:
    states = States()
    states.add("Ongoing", name="late")
    for _ in range(30):
        states.transaction(producer=9, name="other")
    return states


@case()
def a_transaction_that_the_next_sweep_may_abort() -> States:
    states = States()
    states.add("Ongoing", name="late")
    for _ in range(24):
        states.transaction(producer=9, name="other")
    return states


@case()
def a_transaction_in_two_phases_has_no_timeout() -> States:
    states = States()
    states.add("Ongoing", name="late", timeout_ms=2**31 - 1)
    for _ in range(30):
        states.transaction(producer=9, name="other")
    return states


@case()
def the_coordinators_log_was_copied_long_before_the_others() -> States:
    states = States()
    states.add("Ongoing", now_ms=BEGAN_MS + 10_000_000)
    return states


@case("hanging.open_past_timeout")
def a_stopped_coordinator_left_a_transaction_open() -> States:
    states = States(stopped=True)
    states.add("Ongoing", now_ms=BEGAN_MS + 10_000_000)
    return states


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_coordinators_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(rows_of(make())) == expected


@given(name=st.sampled_from(sorted(CASES)), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_what_is_found_does_not_depend_on_how_rows_come(name: str, sizes: list[int]) -> None:
    make, _ = CASES[name]
    assert in_order(rows_of(make(), tuple(sizes))) == in_order(rows_of(make()))


def test_outcomes_in_their_order() -> None:
    states = States()
    states.transaction(0)
    states.transaction(0, "Abort")
    states.add("Ongoing", 0)
    states.add("PrepareCommit", 0)
    states.add("Ongoing", 4, producer=9, name="y")
    assert outcomes(states) == [
        (1, PRODUCER, 0, 0, 1, 2),
        (0, PRODUCER, 0, 0, 4, 5),
        (1, PRODUCER, 0, 0, 7, None),
        (2, 9, 4, 4, 8, None),
    ]


def test_markers_of_a_transaction_of_v2_have_an_epoch_of_their_own() -> None:
    states = States()
    states.transaction(3, bumps=True)
    assert outcomes(states) == [(1, PRODUCER, 3, 4, 1, 2)]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(a_prepare_is_missing, (0, PRODUCER, 0, 0, 4, 4), id="of-the-complete-that-follows"),
        pytest.param(a_complete_is_missing, (1, PRODUCER, 0, 0, 4, 5), id="whether-or-not-it-was-completed"),
        pytest.param(
            an_abort_whose_append_failed_came_to_nothing, (1, PRODUCER, 2, 3, 5, 6), id="in-place-of-another"
        ),
        pytest.param(how_a_transaction_ended_is_missing, (-1, PRODUCER, 0, 1, 0, 1), id="not-known"),
        pytest.param(
            a_record_has_the_producer_id_of_another_id, (1, 2, 0, 0, 4, 5), id="of-its-ids-own-producer"
        ),
    ],
)
def test_an_outcome_is_known_from_what_is_left(make: Callable[[], States], expected: tuple[Any, ...]) -> None:
    assert expected in outcomes(make())


def test_a_rotated_producer_ends_at_its_last_epoch() -> None:
    states = States()
    states.add("Ongoing", 32766)
    states.add("CompleteCommit", 0, producer=PRODUCER + 1)
    assert outcomes(states) == [(1, PRODUCER, 32766, 32767, 1, 1)]


def test_what_is_not_known_to_be_committed_says_nothing() -> None:
    states = States()
    states.transaction()
    states.add("Ongoing", 0, flags=FLAG_UNCOMMITTED)
    assert len(outcomes(states)) == 1


@pytest.mark.parametrize(
    ("columns", "epoch", "is_whole"),
    [
        pytest.param({}, 5, True, id="an-unbroken-log"),
        pytest.param({"unbroken_offset": 7}, 5, False, id="a-log-that-lacks-its-beginning"),
        pytest.param({"unbroken_offset": 7}, 0, True, id="it-begins-with-epoch-0"),
        pytest.param({"unbroken_offset": 7, "flags": FLAG_COMPACTED}, 5, False, id="compacted-above-it"),
        pytest.param({"unbroken_offset": 0, "flags": FLAG_COMPACTED}, 5, True, id="compaction-was-below-it"),
    ],
)
def test_whether_a_producers_story_is_whole(columns: dict[str, int], epoch: int, is_whole: bool) -> None:
    states = States(**columns)
    states.add("Empty", epoch)
    states.transaction(epoch)
    (producer,) = [row for row in rows_of(states) if row["kind"] == "producer"]
    assert (producer["first_epoch"], producer["is_whole"]) == (epoch, is_whole)
