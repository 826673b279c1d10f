"""Markers that are exchanged, of the wrong outcome, or missing: one finding each."""

from collections.abc import Callable

import pytest

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_OPAQUE
from tests.audit.walks.feed import Row, said
from tests.audit.walks.logs import PRODUCER
from tests.audit.walks.named import Cases
from tests.audit.walks.test_pairs import kafka, ours
from tests.audit.walks.transactions import Cluster, paired

CASES: Cases[Cluster] = Cases()
case = CASES.case


# Where the coordinator's log was compacted


def compacted(cluster: Cluster, first: int) -> Cluster:
    """The coordinator's log tells of what came from its offset ``first`` on."""
    del cluster.states.rows[:first]
    for row in cluster.states.rows:
        row.update(unbroken_offset=first, flags=FLAG_COMPACTED)
    return cluster


@case("?markers.without_transaction", "markers.without_transaction")
def a_marker_of_an_epoch_that_the_coordinator_had_for_another_partition() -> Cluster:
    cluster = compacted(kafka("Commit", "Commit", "Commit", "Commit", bumps=True), 9)
    for row in cluster.states.rows:
        row["partitions"] = [{"topic": "elsewhere", "partition": 0}]
    cluster.log.rows.remove(cluster.log.rows[-2])
    return cluster


@case("?markers.without_transaction")
def a_marker_of_the_first_epoch_that_is_told_of() -> Cluster:
    """It may have ended a transaction that compaction has taken: one epoch had many of them."""
    cluster = compacted(kafka("Commit", "Commit", "Commit", "Commit"), 6)
    for row in cluster.states.rows:
        row["partitions"] = [{"topic": "elsewhere", "partition": 0}]
    return cluster


@case("?markers.without_transaction", "markers.wrong_outcome")
def the_first_outcome_that_is_told_of_with_an_epoch_of_its_own() -> Cluster:
    cluster = compacted(kafka("Commit", "Commit", "Commit", bumps=True), 3)
    cluster.markers()[1]["control_type"] = 0
    return cluster


def now_and_then(count: int) -> Cluster:
    """Transactions of one epoch, four to nine seconds apart."""
    cluster = kafka()
    for number in range(count):
        cluster.later(1000 * (number * 7 % 6))
        cluster.transaction()
    return cluster


def many_before_a_hole(lost: Callable[[Cluster], Row]) -> Cluster:
    """The coordinator's log tells of the last 17 of 20 transactions of one epoch; #17 loses one row."""
    cluster = compacted(kafka(*["Commit"] * 20), 9)
    for row in cluster.states.rows:
        row["offset"] += 1
    cluster.log.lose(lost(cluster))
    return cluster


@case("?markers.without_transaction", "markers.missing")
def a_marker_is_missing_where_the_log_has_a_hole() -> Cluster:
    return many_before_a_hole(lambda cluster: cluster.markers()[16])


@case("?markers.without_transaction", "markers.missing")
def a_marker_is_missing_without_a_hole() -> Cluster:
    """Sixteen pairs that are one off would have markers older than their decisions."""
    cluster = compacted(kafka(*["Commit"] * 20), 9)
    for row in cluster.states.rows:
        row["offset"] += 1
    cluster.log.squeeze_out(cluster.markers()[16])
    return cluster


@case("?markers.without_transaction")
def a_leaders_clock_that_is_behind() -> Cluster:
    """Each marker is older than its decision, all by as much: no pair is one off."""
    return compacted(on_another_clock(now_and_then(20), -5000), 9)


@case()
def a_leaders_clock_that_is_behind_and_many_transactions() -> Cluster:
    return on_another_clock(now_and_then(90), -5000)


@case("?markers.without_transaction")
def a_leaders_clock_that_is_ahead() -> Cluster:
    return compacted(on_another_clock(now_and_then(90), 30_000), 9)


@case("?markers.without_transaction", "markers.missing")
def a_marker_is_missing_under_a_clock_that_is_behind() -> Cluster:
    cluster = on_another_clock(now_and_then(20), -5000)
    cluster.log.squeeze_out(cluster.markers()[16])
    return compacted(cluster, 9)


@case()
def commits_without_data_of_a_client_whose_clock_is_behind() -> Cluster:
    """Its data looks as if it were of the transaction before, which had none."""
    cluster = kafka()
    for number in range(9):
        cluster.later(1000 * (number * 7 % 6))
        cluster.transaction(batches=int(number % 3 > 0))
    for row in cluster.log.rows:
        if row.get("control_type") is None:
            row["max_timestamp_ms"] -= 5000
    return cluster


