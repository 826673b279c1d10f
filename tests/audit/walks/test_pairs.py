"""Markers against data and decisions: each fault is one finding, and what is sound is none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_UNCOMMITTED
from tests.audit.walks.feed import in_order, said
from tests.audit.walks.named import Cases
from tests.audit.walks.transactions import Cluster, paired

CASES: Cases[Cluster] = Cases()
case = CASES.case


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
    for row in cluster.states.rows[-3:]:
        row["leader_epoch"] = 6
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


@case()
def open_data_that_is_not_known_to_be_committed_takes_no_markers_decision() -> Cluster:
    cluster = kafka("Commit", "Commit")
    cluster.log.data(0)["flags"] = FLAG_UNCOMMITTED
    return cluster


@case()
def a_marker_at_the_start_of_a_trimmed_log_is_not_early() -> Cluster:
    """Its data is gone; what follows was sent, by its client's clock, before it was written."""
    cluster = kafka("Commit", "Commit", offset=10)
    first, _, second, _ = cluster.log.rows
    second["max_timestamp_ms"] = first["max_timestamp_ms"]
    cluster.log.rows.remove(first)
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


@case("sequences.gap")  # no finding of the check: the producer went on in a topic that was made again
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


def test_the_marker_that_fits_its_decision_best_is_the_last_ones() -> None:
    """Each marker is written 150 ms after its decision, and each decision 600 ms after the one before."""
    cluster = Cluster()
    for _ in range(5):
        cluster.begin()
        marker = cluster.end()
        assert marker is not None
        marker["max_timestamp_ms"] -= 850
        cluster.later(-4400)
    cluster.log.squeeze_out(cluster.markers()[3])
    (found,) = [row for row in paired(cluster) if row["kind"] == "finding"]
    decided = [row["offset"] for row in cluster.states.rows if row["state"] == "PrepareCommit"][3]
    assert f"(offset {decided} of the coordinator's log" in found["detail"]


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_partition_and_its_coordinators_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(paired(make())) == expected


@given(name=st.sampled_from(sorted(CASES)), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_what_is_found_does_not_depend_on_how_rows_come(name: str, sizes: list[int]) -> None:
    make, _ = CASES[name]
    assert in_order(paired(make(), tuple(sizes))) == in_order(paired(make()))
