"""Markers against data and decisions: each fault is one finding, and what is sound is none."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_OPAQUE, FLAG_UNCOMMITTED
from tests.audit.walks.feed import Row, in_order, said
from tests.audit.walks.logs import PRODUCER
from tests.audit.walks.transactions import Cluster, paired

Make = Callable[[], Cluster]
CASES: dict[str, tuple[Make, list[str]]] = {}


def case(*expected: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        CASES[make.__name__.replace("_", "-")] = (make, sorted(expected))
        return make

    return add


def kafka(*outcomes: str, bumps: bool = False, **context: Any) -> Cluster:
    cluster = Cluster(**context)
    cluster.many(*outcomes, bumps=bumps)
    return cluster


def ours(*outcomes: str, **context: Any) -> Cluster:
    cluster = Cluster(ours=True, **context)
    cluster.many(*outcomes)
    return cluster


# Sound


@case()
def transactions_of_one_epoch() -> Cluster:
    return kafka("Commit", "Abort", "Commit", "Commit")


@case()
def transactions_with_an_epoch_each() -> Cluster:
    return kafka("Commit", "Abort", "Commit", "Commit", bumps=True)


@case()
def transactions_of_our_own() -> Cluster:
    return ours("Commit", "Abort", "Commit", "Commit")


@case()
def a_transaction_that_is_still_open() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin(batches=3)
    return cluster


@case()
def a_transaction_that_is_open_and_has_not_written_here_yet() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin(batches=0)
    return cluster


@case()
def a_transaction_whose_marker_is_on_its_way() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(marked=False, complete=False)
    return cluster


@case()
def a_transaction_whose_marker_is_there_before_the_coordinator_knows_that() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(complete=False)
    return cluster


@case()
def a_partition_that_was_added_and_never_written() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(batches=0)
    cluster.later(60_000)
    cluster.transaction()
    return cluster


@case()
def a_timeout_fences_the_epoch() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin()
    cluster.end(1, "Abort")
    cluster.states.add("Empty", 2)
    cluster.transaction(2)
    return cluster


@case()
def ours_after_a_copy_that_was_made_while_it_ran() -> Cluster:
    cluster = ours("Commit", "Abort", "Commit")
    cluster.stopped = False
    return cluster


# Kafka writes markers at least once


@case("note markers.repeated", "note markers.repeated")
def an_abort_marker_is_written_again_twice_after_a_failover() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.log.marker(0, 0, coordinator_epoch=6)
    cluster.log.marker(0, 0, coordinator_epoch=6)
    cluster.transaction()
    cluster.markers()[-1]["coordinator_epoch"] = 6
    return cluster


@case("note markers.repeated")
def a_marker_of_v2_is_written_again() -> Cluster:
    cluster = Cluster()
    cluster.transaction(0, bumps=True)
    cluster.log.marker(1)
    cluster.transaction(1, bumps=True)
    return cluster


@case("markers.double")
def our_marker_is_written_again() -> Cluster:
    cluster = ours("Commit", "Commit")
    cluster.log.marker(version=2)
    cluster.transaction()
    return cluster


@case("markers.double")
def our_marker_is_written_again_within_the_next_transaction() -> Cluster:
    cluster = ours("Commit", "Abort")
    cluster.begin()
    cluster.log.marker(0, 0, version=2)
    cluster.log.data()
    cluster.end()
    return cluster


# Exchanged


@case("markers.exchanged")
def a_commit_and_the_abort_after_it_change_places() -> Cluster:
    cluster = kafka("Commit", "Commit", "Abort", "Commit")
    first, second = cluster.markers()[1:3]
    cluster.log.swap(first, second)
    return cluster


@case("markers.exchanged")
def a_commit_and_an_abort_far_from_it_change_places() -> Cluster:
    cluster = kafka(*["Commit"] * 3, "Abort", *["Commit"] * 3)
    cluster.log.swap(cluster.markers()[1], cluster.markers()[3])
    return cluster


@case("markers.exchanged")
def the_last_two_markers_change_places() -> Cluster:
    cluster = kafka("Commit", "Commit", "Abort")
    cluster.log.swap(*cluster.markers()[1:])
    return cluster


@case("markers.exchanged")
def the_outcomes_of_two_markers_of_v2_change_places() -> Cluster:
    cluster = kafka("Commit", "Commit", "Abort", "Commit", bumps=True)
    first, second = cluster.markers()[1:3]
    first["control_type"], second["control_type"] = second["control_type"], first["control_type"]
    return cluster


@case("markers.exchanged")
def two_markers_of_v2_change_places() -> Cluster:
    cluster = kafka("Commit", "Commit", "Abort", "Commit", bumps=True)
    cluster.log.swap(*cluster.markers()[1:3])
    return cluster


@case("markers.exchanged")
def two_of_our_markers_change_places() -> Cluster:
    cluster = ours("Commit", "Commit", "Abort", "Commit")
    cluster.log.swap(*cluster.markers()[1:3])
    return cluster


@case("markers.exchanged")
def two_of_our_markers_of_one_outcome_change_places() -> Cluster:
    cluster = ours("Commit", "Commit", "Commit", "Commit")
    cluster.log.swap(*cluster.markers()[1:3])
    return cluster


@case("markers.exchanged")
def the_outcomes_of_two_of_our_markers_change_places() -> Cluster:
    cluster = ours("Commit", "Commit", "Abort", "Commit")
    first, second = cluster.markers()[1:3]
    first["control_type"], second["control_type"] = second["control_type"], first["control_type"]
    return cluster


@case("markers.wrong_outcome")
def a_commit_is_an_abort_in_the_log() -> Cluster:
    cluster = kafka("Commit", "Commit", "Commit")
    cluster.markers()[1]["control_type"] = 0
    return cluster


@case("markers.wrong_outcome")
def an_abort_of_v2_is_a_commit_in_the_log() -> Cluster:
    cluster = kafka("Commit", "Abort", "Commit", bumps=True)
    cluster.markers()[1]["control_type"] = 1
    return cluster


@case("markers.wrong_outcome")
def the_last_marker_has_the_other_outcome() -> Cluster:
    cluster = kafka("Commit", "Commit")
    cluster.markers()[-1]["control_type"] = 0
    return cluster


# Missing


@case("markers.missing")
def a_marker_was_never_written() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(marked=False)
    cluster.transaction()
    return cluster


@case("markers.missing")
def a_marker_of_v2_was_never_written() -> Cluster:
    cluster = Cluster()
    cluster.transaction(0, bumps=True)
    cluster.transaction(1, bumps=True, marked=False)
    cluster.transaction(2, bumps=True)
    return cluster


@case("markers.missing")
def a_marker_is_gone_and_leaves_a_hole() -> Cluster:
    cluster = kafka("Commit", "Commit", "Commit")
    cluster.log.lose(cluster.markers()[1])
    return cluster


@case("markers.missing")
def the_last_marker_of_a_stopped_log_is_gone() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(marked=False)
    return cluster


@case("?markers.missing")
def the_last_marker_of_a_copy_of_a_running_broker() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(marked=False)
    cluster.stopped = False
    return cluster


@case("markers.missing")
def a_last_marker_that_a_later_decision_of_another_producer_proves_missing() -> Cluster:
    cluster = kafka("Commit")
    cluster.transaction(marked=False)
    cluster.transaction(producer=9, name="y")
    cluster.stopped = False
    return cluster


@case("?markers.missing")
def a_marker_that_may_be_in_bytes_that_cannot_be_read() -> Cluster:
    cluster = kafka("Commit", "Commit", "Commit")
    cluster.markers()[1].update(flags=FLAG_OPAQUE)
    return cluster


@case("markers.missing")
def a_transaction_without_data_and_marker() -> Cluster:
    cluster = kafka("Commit", "Commit")
    cluster.transaction(batches=0, marked=False, outcome="Abort")
    cluster.transaction()
    return cluster


# Foreign and early


@case("markers.without_transaction")
def a_commit_marker_of_no_transaction() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.log.marker(0, 1)
    cluster.transaction()
    return cluster


@case("markers.without_transaction")
def a_marker_of_an_epoch_that_no_transaction_had() -> Cluster:
    cluster = kafka("Commit", "Commit", bumps=True)
    cluster.log.marker(9, 0)
    return cluster


@case("markers.without_transaction")
def a_marker_of_a_producer_that_no_coordinator_knows() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.marker(0, 1, producer=777)
    return cluster


@case("note markers.operator")
def an_operator_ended_a_hanging_transaction() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.data()
    cluster.log.marker(0, 0)
    cluster.transaction()
    return cluster


@case("?markers.without_transaction")
def a_marker_that_was_written_after_the_coordinators_log_was_copied() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.data()
    cluster.log.marker()
    cluster.stopped = False
    return cluster


@case("markers.early")
def a_commit_marker_of_v1_before_its_data_in_the_middle() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin(count=1)
    cluster.end()
    cluster.log.swap(*cluster.log.rows[-2:])
    cluster.later(5000)
    cluster.transaction()
    return cluster


@case("markers.early")
def the_last_commit_marker_before_its_data() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin(count=1)
    cluster.end()
    cluster.log.swap(*cluster.log.rows[-2:])
    return cluster


# What hangs


@case("hanging.orphan")
def data_that_no_transaction_will_end() -> Cluster:
    cluster = kafka("Commit", "Commit")
    cluster.log.data()
    return cluster


@case("hanging.orphan")
def data_that_no_transaction_will_end_on_a_compacted_topic() -> Cluster:
    cluster = kafka("Commit", "Commit", compacted=True)
    cluster.log.data()
    for row in cluster.log.rows:
        row["flags"] |= FLAG_COMPACTED
    return cluster


@case("fencing.zombie")
def data_of_an_epoch_that_the_coordinator_left_elsewhere() -> Cluster:
    cluster = kafka("Commit")
    cluster.states.transaction(4, parts=(9,))
    cluster.log.data()
    return cluster


@case("hanging.orphan")
def a_client_clock_far_ahead_excuses_nothing() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.data(max_timestamp_ms=2**60)
    return cluster


@case("?hanging.orphan")
def open_data_in_a_copy_of_a_running_broker() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.data()
    cluster.stopped = False
    return cluster


@case("markers.not_transactional")
def the_transactional_bit_of_a_batch_is_cleared() -> Cluster:
    cluster = kafka("Commit")
    cluster.begin(batches=3)
    cluster.log.rows[-2]["attributes"] = 0
    cluster.end()
    return cluster


@case("markers.not_transactional")
def the_transactional_bit_of_a_transactions_only_batch_is_cleared() -> Cluster:
    cluster = kafka("Commit", "Commit", "Commit", bumps=True)
    cluster.log.rows[2]["attributes"] = 0
    return cluster


@case("ids.shared")
def one_producer_id_under_two_transactional_ids() -> Cluster:
    cluster = Cluster()
    for _ in range(4):
        for name in ("a", "b"):
            cluster.transaction(name=name)
    return cluster


# What is not kept


@case("?markers.without_transaction")
def turns_before_what_the_coordinators_log_still_tells() -> Cluster:
    cluster = kafka("Commit", "Abort", "Commit", "Commit")
    del cluster.states.rows[:8]
    for row in cluster.states.rows:
        row.update(unbroken_offset=8, flags=FLAG_COMPACTED)
    cluster.states.rows[0]["offset"] = 3
    return cluster


@case("?markers.without_transaction")
def epochs_before_what_the_coordinators_log_still_tells() -> Cluster:
    cluster = kafka("Commit", "Abort", "Commit", "Commit", bumps=True)
    del cluster.states.rows[:8]
    for row in cluster.states.rows:
        row.update(unbroken_offset=8, flags=FLAG_COMPACTED)
    cluster.states.rows[0]["offset"] = 3
    return cluster


@case("?markers.without_transaction", "markers.wrong_outcome")
def a_wrong_outcome_after_what_is_not_kept() -> Cluster:
    cluster = epochs_before_what_the_coordinators_log_still_tells()
    cluster.markers()[-1]["control_type"] = 0
    return cluster


@case("?markers.missing")
def outcomes_whose_markers_lie_before_the_first_offset_that_is_kept() -> Cluster:
    cluster = kafka("Commit", "Commit", "Commit")
    del cluster.log.rows[:4]
    cluster.context["offset"] = cluster.log.rows[0]["base_offset"]
    return cluster


@case("?hanging.orphan", "?markers.without_transaction")
def there_is_no_log_of_a_coordinator() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.log.data()
    cluster.states.rows.clear()
    return cluster


@case()
def what_is_not_known_to_be_committed() -> Cluster:
    cluster = kafka("Commit")
    cluster.log.marker(0, 0)["flags"] = FLAG_UNCOMMITTED
    cluster.transaction()
    for row in cluster.log.rows[-2:]:
        row["flags"] = FLAG_UNCOMMITTED
    return cluster


@case()
def the_topic_was_deleted_and_made_again() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.context["deleted_ms"] = cluster.states.clock_ms
    cluster.log.rows.clear()
    cluster.log.end = 0
    cluster.later(1000)
    cluster.transaction()
    return cluster


@case("?markers.missing")
def the_partition_was_not_read() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.log.rows.clear()
    cluster.context["end_offset"] = None
    return cluster


# Indexes and snapshots beside the log


def with_index(*entries: tuple[int, int]) -> Cluster:
    """Aborts are at 21 (data from 11) and 43 (from 33)."""
    cluster = kafka("Commit", "Abort", "Commit", "Abort")
    for first, last in entries:
        cluster.entries.append({
            "rank": 4, "producer_id": PRODUCER, "offset": last, "first_offset": first, "copy": "/n1/orders-0",
            "path": "/n1/orders-0/0.txnindex", "position": 34 * len(cluster.entries),
        })  # fmt: skip
    return cluster


@case()
def an_index_as_the_log_has_it() -> Cluster:
    return with_index((11, 21), (33, 43))


@case("integrity.index")
def an_index_lacks_an_abort_between_two() -> Cluster:
    cluster = with_index((11, 21), (33, 43))
    cluster.transaction(outcome="Abort")
    cluster.entries[1].update(first_offset=44, offset=54)
    return cluster


@case()
def an_index_that_is_older_than_its_log() -> Cluster:
    return with_index((11, 21))


@case("integrity.index")
def an_index_lacks_the_last_abort_of_a_stopped_copy() -> Cluster:
    cluster = with_index((11, 21))
    copy = {
        "rank": 1,
        "producer_id": -1,
        "copy": "/n1/orders-0",
        "offset": 0,
        "end_offset": 44,
        "stopped": True,
    }
    cluster.entries.append(copy)
    return cluster


@case()
def a_copy_that_ends_before_the_last_abort() -> Cluster:
    cluster = an_index_lacks_the_last_abort_of_a_stopped_copy()
    cluster.entries[-1]["end_offset"] = 40
    return cluster


@case("integrity.index")
def an_index_has_another_beginning() -> Cluster:
    return with_index((11, 21), (34, 43))


@case("integrity.index")
def an_index_has_an_abort_that_is_none() -> Cluster:
    return with_index((11, 21), (22, 32), (33, 43))


def with_snapshot(offset: int, first: int, epoch: int = 0) -> Cluster:
    cluster = kafka("Commit", "Abort", "Commit", "Abort")
    cluster.entries.append({
        "rank": 5, "producer_id": PRODUCER, "offset": offset, "first_offset": first, "producer_epoch": epoch,
        "copy": "/n1/orders-0", "path": f"/n1/orders-0/{offset:020}.snapshot", "position": 0,
    })  # fmt: skip
    return cluster


@case()
def a_snapshot_with_an_open_transaction() -> Cluster:
    return with_snapshot(21, 11)


@case()
def a_snapshot_without_one() -> Cluster:
    return with_snapshot(22, -1)


@case("integrity.snapshot")
def a_snapshot_that_does_not_know_an_open_transaction() -> Cluster:
    return with_snapshot(21, -1)


@case("integrity.snapshot")
def a_snapshot_with_a_transaction_that_is_not_open() -> Cluster:
    return with_snapshot(22, 11)


@case("integrity.snapshot")
def a_snapshot_of_an_older_epoch() -> Cluster:
    cluster = kafka("Commit", "Abort", "Commit", bumps=True)
    cluster.entries = with_snapshot(33, -1, 2).entries
    return cluster


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_partition_and_its_coordinators_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(paired(make())) == expected


@given(name=st.sampled_from(sorted(CASES)), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_what_is_found_does_not_depend_on_how_rows_come(name: str, sizes: list[int]) -> None:
    make, _ = CASES[name]
    assert in_order(paired(make(), tuple(sizes))) == in_order(paired(make()))


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), max_size=12),
    bumps=st.booleans(),
    is_ours=st.booleans(),
    open_at_the_end=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_sound_history_has_no_finding(
    outcomes: list[str], bumps: bool, is_ours: bool, open_at_the_end: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    cluster.many(*outcomes, bumps=bumps)
    if open_at_the_end:
        cluster.begin(len(outcomes) if bumps else 0)
    assert said(paired(cluster)) == []


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), min_size=2, max_size=12),
    at=st.integers(0, 100),
    bumps=st.booleans(),
    is_ours=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_marker_that_is_gone_is_one_finding(
    outcomes: list[str], at: int, bumps: bool, is_ours: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    markers = cluster.many(*outcomes, bumps=bumps)
    cluster.log.squeeze_out(markers[at % len(markers)])
    assert [each for each in said(paired(cluster)) if not each.startswith("note")] == ["markers.missing"]


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), min_size=1, max_size=12),
    at=st.integers(0, 100),
    bumps=st.booleans(),
    is_ours=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_marker_with_the_other_outcome_is_one_finding(
    outcomes: list[str], at: int, bumps: bool, is_ours: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    markers = cluster.many(*outcomes, bumps=bumps)
    marker = markers[at % len(markers)]
    marker["control_type"] = 1 - marker["control_type"]
    found = [row for row in paired(cluster) if row["kind"] == "finding"]
    assert [(row["rule"], row["offset"]) for row in found] == [("wrong_outcome", marker["base_offset"])]


def test_a_finding_names_file_offset_producer_and_transaction() -> None:
    (row,) = paired(a_commit_is_an_abort_in_the_log())
    named: Row = {
        name: row[name] for name in ("path", "position", "offset", "producer_id", "transactional_id")
    }
    assert named == {
        "path": f"/n1/orders-0/{0:020}.log",
        "position": 300,
        "offset": 21,
        "producer_id": PRODUCER,
        "transactional_id": "x",
    }
