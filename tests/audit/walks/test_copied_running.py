"""A coordinator's log that was copied while it ran, seconds before its partitions' logs were."""

import pytest

from tests.audit.walks.feed import said
from tests.audit.walks.transactions import Cluster, paired


@pytest.mark.parametrize("behind", [("Commit", "Abort", "Commit"), ("Commit", "Commit", "Abort")])
def test_a_marker_behind_its_end_is_not_of_an_older_decision(behind: tuple[str, ...]) -> None:
    """Seen in Apache Kafka 3.9: retention had taken the marker of the last decision that the copy has."""
    cluster = Cluster()
    cluster.many("Abort")
    kept, first = len(cluster.states.rows), cluster.log.end
    cluster.many(*behind)
    del cluster.states.rows[kept:]
    cluster.log.rows = [row for row in cluster.log.rows if row["base_offset"] >= first]
    cluster.context["offset"] = first
    cluster.stopped = False
    assert said(paired(cluster)) == ["?markers.missing", "?markers.without_transaction"]
