"""Which findings explain which."""

import pytest

from fencepost.audit.walks.causes import grouped
from fencepost.audit.walks.found import found
from tests.audit.walks.chain import STATES
from tests.audit.walks.feed import Row


def test_a_record_that_cannot_be_read_in_one_copy_alone_is_where_that_copy_differs() -> None:
    at: Row = {"topic": "__cluster_metadata", "partition": 0, "node": 2, "path": "p"}
    differs = found("replicas", "diverged", "a", **at, position=9, offset=4, end_offset=7)
    records = [found("integrity", "record", "b", **at, position=9 + each, offset=4 + each) for each in (0, 2)]
    rows = grouped([*records, differs])
    assert [(row["rule"], row["cause"]) for row in rows] == [
        ("diverged", None),
        *[("record", differs["id"])] * 2,
    ]


def test_markers_of_several_partitions_that_one_decision_contradicts_are_one_finding() -> None:
    said = "a commit marker, whose outcome is abort (offset 302 of the coordinator's log, partition 0)"
    rows = [
        found(
            "markers", "wrong_outcome", said, topic="orders", partition=each, offset=9, transactional_id="x"
        )
        for each in (0, 1)
    ]
    assert [row["cause"] for row in grouped(rows)] == [None, rows[0]["id"]]


def test_a_decision_that_offsets_contradict_too_is_one_finding() -> None:
    given: Row = {"producer_id": 4, "producer_epoch": 2, "transactional_id": "x"}
    wrong = found("markers", "wrong_outcome", "a", topic="orders", partition=0, offset=9, **given)
    freed = found("groups", "aborted", "b", topic="__consumer_offsets", partition=1, offset=7, **given)
    assert [row["cause"] for row in grouped([freed, wrong])] == [None, wrong["id"]]


def test_a_marker_that_is_missing_may_be_there_as_another_producers() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    missing = found("markers", "missing", "a", **at, offset=5, end_offset=20, producer_id=4, producer_epoch=1)
    stray = found("markers", "double", "b", **at, offset=9, producer_id=7, producer_epoch=0)
    assert [row["cause"] for row in grouped([missing, stray])] == [None, stray["id"]]
    moved = found("markers", "without_transaction", "c", topic="orders", partition=1, offset=3,
                  producer_id=4, producer_epoch=1)  # fmt: skip
    assert [row["cause"] for row in grouped([missing, moved])] == [None, moved["id"]]
    later = stray | {"offset": 21, "id": "later"}
    assert [row["cause"] for row in grouped([missing, later])] == [None, None]


def test_a_marker_of_another_producer_may_be_odd_for_its_coordinators_epoch_alone() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    missing = found("markers", "missing", "a", **at, offset=5, end_offset=20, producer_id=4, producer_epoch=1)
    odd = found("epochs", "coordinator", "b", **at, offset=9, producer_id=7, producer_epoch=0)
    assert [row["cause"] for row in grouped([odd, missing])] == [None, missing["id"]]
    for other in (
        {"offset": 21},
        {"topic": "payments"},
        {"producer_id": 4, "producer_epoch": 1, "topic": "payments"},
    ):
        assert [row["cause"] for row in grouped([odd | other, missing])] == [None, None], other


def test_a_transaction_of_another_producer_lacks_its_data_and_its_marker() -> None:
    """Which of several transactions of one epoch lacks a marker, their times alone say."""
    at: Row = {"topic": "orders", "partition": 0}
    of: Row = {"producer_id": 4, "producer_epoch": 1}
    gap = found("sequences", "gap", "a", **at, **of, offset=12, since_offset=3)
    missing = found("markers", "missing", "b", **at, **of, since_offset=15)
    stray = found("markers", "without_transaction", "c", **at, offset=9, producer_id=7, producer_epoch=0)
    rows = {row["id"]: row["cause"] for row in grouped([gap, missing, stray])}
    assert rows == {stray["id"]: None, gap["id"]: stray["id"], missing["id"]: stray["id"]}
    for other in ({"offset": 2}, {"offset": 13}, {"producer_id": 4}):
        causes = {row["id"]: row["cause"] for row in grouped([gap, missing, stray | other])}
        assert causes[missing["id"]] is None, other


def test_a_file_of_another_name_ends_below_what_its_broker_had_committed() -> None:
    at: Row = {"topic": "orders", "partition": 0, "node": 1}
    short = found("replicas", "short", "a", **at, path="p/5.log", offset=4)
    misnamed = found("integrity", "unreadable", "b", **at, path="p/5.log", position=0, offset=4)
    assert [row["cause"] for row in grouped([short, misnamed])] == [None, misnamed["id"]]
    other = misnamed | {"path": "p/0.log"}
    assert [row["cause"] for row in grouped([short, other])] == [None, None]


