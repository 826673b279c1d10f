"""Control bits and types, tombstones, coordinator epochs: a fault there is one finding, at its place."""

import pytest

from fencepost.audit.walks.columns import FLAG_COMPACTED
from tests.audit.walks.chain import Chain, audited, roots
from tests.audit.walks.feed import Row, said
from tests.audit.walks.states import States, rows_of
from tests.audit.walks.test_faults import own, own_markers, sound
from tests.audit.walks.transactions import Cluster, paired

KINDS = ("v1", "v2", "ours")


def found(chain: Chain) -> list[Row]:
    return [row for row in audited(chain) if row["kind"] == "finding" and not row["cause"]]


def the_one(chain: Chain, name: str, at: Row) -> None:
    """The only finding is ``name``, at the batch."""
    rows = found(chain)
    assert roots(rows) == [name]
    assert (rows[0]["path"], rows[0]["position"]) == (at["path"], at["position"])
    assert (rows[0]["offset"], rows[0]["producer_id"]) == (at["base_offset"], at["producer_id"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [2, 77, -1])
@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_marker_of_another_type_is_named(kind: str, wanted: int, at: int) -> None:
    chain = sound(kind)
    marker = own_markers(chain)[at]
    marker |= {"control_type": wanted, "coordinator_epoch": None, "marker_version": None}
    the_one(chain, "markers.control_type", marker)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 2, -1])