def on_another_clock(cluster: Cluster, ms: int) -> Cluster:
    """The partition's leader stamps markers by a clock that is so much ahead of the coordinator's."""
    for row in cluster.markers():
        row["max_timestamp_ms"] += ms
    return cluster


@case("?markers.missing", "?markers.without_transaction")
def a_copy_that_ends_before_a_marker_and_the_transaction_behind_it() -> Cluster:
    cluster = now_and_then(20)
    cluster.transaction(marked=False)
    cluster.later(5000)
    cluster.states.add("Ongoing")
    cluster.stopped = False
    return compacted(cluster, 9)


@case("?markers.without_transaction", "hanging.orphan")
def data_that_nothing_will_end_where_both_logs_were_compacted() -> Cluster:
    """Whatever is gone from before: what is open now the coordinator's last records have."""
    cluster = compacted(kafka("Commit", "Commit", "Commit", compacted=True), 6)
    cluster.log.data()
    for row in cluster.log.rows:
        row["flags"] |= FLAG_COMPACTED
    cluster.context["unbroken_offset"] = cluster.log.rows[4]["base_offset"]
    return cluster


@case("?markers.without_transaction")
def data_is_missing_where_the_log_has_a_hole() -> Cluster:
    return many_before_a_hole(lambda cluster: cluster.log.rows[2 * 16])


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


@case("markers.without_transaction")
def an_abort_of_the_next_epoch_is_no_operators() -> Cluster:
    cluster = kafka("Commit", bumps=True)
    cluster.log.data(1)
    cluster.log.marker(2, 0)
    cluster.states.add("Empty", 2)
    cluster.transaction(2, bumps=True)
    return cluster


@case("markers.wrong_outcome")
def the_first_marker_of_a_trimmed_log_is_of_the_other_outcome() -> Cluster:
    cluster = kafka("Commit", "Commit")
    cluster.context["offset"] = cluster.markers()[0]["base_offset"]
    del cluster.log.rows[0]
    for row in cluster.states.rows[1:3]:
        row["state"] = row["state"].replace("Commit", "Abort")
    return cluster


@case("markers.late")
def a_marker_of_v2_stands_behind_data_of_the_next_transaction() -> Cluster:
    cluster = kafka("Commit", bumps=True)
    cluster.begin(1, count=1)
    cluster.end(2)
    cluster.begin(2, count=1)
    cluster.end(3)
    cluster.log.swap(*cluster.log.rows[-3:-1])
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


def test_the_last_marker_ends_the_last_transaction_if_it_is_no_earlier_than_its_decision() -> None:
    """Of the two before it the earlier marker is missing: its data is in the last turn."""
    cluster = kafka("Commit", "Commit", "Commit")
    _, gone, last = cluster.markers()
    data = cluster.log.rows[2]
    cluster.log.squeeze_out(gone)
    found = [row for row in paired(cluster) if row["kind"] == "finding"]
    assert said(found) == ["markers.missing"]
    names = ("path", "position", "offset", "end_offset")
    assert [found[0][name] for name in names] == [
        last["path"], last["position"], data["base_offset"], last["base_offset"],
    ]  # fmt: skip


def test_of_equal_transactions_the_one_that_lost_its_marker_is_named() -> None:
    """A marker ends no transaction that was decided after it, nor one before the last that it can end."""
    cluster = kafka("Commit", "Commit", "Commit", "Commit")
    cluster.log.squeeze_out(cluster.markers()[1])
    (found,) = [row for row in paired(cluster) if row["kind"] == "finding"]
    decided = [row["offset"] for row in cluster.states.rows if row["state"] == "PrepareCommit"][1]
    assert said([found]) == ["markers.missing"]
    assert f"(offset {decided} of the coordinator's log" in found["detail"]


def test_the_last_marker_ends_no_transaction_that_was_decided_after_it() -> None:
    cluster = kafka("Commit", "Commit")
    cluster.transaction(batches=0, marked=False)
    decided = cluster.states.rows[-2]
    (found,) = paired(cluster)
    assert said([found]) == ["markers.missing"]
    assert f"(offset {decided['offset']} of the coordinator's log" in found["detail"]


@pytest.mark.parametrize("sizes", [(1_000_000,), (1,), (3, 1)])
@pytest.mark.parametrize("name", CASES)
def test_what_is_found_of_markers(name: str, sizes: tuple[int, ...]) -> None:
    make, expected = CASES[name]
    assert said(paired(make(), sizes)) == expected


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