def test_two_files_that_have_each_others_name_are_one_finding() -> None:
    at: Row = {"topic": "orders", "partition": 0, "node": 1}
    hole = found("offsets", "hole", "a", **at, path="orders-0/4.log", position=0, offset=4, end_offset=9)
    file = found("integrity", "unreadable", "b", **at, path="orders-0/9.log", position=0, offset=12)
    assert [row["cause"] for row in grouped([hole, file])] == [None, file["id"]]
    for other in (
        {"position": 100},  # what is before it could be read
        {"offset": 4},  # what is missing is behind it
        {"topic": "payments"},
    ):
        assert [row["cause"] for row in grouped([hole, file | other])] == [None, None]
    inside = hole | {"position": 100}  # batches of its file are there: another one has not its name
    assert [row["cause"] for row in grouped([inside, file])] == [None, None]


def test_a_marker_in_another_partition_has_its_entry_there() -> None:
    missing = found("markers", "missing", "a", topic="orders", partition=0, offset=5, producer_id=4)
    entry = found("integrity", "index", "b", topic="payments", partition=1, path="p", position=0, offset=9,
                  producer_id=4)  # fmt: skip
    assert [row["cause"] for row in grouped([entry, missing])] == [None, missing["id"]]
    assert [row["cause"] for row in grouped([entry | {"producer_id": 5}, missing])] == [None, None]


def test_two_batches_that_have_changed_places_are_one_finding() -> None:
    at: Row = {"topic": "orders", "partition": 0, "producer_id": 4}
    gap = found("sequences", "gap", "a", **at, offset=9, end_offset=12)
    again = found("sequences", "duplicate", "b", **at, offset=12, end_offset=13, since_offset=11)
    assert [row["cause"] for row in grouped([again, gap])] == [None, gap["id"]]


def test_batches_that_are_repeated_one_after_the_other_are_one_finding() -> None:
    at: Row = {"topic": "orders", "partition": 0, "producer_id": 4}
    rows = [
        found("sequences", "duplicate", "a", **at, offset=each, end_offset=each + 3, since_offset=each - 1)
        for each in (9, 12)
    ]
    assert [row["cause"] for row in grouped(rows)] == [None, rows[0]["id"]]


def test_a_batch_with_another_producers_id_lacks_where_it_was() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    gap = found("sequences", "gap", "a", **at, offset=12, since_offset=3, producer_id=4)
    odd = found("sequences", "duplicate", "b", **at, offset=9, since_offset=1, producer_id=7)
    assert [row["cause"] for row in grouped([gap, odd])] == [None, odd["id"]]


def test_what_one_block_or_record_brings_about_is_one_finding() -> None:
    blocks = [
        found("blocks", "end_not_growing", "a", offset=each, since_offset=3, path="p", position=each)
        for each in (5, 7)
    ]
    assert [row["cause"] for row in grouped(blocks)] == [None, blocks[0]["id"]]
    at: Row = {"topic": STATES, "partition": 1, "transactional_id": "x"}
    states = [
        found("states", "missing", "a", **at, offset=each, since_offset=each - 2, path="p", position=each)
        for each in (5, 7)
    ]
    assert [row["cause"] for row in grouped(states)] == [None, states[0]["id"]]


def test_an_index_that_names_another_producer_lacks_the_one_that_it_should() -> None:
    entry = found("integrity", "index", "a", path="p", position=34, offset=9, producer_id=5)
    lacks = found("integrity", "index", "b", path="p", offset=9, producer_id=4)
    assert [row["cause"] for row in grouped([entry, lacks])] == [None, entry["id"]]


@pytest.mark.parametrize(("check", "rule"), [("hanging", "orphan"), ("markers", "not_transactional")])
def test_what_is_open_explains_the_stable_offsets_of_aborts_behind_it(check: str, rule: str) -> None:
    at: Row = {"topic": "orders", "partition": 0}
    hangs = found(check, rule, "a", **at, offset=20, producer_id=4)
    before, behind = (
        found("integrity", "index", "b", **at, offset=each, producer_id=each, path="p", position=each)
        for each in (10, 30)
    )
    causes = {row["id"]: row["cause"] for row in grouped([before, behind, hangs])}
    assert causes == {hangs["id"]: None, before["id"]: None, behind["id"]: hangs["id"]}


def test_a_partition_in_two_directories_explains_what_is_odd_in_it() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    twice = found("replicas", "twice", "a", **at, node=1, path="b/orders-0", position=0)
    short = found("replicas", "short", "b", **at, node=1, path="b/orders-0", offset=7)
    elsewhere = found("replicas", "short", "c", topic="orders", partition=1, node=1, path="q", offset=7)
    causes = {row["id"]: row["cause"] for row in grouped([short, elsewhere, twice])}
    assert causes == {twice["id"]: None, short["id"]: twice["id"], elsewhere["id"]: None}


