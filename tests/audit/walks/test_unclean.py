"""What an unclean election cut off a log is unknown, in that log and up to that time: it is no finding."""

from collections.abc import Callable

import pytest

from fencepost.audit.walks.story import CLOCK_GRACE_MS
from tests.audit.walks.chain import STATES, Chain, audited
from tests.audit.walks.copies import BEGAN_MS, Directory, judged, log_of
from tests.audit.walks.feed import Row, said
from tests.audit.walks.named import Cases
from tests.audit.walks.transactions import Cluster

ORDERS = "/n1/orders-0"
STATES_3 = f"/n1/{STATES}-3"
CASES: Cases[Chain] = Cases()
case = CASES.case


def elected(
    cut: Callable[[Cluster], None], *outcomes: str, bumps: bool = True, before: int = 2, after: int = 2,
    late_ms: int = 0, item: str = "unclean",
) -> Chain:  # fmt: skip
    """Transactions ``before`` the cut and ``after`` it; those between are cut. ``cut`` takes out more.

    item   what the metadata has of the election.
    """
    cluster = Cluster()
    cluster.many(*outcomes[:before], bumps=bumps)
    at = len(cluster.log.rows)
    for number in range(before, len(outcomes) - after):
        cluster.transaction(number * bumps, outcomes[number], bumps=bumps)
    lost = cluster.log.rows[at:]
    elected_ms = cluster.log.clock_ms + 1
    cluster.later(10_000)
    for number in range(len(outcomes) - after, len(outcomes)):
        cluster.transaction(number * bumps, outcomes[number], bumps=bumps)
    kept = cluster.log.rows[at + len(lost) :]
    for row in lost:
        cluster.log.squeeze_out(row)
    sequence = max((row["base_sequence"] + 10 for row in cluster.log.rows[:at]), default=70)
    for row in kept:
        row["leader_epoch"] = 4
        if row["base_sequence"] > 0:  # no broker takes a sequence that does not follow
            row["base_sequence"], sequence = sequence, sequence + 10
    cut(cluster)
    chain = Chain(cluster)
    chain.facts.append({**_fact(ORDERS), "item": item, "first": 4, "second": elected_ms - late_ms})
    return chain


def _fact(copy: str) -> Row:
    topic, _, partition = copy.rpartition("/")[2].rpartition("-")
    return {"topic": topic, "partition": int(partition), "copy": copy, "rank": 0, "path": "", "node": 1,
            "position": 99}  # fmt: skip


def nothing(_: Cluster) -> None:
    """Takes out no more."""


@case("?markers.missing")
def markers_of_transactions_of_one_epoch_each() -> Chain:
    return elected(nothing, *["Commit", "Abort"] * 4)


@case("?markers.missing")
def markers_of_transactions_of_one_epoch_together() -> Chain:
    return elected(nothing, *["Commit"] * 9, bumps=False)


@case("?markers.missing")
def a_producer_that_the_new_leader_had_never_seen_goes_on() -> Chain:
    return elected(nothing, *["Commit"] * 5, bumps=False, before=0)


@case("?markers.missing")
def data_whose_marker_alone_was_cut() -> Chain:
    """What follows in its partition is the marker of a later transaction of the same outcome."""

    def also_a_marker(cluster: Cluster) -> None:
        cluster.log.squeeze_out(cluster.markers()[1])
        cluster.log.squeeze_out(cluster.log.rows[3])  # and the data of the first transaction after it

    return elected(also_a_marker, *["Commit"] * 8)


@case("markers.missing", "?markers.missing")
def a_marker_before_the_cut_was_missing_already() -> Chain:
    return elected(lambda cluster: cluster.log.squeeze_out(cluster.markers()[0]), *["Commit", "Abort"] * 4)


@case("markers.missing", "?markers.missing")
def a_marker_that_was_decided_after_the_election() -> Chain:
    return elected(lambda cluster: cluster.log.squeeze_out(cluster.markers()[3]), *["Commit", "Abort"] * 4)


@case("markers.missing", "markers.missing")
def markers_that_were_decided_a_minute_after_an_election() -> Chain:
    return elected(nothing, *["Commit"] * 6, late_ms=CLOCK_GRACE_MS + 10_000)


@case("?markers.missing")
def an_election_of_which_a_snapshot_alone_tells() -> Chain:
    return elected(nothing, *["Commit", "Abort"] * 4, item="unseen")


@case("markers.missing", "markers.missing")
def an_election_after_those_of_which_a_snapshot_alone_tells() -> Chain:
    chain = elected(nothing, *["Commit"] * 6, item="unseen")
    chain.facts[-1]["first"] = 1
    return chain


@case("markers.missing", "?markers.missing")
def a_marker_that_was_decided_after_the_election_of_which_a_snapshot_alone_tells() -> Chain:
    return elected(
        lambda cluster: cluster.log.squeeze_out(cluster.markers()[3]),
        *["Commit", "Abort"] * 4,
        item="unseen",
    )


@case("markers.missing", "?markers.missing")
def a_marker_between_two_elections_is_missing() -> Chain:
    """A third transaction of the leader of epoch 4 has none; then epoch 5 begins, and nothing is cut."""
    chain = elected(lambda cluster: cluster.log.squeeze_out(cluster.markers()[4]), *["Commit"] * 9, after=5)
    for row in chain.data()[-2:]:
        row["leader_epoch"] = 5
    later = {"first": 5, "second": chain.cluster.log.clock_ms}
    chain.facts.append({**_fact(ORDERS), "item": "unclean", **later})
    return chain


