"""Data of a producer without an epoch is a finding of its own, at that batch; nothing follows from it."""

import pytest

from fencepost.audit.walks.columns import FLAG_UNCOMMITTED
from tests.audit.walks.chain import Chain, audited, roots
from tests.audit.walks.feed import said
from tests.audit.walks.logs import PRODUCER, Log, turns, walked
from tests.audit.walks.named import Cases
from tests.audit.walks.test_faults import own, sound
from tests.audit.walks.transactions import Cluster

CASES: Cases[Log] = Cases()
case = CASES.case


@case("epochs.none")
def a_batch_between_two_of_its_producer() -> Log:
    log = Log()
    log.data(3)
    log.data(3)["producer_epoch"] = -1
    log.data(3)
    log.marker(3)
    return log


@case("epochs.none")
def the_first_batch_of_its_producer() -> Log:
    log = Log()
    log.data(3)["producer_epoch"] = -1
    log.data(3)
    log.marker(3)
    return log


@case("epochs.none")
def the_only_batch_of_its_producer() -> Log:
    log = Log()
    log.data(3, transactional=False)["producer_epoch"] = -1
    return log


@case("epochs.none")
def the_first_batch_of_its_producer_and_then_the_next_epoch() -> Log:
    log = Log()
    log.data(3, transactional=False)["producer_epoch"] = -1
    log.data(4, transactional=False)
    log.data(4, transactional=False)
    return log


@case("epochs.none", "sequences.gap")
def the_first_batch_of_its_producer_and_one_is_missing_behind_it() -> Log:
    log = Log()
    log.data(3)["producer_epoch"] = -1
    log.data(3, sequence=70)
    log.marker(3)
    return log


@case("epochs.none")
def the_only_batch_before_a_marker() -> Log:
    log = Log()
    log.data(3)["producer_epoch"] = -1
    log.marker(4)
    log.transaction(4, bumps=True)
    return log


@case("epochs.none", "epochs.none")
def each_batch_is_named() -> Log:
    log = Log()
    for epoch in (3, -1, -1, 3):
        log.data(3)["producer_epoch"] = epoch
    return log


@case("epochs.none")
def the_first_batch_of_the_next_epoch() -> Log:
    log = Log()
    log.transaction(3)
    log.data(4)["producer_epoch"] = -1
    log.data(4)
    log.marker(4)
    return log


@case("epochs.none")
def the_only_batch_of_the_next_epoch() -> Log:
    log = Log()
    log.transaction(3)
    log.data(4)["producer_epoch"] = -1
    log.marker(4)
    log.data(4)
    return log


@case("epochs.none")
def the_last_batch_of_an_epoch() -> Log:
    log = Log()
    log.data(3)
    log.data(3)["producer_epoch"] = -1
    log.marker(3)
    log.transaction(4)
    return log


@case("epochs.none", "sequences.gap")
def a_sequence_that_does_not_follow_is_another_fault() -> Log:
    log = Log()
    log.data(3)
    log.data(3, sequence=70)["producer_epoch"] = -1
    log.data(3)
    return log


@case("epochs.none", "sequences.gap")
def a_batch_is_missing_behind_it() -> Log:
    log = Log()
    log.data(3)
    log.data(3)["producer_epoch"] = -1
    log.data(3, sequence=70)
    return log


@case("epochs.none", "sequences.gap")
def the_next_epoch_does_not_begin_at_0() -> Log:
    log = Log()
    log.data(3)
    log.data(3)["producer_epoch"] = -1
    log.marker(3)
    log.data(4, sequence=70)
    return log


@case("epochs.none")
def offsets_of_a_group() -> Log:
    log = Log("__consumer_offsets")
    for epoch in (0, -1, 0):
        log.data(0, sequence=0, count=1)["producer_epoch"] = epoch
        log.marker(0)
    return log


@case()
def a_batch_that_is_not_known_to_be_committed() -> Log:
    log = Log()
    log.data(3)
    log.data(3)["flags"] = FLAG_UNCOMMITTED
    log.rows[-1]["producer_epoch"] = -1
    return log


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_of_data_without_an_epoch(name: str) -> None:
    make, expected = CASES[name]
    assert said(walked(make())) == expected


def test_the_finding_names_the_batch_and_its_producer() -> None:
    log = Log()
    log.data(3)
    odd = log.data(3)
    odd["producer_epoch"] = -1
    (row,) = [row for row in walked(log) if row["kind"] == "finding"]
    assert (row["path"], row["position"]) == (odd["path"], odd["position"])
    assert (row["offset"], row["end_offset"]) == (odd["base_offset"], odd["last_offset"] + 1)
    assert (row["producer_id"], row["producer_epoch"]) == (PRODUCER, -1)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_it_is_part_of_its_producers_turn(odd: int) -> None:
    log = Log()
    for number in range(3):
        log.data(3)["producer_epoch"] = -1 if number == odd else 3
    log.marker(4)
    (turn,) = turns(walked(log))
    assert (turn["data_epoch"], turn["data_offset"], turn["batches"]) == (3, 0, 3)
    assert turn["late_offset"] is None


def test_data_of_a_later_epoch_before_the_marker_is_seen_beside_it() -> None:
    log = Log()
    log.data(3)
    log.data(3)["producer_epoch"] = -1
    late = log.data(4)
    log.marker(5)
    (turn,) = turns(walked(log))
    assert turn["late_offset"] == late["base_offset"]


def test_no_marker_is_missing_where_the_first_batch_may_begin_the_epoch() -> None:
    log = Log("__consumer_offsets")
    log.transaction(3)
    log.data(4, sequence=0)["producer_epoch"] = -1
    log.data(4, sequence=0)
    log.marker(4)
    assert [turn["late_offset"] for turn in turns(walked(log))] == [None, None]


def _batches(kind: str) -> list[int]:
    return [at for at, row in enumerate(own(sound(kind))) if row.get("control_type") is None]


PLACES: list[tuple[str, int]] = [(kind, at) for kind in ("v1", "v2", "ours") for at in _batches(kind)]


@pytest.mark.parametrize(("kind", "at"), PLACES)
def test_wherever_it_is_it_is_one_finding(kind: str, at: int) -> None:
    chain = sound(kind)
    own(chain)[at]["producer_epoch"] = -1
    rows = audited(chain)
    assert roots(rows) == ["epochs.none"]
    assert {row["offset"] for row in rows if not row["cause"]} == {own(chain)[at]["base_offset"]}
    assert len(rows) == 1


@pytest.mark.parametrize("batches", [1, 2])
def test_of_a_transaction_that_is_open(batches: int) -> None:
    """The first batch of its producer, or all that it wrote: then no row says of which epoch that is."""
    cluster = Cluster()
    cluster.begin(3, batches=batches)
    cluster.log.rows[0]["producer_epoch"] = -1
    assert roots(audited(Chain(cluster))) == ["epochs.none"]
