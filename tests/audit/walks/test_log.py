"""One log in its order: turns, sequences, epochs that were over."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.walks.columns import FLAG_DISPLACED, FLAG_HOLE, FLAG_OPAQUE, FLAG_UNCOMMITTED
from tests.audit.walks.feed import in_order, said
from tests.audit.walks.logs import PRODUCER, Log, turns, walked

CASES: dict[str, tuple[Callable[[], Log], list[str]]] = {}


def case(*expected: str) -> Callable[[Callable[[], Log]], Callable[[], Log]]:
    def add(make: Callable[[], Log]) -> Callable[[], Log]:
        CASES[make.__name__.replace("_", "-")] = (make, sorted(expected))
        return make

    return add


@case()
def transactions_of_one_epoch() -> Log:
    log = Log()
    for kind in (1, 0, 1):
        log.transaction(kind=kind)
    return log


@case()
def transactions_that_bump_the_epoch() -> Log:
    log = Log()
    for epoch in range(4):
        log.transaction(epoch, bumps=True)
    return log


@case()
def producers_that_take_turns() -> Log:
    log = Log()
    for _ in range(3):
        log.data(producer=1)
        log.data(producer=2, transactional=False)
        log.add(5, producer_id=-1, producer_epoch=-1, attributes=0)
        log.data(producer=3)
        log.marker(producer=1)
        log.marker(producer=3, kind=0)
    return log


@case("ids.no_producer")
def data_of_no_producer_that_is_marked_as_transactional() -> Log:
    log = Log()
    for attributes in (0, 0x10, 0):
        log.add(5, producer_id=-1, producer_epoch=-1, attributes=attributes)
    return log


@case("sequences.gap")
def a_producers_first_batch_of_a_whole_log_does_not_begin_at_0() -> Log:
    log = Log()
    log.data(3, sequence=700)
    log.data(3)
    return log


@case()
def the_first_batch_that_is_kept_has_any_sequence() -> Log:
    log = Log(first=40)
    log.data(3, sequence=700)
    log.data(3)
    return log


@case()
def the_first_row_that_is_kept_is_a_marker() -> Log:
    log = Log(first=40)
    log.marker(3)
    log.data(3, sequence=700)
    return log


@case()
def sequences_wrap() -> Log:
    log = Log(first=40)
    log.data(sequence=2**31 - 15)
    log.data()
    log.data()
    return log


@case()
def offsets_of_a_group_begin_at_0_each() -> Log:
    log = Log("__consumer_offsets")
    for _ in range(3):
        log.data(sequence=0, count=1)
        log.marker()
    return log


@case()
def a_hole_explains_the_batch_that_is_missing() -> Log:
    log = Log()
    log.data()
    lost = log.data()
    log.data()
    log.lose(lost)
    return log


@case("sequences.gap")
def a_hole_that_is_shorter_than_the_gap() -> Log:
    log = Log()
    log.data()
    lost = log.data(count=3)
    log.data(sequence=50)
    log.lose(lost)
    return log


@case("sequences.gap")
def a_hole_before_is_no_excuse() -> Log:
    log = Log()
    log.data()
    lost = log.data(producer=7)
    log.data()
    log.data(sequence=25)
    log.lose(lost)
    return log


@case("sequences.gap")
def a_batch_was_never_written() -> Log:
    log = Log()
    log.data()
    log.data(sequence=20)
    log.data()
    return log


@case("sequences.gap")
def the_sequence_of_one_batch_is_ahead() -> Log:
    log = Log()
    rows = [log.data() for _ in range(5)]
    rows[2]["base_sequence"] += 5
    return log


@case("sequences.gap")
def a_gap_over_the_wrap() -> Log:
    log = Log(first=40)
    log.data(sequence=2**31 - 10)
    log.data(sequence=5)
    return log


@case("sequences.gap")
def a_new_epoch_that_does_not_begin_at_0() -> Log:
    log = Log()
    log.transaction(0)
    log.data(1, sequence=7)
    return log


@case("sequences.gap")
def a_bumped_epoch_that_does_not_begin_at_0() -> Log:
    log = Log()
    log.transaction(0, bumps=True)
    log.data(1, sequence=7)
    return log


@case("sequences.duplicate")
def a_batch_was_written_twice() -> Log:
    log = Log()
    log.data()
    log.data()
    log.data(sequence=10)
    log.data(sequence=20)
    return log


@case("fencing.zombie")
def data_of_an_epoch_after_a_higher_one() -> Log:
    log = Log()
    log.transaction(3)
    log.transaction(4)
    log.data(3)
    log.data(3)
    log.transaction(4)
    return log


@case("fencing.zombie")
def data_of_an_epoch_that_an_abort_fenced() -> Log:
    log = Log()
    log.marker(4, 0)
    log.data(3)
    return log


@case("markers.early")
def a_commit_marker_before_its_own_data() -> Log:
    log = Log()
    log.transaction(0, bumps=True)
    data = log.data(1, count=1)
    marker = log.marker(2)
    log.data(2)
    log.swap(data, marker)
    return log


@case("markers.exchanged")
def two_markers_that_bumped_the_epoch_changed_places() -> Log:
    log = Log()
    rows = [log.transaction(epoch, kind=epoch % 2, bumps=True) for epoch in range(4)]
    log.swap(rows[1], rows[2])
    return log


@case("epochs.regressed")
def a_marker_of_a_lower_epoch() -> Log:
    log = Log()
    log.transaction(3)
    log.transaction(7)
    log.marker(4)
    log.transaction(7)
    return log


@case("epochs.coordinator")
def a_coordinator_epoch_below_0() -> Log:
    log = Log()
    log.transaction()
    log.transaction()["coordinator_epoch"] = -5
    log.transaction()
    return log


@case("epochs.coordinator")
def a_coordinator_epoch_that_goes_back() -> Log:
    log = Log()
    log.transaction()
    log.transaction()["coordinator_epoch"] = 4
    log.transaction()
    return log


@case("sequences.none")
def data_without_a_sequence() -> Log:
    log = Log()
    log.data()
    log.data(sequence=-1)
    return log


@case()
def what_is_not_known_to_be_committed_is_no_finding() -> Log:
    log = Log()
    log.transaction(4)
    log.data(3)["flags"] = FLAG_UNCOMMITTED
    log.marker(2, coordinator_epoch=1)["flags"] = FLAG_UNCOMMITTED
    log.data(4, sequence=90)["flags"] = FLAG_UNCOMMITTED
    return log


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(walked(make())) == expected


@given(name=st.sampled_from(sorted(CASES)), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_what_is_found_does_not_depend_on_how_rows_come(name: str, sizes: list[int]) -> None:
    make, _ = CASES[name]
    assert in_order(walked(make(), tuple(sizes))) == in_order(walked(make()))


def shape(log: Log) -> list[tuple[object, ...]]:
    names = (
        "marker_offset",
        "producer_epoch",
        "control_type",
        "data_epoch",
        "data_offset",
        "data_last",
        "batches",
    )
    return [tuple(row[name] for name in names) for row in turns(walked(log))]


def test_a_turn_is_what_a_producer_left_up_to_its_marker() -> None:
    log = Log()
    log.data(1)
    log.data(1)
    log.marker(2, 0)
    log.marker(2, 0)
    log.data(2, count=3)
    assert shape(log) == [
        (20, 2, 0, 1, 0, 19, 2),
        (21, 2, 0, None, None, None, 0),
        (None, 2, None, 2, 22, 24, 1),
    ]


def test_of_a_coordinator_epoch_far_above_the_odd_marker_is_named() -> None:
    log = Log()
    markers = [log.transaction() for _ in range(5)]
    markers[2]["coordinator_epoch"] = 1002
    (row,) = [row for row in walked(log) if row["kind"] == "finding"]
    assert (row["rule"], row["offset"]) == ("coordinator", markers[2]["base_offset"])


def test_a_stale_marker_ends_nothing() -> None:
    log = Log()
    log.data(5)
    log.marker(4)
    log.marker(5)
    assert shape(log) == [(10, 4, 1, None, None, None, 0), (11, 5, 1, 5, 0, 9, 1)]


def test_data_without_its_transactional_bit_is_part_of_no_transaction() -> None:
    log = Log()
    log.transaction()
    log.data(transactional=False)
    log.data()
    log.marker()
    assert [(row["plain_offset"], row["data_offset"]) for row in turns(walked(log))] == [(None, 0), (11, 21)]


def test_an_idempotent_producer_has_no_turns() -> None:
    log = Log()
    for _ in range(3):
        log.data(transactional=False)
    assert turns(walked(log)) == []


@pytest.mark.parametrize(
    ("flag", "columns", "expected"),
    [
        pytest.param(FLAG_OPAQUE, {"size": 78}, FLAG_OPAQUE, id="what-may-be-a-marker"),
        pytest.param(FLAG_OPAQUE, {"size": 5000}, 0, id="what-is-too-large-for-a-marker"),
        pytest.param(
            FLAG_OPAQUE, {"size": 5000, "producer_id": None}, FLAG_OPAQUE, id="bytes-that-are-no-batch"
        ),
        pytest.param(FLAG_DISPLACED, {}, FLAG_HOLE, id="a-batch-out-of-its-place"),
    ],
)
def test_a_turn_says_what_may_hide_in_it(flag: int, columns: dict[str, int | None], expected: int) -> None:
    log = Log()
    log.transaction()
    log.data()
    log.data(producer=9).update(flags=flag, **columns)
    log.marker()
    log.transaction()
    own = [row for row in turns(walked(log)) if row["producer_id"] == PRODUCER]
    assert [row["flags"] for row in own] == [0, expected, 0]


def test_a_turn_was_not_written_before_the_servers_clock_of_the_rows_before() -> None:
    log = Log()
    log.transaction(producer=8)
    log.data(max_timestamp_ms=5)
    log.marker()
    turn = turns(walked(log))[1]
    assert (turn["data_ms"], turn["written_ms"]) == (5, log.rows[1]["max_timestamp_ms"])
