"""Faults planted one at a time into a sound cluster: each is one finding, what it brings about below it."""

from collections.abc import Callable

import pytest

from fencepost.audit.walks.found import found
from tests.audit.walks.chain import STATES, Chain, audited, roots
from tests.audit.walks.feed import Row
from tests.audit.walks.logs import PRODUCER
from tests.audit.walks.transactions import Cluster

OUTCOMES = ("Commit", "Commit", "Abort", "Commit", "Abort", "Commit")
Plant = Callable[[Chain], None]
FAULTS: dict[str, tuple[Plant, str, str]] = {}


def fault(expected: str, on: str = "v1 v2 ours") -> Callable[[Plant], Plant]:
    """``on``: the kinds of cluster that it is planted into."""

    def add(plant: Plant) -> Plant:
        FAULTS[plant.__name__.replace("_", "-")] = (plant, expected, on)
        return plant

    return add


def sound(kind: str, *, copies: int = 1) -> Chain:
    """Three producers take turns."""
    cluster = Cluster(ours=kind == "ours")
    for number, outcome in enumerate(OUTCOMES):
        for producer in range(3):
            epoch = number if kind == "v2" else 0
            cluster.transaction(
                epoch,
                outcome,
                bumps=kind == "v2",
                producer=PRODUCER + producer,
                name=f"x{producer}",
                batches=2,
            )
    return Chain(cluster, copies=copies)


def own(chain: Chain, producer: int = 1) -> list[Row]:
    return [row for row in chain.data() if row["producer_id"] == PRODUCER + producer]


def own_markers(chain: Chain, producer: int = 1) -> list[Row]:
    return [row for row in own(chain, producer) if row.get("control_type") is not None]


def swap(first: Row, second: Row) -> None:
    for name in (set(first) | set(second)) - {"base_offset", "last_offset", "position", "crc"}:
        first[name], second[name] = second.get(name), first.get(name)


def after(chain: Chain, row: Row, **columns: object) -> Row:
    """A batch of one offset behind ``row``; all that follows moves up."""
    log = [each for each in chain.data() if each["base_offset"] > row["base_offset"]]
    for each in log:
        each["base_offset"] += 1
        each["last_offset"] += 1
        each["position"] += 50
    offset = row["last_offset"] + 1
    made = {**row, "base_offset": offset, "last_offset": offset, "position": row["position"] + 50,
            "record_count": 1, "crc": offset * 7, **columns}  # fmt: skip
    chain.batches.append(made)
    return made


@fault("markers.exchanged")
def a_commit_and_an_abort_marker_change_places(chain: Chain) -> None:
    swap(*own_markers(chain)[1:3])


@fault("markers.exchanged", "v1 v2 ours")
def the_outcomes_of_two_markers_change_places(chain: Chain) -> None:
    first, second = own_markers(chain)[1:3]
    first["control_type"], second["control_type"] = second["control_type"], first["control_type"]


@fault("markers.wrong_outcome")
def the_outcome_of_a_marker_is_another(chain: Chain) -> None:
    own_markers(chain)[3]["control_type"] = 0


@fault("markers.missing")
def a_marker_is_gone(chain: Chain) -> None:
    chain.take_out(own_markers(chain)[2])


@fault("markers.missing")
def the_last_marker_of_a_producer_is_gone(chain: Chain) -> None:
    chain.take_out(own_markers(chain, 2)[-1])


@fault("offsets.hole")
def a_batch_is_gone(chain: Chain) -> None:
    chain.take_out(own(chain)[4])


@fault("markers.early", "v2")
def a_commit_marker_stands_before_its_data(chain: Chain) -> None:
    marker = own_markers(chain)[3]
    at = own(chain).index(marker)
    for data in own(chain)[at - 2 : at]:
        data |= {"last_offset": data["base_offset"], "record_count": 1}
    rows = own(chain)[at - 2 : at + 1]
    end = rows[0]["base_offset"]
    for row in chain.data():
        if row["base_offset"] >= rows[0]["base_offset"]:
            row |= {"base_offset": end, "last_offset": end + row["record_count"] - 1}
            end += row["record_count"]
    swap(rows[0], rows[2])
    swap(rows[1], rows[2])


@fault("markers.not_transactional")
def a_transactional_bit_is_cleared(chain: Chain) -> None:
    own(chain)[4]["attributes"] = 0


@fault("markers.double", "ours")
def our_marker_is_there_twice(chain: Chain) -> None:
    after(chain, own_markers(chain)[2])