@case("?markers.missing")
def nothing_was_written_since_the_election() -> Chain:
    chain = elected(nothing, *["Commit"] * 6)
    for row in [row for row in chain.data() if row["leader_epoch"] == 4]:
        chain.take_out(row)
    chain.cluster.states.rows.clear()
    return chain


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_a_log_that_was_cut(name: str) -> None:
    make, expected = CASES[name]
    assert [each for each in said(audited(make())) if not each.startswith("note")] == expected


@pytest.mark.parametrize("item", ["unclean", "unseen"])
def test_a_coordinators_log_that_was_cut_tells_of_what_came_after(item: str) -> None:
    """What it decided in between is not missing: no log tells it."""
    cluster = Cluster()
    cluster.states.add("Empty", producer=5000, name="y")
    cluster.many("Commit", "Commit")
    at = len(cluster.states.rows)
    cluster.transaction()
    cluster.transaction(producer=5000, name="y")
    cut = len(cluster.states.rows) - at
    cluster.many("Commit", "Commit")
    for row in cluster.states.rows:
        row["leader_epoch"] = 5 if row["offset"] < at else 6
    for row in cluster.markers()[4:]:
        row["coordinator_epoch"] = 6
    del cluster.states.rows[at : at + cut]
    for number, row in enumerate(cluster.states.rows):
        row.update(offset=number, position=100 * number)
    chain = Chain(cluster)
    for row in chain.batches:
        if row["topic"] == STATES:
            row["leader_epoch"] = chain.states[row["base_offset"]]["leader_epoch"]
    assert "markers.without_transaction" in said(audited(chain))
    chain.fact(STATES_3, "compacted")
    chain.facts.append({**_fact(STATES_3), "item": item, "first": 6, "second": cluster.log.clock_ms})
    found = [each for each in said(audited(chain)) if not each.startswith("note")]
    assert found == ["?markers.without_transaction"]


@pytest.mark.parametrize(
    ("first", "epochs", "unseen", "cuts"),
    [
        pytest.param(0, (0, 0, 1), 1, [0, 20], id="the-first-batch-of-a-leader"),
        pytest.param(0, (0, 2, 2), 1, [0, 10], id="a-leader-before-it-wrote-nothing"),
        pytest.param(0, (1, 1, 1), 1, [0], id="nothing-is-left-of-the-leader-before"),
        pytest.param(0, (0, 0, 0), -1, None, id="the-log-of-the-metadata-tells-of-all"),
        pytest.param(0, (0, 0, 0), 0, [0], id="another-topic-of-the-name-may-have-been-before"),
        pytest.param(0, (), 0, [0], id="and-nothing-was-written-since"),
        pytest.param(0, (0, 1, 2), 1, [0, 10], id="an-election-that-the-log-of-the-metadata-tells-of"),
        pytest.param(0, (0, 0, 0), 1, [0, 30], id="a-leader-that-wrote-nothing-yet"),
        pytest.param(50, (1, 1, 2), 2, [70], id="what-was-before-the-log-is-not-looked-for"),
    ],
)
@pytest.mark.parametrize("sizes", [(1_000_000,), (1,)])
def test_where_an_election_may_have_cut(
    first: int, epochs: tuple[int, ...], unseen: int, cuts: list[int] | None, sizes: tuple[int, ...]
) -> None:
    directory = Directory()
    directory.end = directory.segment = first
    for epoch in epochs:
        directory.add(leader_epoch=epoch)
    directory.fact("unseen", unseen, BEGAN_MS)
    assert log_of(judged(directory, sizes=sizes))["cut_offsets"] == cuts


@pytest.mark.parametrize("sizes", [(1_000_000,), (1,)])
def test_an_election_was_before_the_next_time_of_a_server(sizes: tuple[int, ...]) -> None:
    """A producer's clock says nothing; if no server wrote since, the snapshot's time does."""
    directory = Directory().fill(2, leader_epoch=0)
    directory.fill(2, leader_epoch=1)
    directory.add(1, leader_epoch=1, attributes=0x20, max_timestamp_ms=BEGAN_MS + 7)
    directory.fill(2, leader_epoch=2)
    directory.fact("unseen", 2, BEGAN_MS + 9)
    assert log_of(judged(directory, sizes=sizes))["cut_times"] == [BEGAN_MS + 7] * 2 + [BEGAN_MS + 9]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize(
    ("item", "replicas", "may_be_cut"),
    [("unclean", (), True), ("unseen", (), True), ("unseen", (1,), False), ("metadata", (), False)],
)
def test_a_stopped_copy_is_shorter_than_its_checkpoint_from_before_the_election(
    item: str, replicas: tuple[int, ...], may_be_cut: bool, is_clean: bool
) -> None:
    """A broker that ends cleanly writes it anew; after a kill it may be that of before the cut."""
    directory = Directory().fill(10)
    directory.fact("stopped", 1 if is_clean else None)
    directory.fact("high-watermark", directory.end)
    directory.fact(item, 1, BEGAN_MS)
    for replica in replicas:
        directory.fact("replica", replica)
    del directory.batches[7:]
    is_unknown = may_be_cut and not is_clean
    assert said(judged(directory)) == ["?replicas.short" if is_unknown else "replicas.short"]
