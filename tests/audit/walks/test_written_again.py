"""Markers that Kafka wrote again, where the coordinator's log no longer has the first transactions."""

import pytest

from tests.audit.walks.feed import Row, said
from tests.audit.walks.transactions import Cluster, paired

QUICK = 6


def quick() -> tuple[Cluster, Row]:
    """Transactions 600 ms apart, each marker 150 ms behind its decision, and the last one's decision."""
    cluster = Cluster(coordinators_whole=False)
    cluster.states.columns["unbroken_offset"] = 3  # the first one is gone
    for _ in range(QUICK):
        cluster.begin(count=1)
        marker = cluster.end()
        assert marker is not None
        marker["max_timestamp_ms"] -= 850
        cluster.later(-4400)
    return cluster, [row for row in cluster.states.rows if row["state"] == "PrepareCommit"][-1]


@pytest.mark.parametrize("after_ms", [500, 7000])
def test_data_of_an_older_time_behind_a_marker_that_was_written_again(after_ms: int) -> None:
    """Kafka Streams stamps data with the time of what it was made of."""
    cluster, decided = quick()
    cluster.log.marker(coordinator_epoch=6, max_timestamp_ms=decided["updated_ms"] + after_ms)
    cluster.later(6000)
    cluster.states.columns["leader_epoch"] = 6
    cluster.begin()
    cluster.log.rows[-1]["max_timestamp_ms"] = decided["updated_ms"] - 100
    marker = cluster.end()
    assert marker is not None
    marker |= {"coordinator_epoch": 6, "max_timestamp_ms": marker["max_timestamp_ms"] - 850}
    del cluster.states.rows[:3]
    assert said(paired(cluster)) == ["?markers.without_transaction", "note markers.repeated"]


def test_a_marker_before_its_data_is_not_one_written_again() -> None:
    cluster, _ = quick()
    data, marker = cluster.log.rows[-4:-2]
    cluster.log.swap(data, marker)
    del cluster.states.rows[:3]
    assert said(paired(cluster)) == ["?markers.without_transaction", "markers.early"]