@fault("markers.without_transaction", "v1 v2")
def a_foreign_commit_marker(chain: Chain) -> None:
    marker = own_markers(chain)[2]
    after(chain, marker, control_type=1, producer_id=PRODUCER, producer_epoch=40)


@fault("fencing.zombie", "v2")
def data_of_an_old_epoch(chain: Chain) -> None:
    after(
        chain, own_markers(chain)[3], control_type=None, attributes=0x10, producer_epoch=1, base_sequence=90
    )


@fault("epochs.regressed", "v2")
def a_marker_of_an_old_epoch(chain: Chain) -> None:
    after(chain, own_markers(chain)[3], producer_epoch=1, control_type=0)


@fault("epochs.coordinator")
def a_coordinator_epoch_of_minus_5(chain: Chain) -> None:
    own_markers(chain)[2]["coordinator_epoch"] = -5


@fault("epochs.coordinator")
def a_coordinator_epoch_goes_back(chain: Chain) -> None:
    own_markers(chain)[2]["coordinator_epoch"] = 4


@fault("hanging.orphan", "v1 ours")
def data_hangs_that_no_transaction_ends(chain: Chain) -> None:
    row = own(chain)[-2]
    after(chain, own_markers(chain, 2)[-1], **{name: row[name] for name in ("producer_id", "producer_epoch")},
          attributes=0x10, control_type=None, base_sequence=120)  # fmt: skip


@fault("hanging.orphan", "v1 ours")
def data_hangs_with_a_time_far_ahead(chain: Chain) -> None:
    data_hangs_that_no_transaction_ends(chain)
    chain.batches[-1]["max_timestamp_ms"] = 2**60


@fault("sequences.gap")
def a_sequence_is_ahead(chain: Chain) -> None:
    row = own(chain)[1]
    for each in own(chain):
        is_data = each.get("control_type") is None
        if (
            is_data
            and each["base_offset"] >= row["base_offset"]
            and each["producer_epoch"] == row["producer_epoch"]
        ):
            each["base_sequence"] += 7


@fault("integrity.count")
def a_header_counts_another_number_of_records(chain: Chain) -> None:
    own(chain)[4]["record_count"] += 2


@fault("integrity.leader_epoch")
def a_leader_epoch_goes_back(chain: Chain) -> None:
    own(chain)[4]["leader_epoch"] = 0


@fault("sequences.none")
def a_batch_has_no_sequence(chain: Chain) -> None:
    own(chain)[3]["base_sequence"] = -1


@fault("epochs.coordinator")
def a_coordinator_epoch_far_above(chain: Chain) -> None:
    own_markers(chain)[2]["coordinator_epoch"] = 1002


@fault("markers.exchanged", "v2")
def two_markers_far_apart_change_places(chain: Chain) -> None:
    swap(own_markers(chain)[1], own_markers(chain)[4])


@fault("markers.missing")
def a_transaction_is_gone_with_its_data(chain: Chain) -> None:
    rows = own(chain)[6:9]
    end = rows[0]["base_offset"]
    later = [row for row in chain.data() if row["base_offset"] > end and row not in rows]
    for row in rows:
        chain.take_out(row)
    for row in later:
        row |= {"base_offset": end, "last_offset": end + row["record_count"] - 1}
        end += row["record_count"]


@fault("epochs.regressed", "v2")
def the_epoch_of_a_marker_is_one_below(chain: Chain) -> None:
    own_markers(chain)[2]["producer_epoch"] -= 2


@fault("markers.epoch", "v2")
def the_epoch_of_a_marker_is_that_of_the_one_before(chain: Chain) -> None:
    own_markers(chain)[2]["producer_epoch"] -= 1


@fault("integrity.count")
def a_last_offset_is_one_more(chain: Chain) -> None:
    own(chain)[4]["last_offset"] += 1


@fault("integrity.crc")
def a_byte_of_data_is_flipped(chain: Chain) -> None:
    own(chain)[4] |= {"fault": "crc", "reason": "the checksum is wrong"}


@fault("states.missing")
def a_record_of_the_coordinator_that_decided_is_gone_and_leaves_no_hole(chain: Chain) -> None:
    gone = [row for row in chain.states if row["state"] == "PrepareAbort"][2]
    chain.states.remove(gone)
    rows = [row for row in chain.batches if row["topic"] == STATES]
    chain.batches = [row for row in chain.batches if row["topic"] != STATES]
    kept = [row for row in rows if row["base_offset"] != gone["offset"]]
    for row in kept:
        moved = row["base_offset"] > gone["offset"]
        chain.batches.append(
            {**row, "base_offset": row["base_offset"] - moved, "last_offset": row["last_offset"] - moved}
        )
    for row in chain.states:
        row["offset"] -= row["offset"] > gone["offset"]