def test_partitions_in_the_same_two_directories_are_one_finding() -> None:
    rows = [
        found(
            "replicas", "twice", "a", topic="orders", partition=each, node=1, path=f"{folder}/orders-{each}"
        )
        for each, folder in enumerate(("b", "b", "c"))
    ]
    made = grouped(rows)
    assert [row["partition"] for row in made if row["cause"] is None] == [0, 2]
    wrong = found("integrity", "node", "b", node=1, path="b/meta.properties")
    made = grouped([*rows, wrong])
    assert [row["id"] for row in made if row["cause"] is None] == [wrong["id"]]


def test_a_batch_of_the_epoch_before_explains_that_its_own_begins_later() -> None:
    at: Row = {"topic": "orders", "partition": 0, "producer_id": 4}
    late = found("markers", "late", "a", **at, offset=20, end_offset=30)
    here = found("sequences", "gap", "b", **at, offset=30, since_offset=29)
    behind = found("sequences", "gap", "c", **at, offset=50, since_offset=49)
    causes = {row["id"]: row["cause"] for row in grouped([here, behind, late])}
    assert causes == {late["id"]: None, here["id"]: late["id"], behind["id"]: None}


def test_a_marker_of_another_producer_explains_the_one_that_is_missing_there() -> None:
    """Also where the transaction's data is gone with it: it lies between the markers around."""
    at: Row = {"topic": "orders", "partition": 0}
    odd = found("markers", "without_transaction", "a", **at, offset=40, producer_id=5)
    here, before = (
        found("markers", "missing", "b", **at, offset=data, since_offset=since, end_offset=end, producer_id=4)
        for data, since, end in ((50, 30, 60), (20, 10, 30))
    )
    causes = {row["id"]: row["cause"] for row in grouped([here, before, odd])}
    assert causes == {odd["id"]: None, here["id"]: odd["id"], before["id"]: None}


def test_a_batch_that_does_not_belong_there_is_in_no_file_of_epochs() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    odd = found("states", "misplaced", "a", **at, offset=40, since_offset=30, path="p", position=9)
    here, elsewhere = (
        found("integrity", "leader_epochs", "b", **at, offset=each, path="e", position=0) for each in (39, 50)
    )
    causes = {row["id"]: row["cause"] for row in grouped([here, elsewhere, odd])}
    assert causes == {odd["id"]: None, here["id"]: odd["id"], elsewhere["id"]: None}


def test_a_file_that_says_several_things_is_one_finding() -> None:
    at: Row = {"topic": "orders", "partition": 0, "node": 1}
    rows = [
        found("integrity", rule, "a", **at, path=path, position=position, producer_id=position, offset=9)
        for rule, path in (
            ("snapshot", "d/1.snapshot"),
            ("snapshot", "d/2.snapshot"),
            ("index", "d/0.txnindex"),
        )
        for position in (0, 50)
    ]
    made = grouped(rows)
    assert [row["position"] for row in made if row["cause"] is None] == [0, 0, 0]
    assert all(row["cause"].split()[-1] == row["path"] for row in made if row["cause"])


def test_what_no_copy_can_read_at_one_offset_is_one_finding() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    rows = [
        found("integrity", "crc", "a", **at, offset=offset, node=node, path=f"n{node}", position=offset)
        for node, offset in ((1, 5), (2, 5), (2, 9))
    ]
    causes = {row["id"]: row["cause"] for row in grouped(rows)}
    assert causes == {rows[0]["id"]: None, rows[1]["id"]: rows[0]["id"], rows[2]["id"]: None}


def test_a_batch_too_far_ahead_is_where_its_leader_epoch_does_not_begin() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    hole = found("offsets", "hole", "a", **at, offset=7, end_offset=1007)
    epochs = [
        found("integrity", "leader_epochs", "b", **at, offset=each, path=f"p{each}", position=0)
        for each in (1007, 1100)
    ]
    causes = {row["id"]: row["cause"] for row in grouped([*epochs, hole])}
    assert causes == {hole["id"]: None, epochs[0]["id"]: hole["id"], epochs[1]["id"]: None}


def test_findings_of_the_same_id_are_one() -> None:
    row = found("ids", "shared", "said", producer_id=4)
    assert len(grouped([row, dict(row)])) == 1


def test_a_cause_of_a_cause_is_the_cause() -> None:
    at: Row = {"topic": "orders", "partition": 0}
    hole = found(
        "offsets", "hole", "a", **{**at, "topic": STATES}, offset=3, end_offset=4, path="p", position=9
    )
    states = found(
        "states", "missing", "b", **{**at, "topic": STATES}, offset=5, since_offset=2, transactional_id="x"
    )
    marker = found("markers", "wrong_outcome", "c", **at, offset=7, transactional_id="x", producer_id=4)
    rows = grouped([marker, states, hole])
    assert [row["rule"] for row in rows] == ["hole", "wrong_outcome", "missing"]
    assert [row["cause"] for row in rows] == [None, hole["id"], hole["id"]]