@pytest.mark.parametrize(
    ("records", "name"), [(2, "markers.control_type"), (1, "integrity.count")], ids=["counted", "not-counted"]
)
def test_a_marker_whose_batch_has_two_offsets_is_named(kind: str, at: int, records: int, name: str) -> None:
    """A reader stops at the first record: what a second one says takes effect nowhere."""
    chain = sound(kind)
    marker = own_markers(chain)[at]
    for row in chain.data():
        if row["base_offset"] > marker["base_offset"]:
            row |= {"base_offset": row["base_offset"] + 1, "last_offset": row["last_offset"] + 1}
    marker |= {"last_offset": marker["base_offset"] + 1, "record_count": records}
    rows = found(chain)
    assert roots(rows) == [name]
    assert (rows[0]["path"], rows[0]["position"]) == (marker["path"], marker["position"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_marker_without_its_control_bit_is_named(kind: str, at: int) -> None:
    chain = sound(kind)
    marker = own_markers(chain)[at]
    marker |= {"attributes": 0x10, "control_type": None, "coordinator_epoch": None, "marker_version": None}
    the_one(chain, "markers.control_bit", marker)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_marker_without_its_transactional_bit_is_named(kind: str, at: int) -> None:
    """It takes effect all the same: readers go by the control bit."""
    chain = sound(kind)
    marker = own_markers(chain)[at]
    marker["attributes"] = 0x20
    the_one(chain, "markers.transactional_bit", marker)


@pytest.mark.parametrize("kind", KINDS)
def test_a_marker_of_the_wrong_outcome_without_its_transactional_bit_is_one_finding(kind: str) -> None:
    chain = sound(kind)
    marker = own_markers(chain)[2]
    marker |= {"attributes": 0x20, "control_type": 1 - marker["control_type"]}
    rows = [row for row in audited(chain) if row["kind"] == "finding"]
    assert roots([row for row in rows if not row["cause"]]) == ["markers.wrong_outcome"]
    assert "transactional_bit" in {row["rule"] for row in rows if row["cause"]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("control_type", [2, 3, 4, 5, 6])
def test_control_batches_of_no_producer_are_not_transactional(kind: str, control_type: int) -> None:
    """LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion and Voters, as a KRaft log has them."""
    chain = sound(kind)
    row = chain.data()[-1]
    chain.batches.append(
        {**row, "base_offset": row["last_offset"] + 1, "last_offset": row["last_offset"] + 1, "size": 100}
        | {"position": row["position"] + row["size"], "attributes": 0x20, "control_type": control_type}
        | {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "record_count": 1}
        | {"coordinator_epoch": None, "marker_version": None}
    )
    assert found(chain) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 4])
def test_data_with_a_control_bit_is_named(kind: str, at: int) -> None:
    chain = sound(kind)
    data = own(chain)[at]
    data |= {"attributes": 0x30, "control_type": -1}
    the_one(chain, "markers.control_bit", data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [-5, 0, 1002])
@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_coordinator_epoch_of_no_leader_is_named(kind: str, wanted: int, at: int) -> None:
    chain = sound(kind)
    marker = own_markers(chain)[at]
    marker["coordinator_epoch"] = wanted
    the_one(chain, "epochs.coordinator", marker)


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_that_is_forgotten_while_its_transaction_is_open_is_named(kind: str) -> None:
    chain = sound(kind)
    at = max(number for number, row in enumerate(chain.states) if row["transactional_id"] == "x2")
    del chain.states[at - 1 : at]  # its last transaction was not decided
    chain.states[at - 1] |= {"forgotten": True, "state": None, "producer_id": None, "producer_epoch": None}
    chain.take_out(own_markers(chain, 2)[-1])
    rows = found(chain)
    assert "states.forgotten" in roots(rows)
    assert [row["transactional_id"] for row in rows if row["rule"] == "forgotten"] == ["x2"]


def test_an_abort_marker_in_the_middle_of_the_next_transaction_is_no_operators() -> None:
    cluster = Cluster()
    cluster.many("Abort", "Commit")
    cluster.begin(batches=2)
    second = cluster.log.rows.pop()
    cluster.log.end = second["base_offset"]
    marker = cluster.log.marker(0, 0)
    cluster.log.data()
    cluster.log.rows[-1]["base_sequence"] = second["base_sequence"]
    cluster.end()
    for row in cluster.states.rows[-2:]:
        row["started_ms"] = cluster.states.rows[-3]["started_ms"]
    rows = [row for row in paired(cluster) if row["kind"] == "finding"]
    assert [(row["rule"], row["offset"]) for row in rows] == [("without_transaction", marker["base_offset"])]


def test_an_abort_within_what_an_index_says_was_aborted_is_early() -> None:
    cluster = Cluster()
    cluster.many("Commit")
    cluster.begin()
    data = cluster.log.rows.pop()
    cluster.log.end = data["base_offset"]
    cluster.end(0, "Abort")
    marker = cluster.log.rows[-1]
    cluster.log.add(10, **{name: data[name] for name in ("producer_id", "producer_epoch", "attributes",
                                                         "base_sequence")})  # fmt: skip
    last = cluster.log.end
    cluster.log.add(1, producer_id=7, producer_epoch=0, attributes=0x10, base_sequence=0)
    cluster.transaction()
    entry = {"rank": 4, "copy": "c", "path": "c/i", "position": 0, "producer_id": marker["producer_id"]}
    cluster.entries.append(entry | {"first_offset": marker["base_offset"], "offset": last})
    rows = [row for row in paired(cluster) if row["check"] == "markers" and row["kind"] == "finding"]
    assert [(row["rule"], row["offset"]) for row in rows] == [("early", marker["base_offset"])]


def test_an_epoch_below_the_one_that_compaction_left_is_named() -> None:
    """Whatever was between them: an id's epochs only grow while it has a producer id."""
    states = States(unbroken_offset=1, flags=FLAG_COMPACTED)
    states.add("CompleteCommit", 9)
    states.add("Empty", 5)
    assert said(rows_of(states)) == ["epochs.reused"]


def test_an_epoch_above_the_one_that_compaction_left_is_sound() -> None:
    states = States(unbroken_offset=1, flags=FLAG_COMPACTED)
    states.add("CompleteCommit", 9)
    states.add("Empty", 10)
    states.add("Empty", 0, producer=9)
    assert said(rows_of(states)) == []
