"""Transaction indexes and producer snapshots held against the log beside them."""

import pytest

from tests.audit.walks.feed import said
from tests.audit.walks.logs import PRODUCER
from tests.audit.walks.named import Cases
from tests.audit.walks.test_pairs import kafka
from tests.audit.walks.transactions import Cluster, paired

CASES: Cases[Cluster] = Cases()
case = CASES.case


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
def a_last_stable_offset_is_too_low() -> Cluster:
    cluster = with_index((11, 21), (33, 43))
    for entry, stable in zip(cluster.entries, (22, 43), strict=True):
        entry["stable_offset"] = stable
    return cluster


OTHER = PRODUCER + 1


def with_stable(stable: int, *, stopped: bool = True, beside: bool = False, behind: bool = False) -> Cluster:
    """An abort of data from 11 on, and its entry. Another transaction begins at 21 beside it, or ten records
    behind its marker at 32.
    """
    cluster = kafka("Commit")
    cluster.begin(0)
    if beside:
        cluster.begin(0, producer=OTHER, name="y")
    cluster.end(0, "Abort")
    if behind:
        for _ in range(2):
            cluster.log.add(5, producer_id=-1, producer_epoch=-1, attributes=0)
        cluster.begin(0, producer=OTHER, name="y")
    if beside or behind:
        cluster.end(0, "Commit", producer=OTHER, name="y")
    at = next(row["base_offset"] for row in cluster.markers() if row["control_type"] == 0)
    copy = {"rank": 1, "producer_id": -1, "copy": "/n1/orders-0", "offset": 0, "end_offset": cluster.log.end}
    cluster.entries += [
        {**copy, "stopped": stopped},
        {
            "rank": 4, "producer_id": PRODUCER, "offset": at, "first_offset": 11, "copy": "/n1/orders-0",
            "path": "/n1/orders-0/0.txnindex", "position": 0, "stable_offset": stable,
        },
    ]  # fmt: skip
    return cluster


@case()
def a_last_stable_offset_of_the_transaction_that_is_open_beside_it() -> Cluster:
    return with_stable(21, beside=True)


@case("integrity.index")
def a_last_stable_offset_above_a_transaction_that_is_open_beside_it() -> Cluster:
    return with_stable(32, beside=True)


@case()
def a_copy_that_begins_above_a_transaction_that_is_open() -> Cluster:
    cluster = with_stable(32, beside=True)
    cluster.entries[0]["offset"] = 25
    return cluster


@case()
def a_last_stable_offset_of_the_next_transaction_of_another_producer() -> Cluster:
    return with_stable(32, behind=True)


@case("integrity.index")
def a_last_stable_offset_before_the_next_transaction() -> Cluster:
    return with_stable(31, behind=True)


@case("integrity.index")
def a_last_stable_offset_within_the_next_transaction() -> Cluster:
    return with_stable(33, behind=True)


@case("integrity.index")
def a_last_stable_offset_beyond_the_end_of_a_stopped_copy() -> Cluster:
    return with_stable(60)


@case()
def a_last_stable_offset_beyond_the_end_of_a_copy_that_ran() -> Cluster:
    return with_stable(60, stopped=False)


@case("integrity.index")
def an_index_lacks_an_abort_between_two() -> Cluster:
    cluster = with_index((11, 21), (33, 43))
    cluster.transaction(outcome="Abort")
    cluster.entries[1].update(first_offset=44, offset=54)
    return cluster


@case()
def an_index_without_an_abort_that_ended_no_data() -> Cluster:
    cluster = kafka("Commit", "Abort")
    cluster.transaction(outcome="Abort", batches=0)
    cluster.transaction(outcome="Abort")
    for first, last in ((11, 21), (23, 33)):
        cluster.entries.append({
            "rank": 4, "producer_id": PRODUCER, "offset": last, "first_offset": first, "copy": "/n1/orders-0",
            "path": "/n1/orders-0/0.txnindex", "position": 34 * len(cluster.entries),
        })  # fmt: skip
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


def begun_at_an_abort(first: int) -> Cluster:
    """The log is kept from the abort at 21 on; its index says that its data began at ``first``."""
    cluster = with_index((first, 21), (33, 43))
    cluster.log.rows = [row for row in cluster.log.rows if row["base_offset"] >= 21]
    cluster.context["offset"] = 21
    return cluster


@case("?markers.missing")
def a_log_that_begins_at_an_abort_whose_data_is_not_kept() -> Cluster:
    return begun_at_an_abort(11)


@case("?markers.missing", "integrity.index")
def a_log_that_begins_at_an_abort_to_which_its_index_gives_later_data() -> Cluster:
    return begun_at_an_abort(21)


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


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_the_files_beside_a_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(paired(make())) == expected
