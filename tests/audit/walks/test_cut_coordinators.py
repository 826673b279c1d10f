"""A coordinator's log that lost its end: which marker was the last that it tells of."""

import pytest

from fencepost.audit.walks.columns import AFTER_COORDINATOR
from tests.audit.walks.feed import Row, said
from tests.audit.walks.logs import PRODUCER
from tests.audit.walks.transactions import Cluster, paired


def cut(*, later_ms: int, early_ms: int = 0) -> tuple[Cluster, Row]:
    """The last decision is an abort without data; the log ends before the abort with data that follows.

    early_ms   by how much the marker of the first one is earlier than its decision.
    """
    cluster = Cluster(ours=True)
    cluster.many("Commit", "Commit", "Commit", "Commit")
    cluster.begin(batches=0)
    marker = cluster.end(0, "Abort")
    assert marker is not None
    marker["max_timestamp_ms"] -= early_ms
    kept = len(cluster.states.rows)
    cluster.later(later_ms)
    if later_ms:
        cluster.log.marker(producer=PRODUCER + 1)  # a server's time
    cluster.begin()
    last = cluster.end(0, "Abort")
    assert last is not None
    del cluster.states.rows[kept:]
    return cluster, last


def of_the_producer(cluster: Cluster) -> list[Row]:
    rows = [row for row in paired(cluster) if row["kind"] == "finding"]
    return [row for row in rows if row["producer_id"] == PRODUCER]


@pytest.mark.parametrize("slow_ms", [0, 2_000])
def test_an_abort_whose_data_was_written_later_is_behind_the_end(slow_ms: int) -> None:
    cluster, last = cut(later_ms=5_000, early_ms=-slow_ms)
    (row,) = of_the_producer(cluster)
    assert said([row]) == ["markers.without_transaction"]
    assert row["offset"] == last["base_offset"]
    assert str(row["cause"]).startswith(AFTER_COORDINATOR)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"later_ms": 0}, id="its-data-may-have-been-written-before"),
        pytest.param({"later_ms": 5_000, "early_ms": 4_000}, id="the-marker-before-it-is-too-early"),
    ],
)
def test_an_abort_before_it_is_not_the_decisions(given: dict[str, int]) -> None:
    cluster, last = cut(**given)
    (row,) = of_the_producer(cluster)
    assert row["offset"] < last["base_offset"]
    assert row["cause"] is None