@fault("offsets.hole")
def a_record_of_the_coordinator_is_gone_and_leaves_a_hole(chain: Chain) -> None:
    gone = [row for row in chain.states if row["state"] == "PrepareAbort"][2]
    (batch,) = [
        row for row in chain.batches if (row["path"], row["position"]) == (gone["path"], gone["position"])
    ]
    chain.take_out(batch)


@fault("coordinator.short")
def the_coordinators_log_lost_its_last_third(chain: Chain) -> None:
    rows = [row for row in chain.batches if row["topic"] == STATES]
    for row in rows[len(rows) * 2 // 3 :]:
        chain.take_out(row)


@fault("replicas.short")
def the_coordinators_log_is_shorter_than_its_checkpoint_says(chain: Chain) -> None:
    rows = [row for row in chain.batches if row["topic"] == STATES]
    chain.fact(rows[0]["copy"], "high-watermark", rows[-1]["last_offset"] + 1)
    the_coordinators_log_lost_its_last_third(chain)


@fault("ids.shared")
def a_record_of_one_id_has_the_producer_of_another(chain: Chain) -> None:
    [row for row in chain.states if row["transactional_id"] == "x1"][7]["producer_id"] = PRODUCER


@fault("ids.shared")
def two_transactional_ids_share_a_producer_id(chain: Chain) -> None:
    for row in chain.states:
        if row["transactional_id"] == "x2":
            row["producer_id"] = PRODUCER + 1
    for row in chain.data():
        if row["producer_id"] == PRODUCER + 2:
            row["producer_id"] = PRODUCER + 1
            row["base_sequence"] = -1 if row.get("control_type") is not None else row["base_sequence"]


@fault("epochs.reused", "v2")
def an_epoch_comes_back_in_the_coordinators_log(chain: Chain) -> None:
    rows = [row for row in chain.states if row["transactional_id"] == "x1"]
    rows[9]["producer_epoch"] = 0


@fault("ids.outside_blocks")
def the_producer_id_of_a_batch_is_another(chain: Chain) -> None:
    row = own(chain)[4]
    row["producer_id"] = 10**9
    chain.others.append(
        found("ids", "outside_blocks", "it was never given out", topic="orders", partition=0,
              path=row["path"], position=row["position"], offset=row["base_offset"], producer_id=10**9)
    )  # fmt: skip


PLACES = [
    pytest.param(plant, expected, kind, id=f"{name}-{kind}")
    for name, (plant, expected, on) in FAULTS.items()
    for kind in on.split()
]


@pytest.mark.parametrize(("plant", "expected", "kind"), PLACES)
def test_a_fault_is_one_finding(plant: Plant, expected: str, kind: str) -> None:
    chain = sound(kind)
    plant(chain)
    assert roots(audited(chain)) == [expected]


@pytest.mark.parametrize("kind", ["v1", "v2", "ours"])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_sound_cluster_has_no_finding(kind: str, copies: int) -> None:
    assert audited(sound(kind, copies=copies)) == []


@pytest.mark.parametrize("kind", ["v1", "v2", "ours"])
def test_a_byte_in_one_of_three_copies_is_one_finding(kind: str) -> None:
    chain = sound(kind, copies=3)
    chain.data(2)[7]["crc"] = 1
    assert roots(audited(chain)) == ["replicas.diverged"]


def test_a_shorter_log_names_its_file_and_what_follows_from_it() -> None:
    chain = sound("v1")
    the_coordinators_log_lost_its_last_third(chain)
    rows = audited(chain)
    first = rows[0]
    assert (first["topic"], first["partition"], first["path"]) == (STATES, 3, f"/n1/{STATES}-3")
    assert len(rows) > 3
    assert {row["cause"] for row in rows[1:]} == {first["id"]}


def test_what_later_markers_show_that_the_coordinator_would_know_is_not_its_lost_end() -> None:
    chain = sound("v1")
    for producer in (0, 1):
        marker = own_markers(chain, producer)[-1]
        after(chain, marker, control_type=1 - marker["control_type"])
    assert roots(audited(chain)) == ["markers.without_transaction"] * 2
