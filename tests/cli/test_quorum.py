"""``quorum describe``: the lines and columns of kafka-metadata-quorum, computed from DescribeQuorum."""

from uuid import UUID

import pytest

from fencepost.cli.quorum import replication_of, status_of
from fencepost.records.types import NodeId, Offset, Term
from fencepost.wire.k55_describe_quorum import NodeListener, QuorumNode, QuorumPartition, ReplicaState
from tests.together import table

DIRECTORY = UUID(int=1)


def replica(node_id: int, end: int, caught_up: int = -1, directory: UUID | None = DIRECTORY) -> ReplicaState:
    return ReplicaState(NodeId(node_id), Offset(end), directory, caught_up, caught_up)


def quorum(
    *voters: ReplicaState, leader: int = 2, observers: tuple[ReplicaState, ...] = ()
) -> QuorumPartition:
    return QuorumPartition(
        leader_id=NodeId(leader),
        leader_epoch=Term(7),
        high_watermark=Offset(10),
        current_voters=voters,
        observers=observers,
    )


LAGS = [
    pytest.param(quorum(replica(1, 10, 900), replica(2, 10, 1000)), (0, 0), id="nobody-lags"),
    pytest.param(quorum(replica(1, 4, 900), replica(2, 10, 1000)), (6, 100), id="a-follower-lags"),
    pytest.param(
        quorum(replica(1, 4, 900), replica(2, 10, 1000), replica(3, 2, 400)),
        (8, 600),
        id="the-slowest-counts",
    ),
    pytest.param(quorum(replica(1, 4, -1), replica(2, 10, 1000)), (6, -1), id="nobody-knows-since-when"),
    pytest.param(quorum(replica(2, 10, 1000)), (0, 0), id="the-leader-is-alone"),
    pytest.param(quorum(), (0, 0), id="no-voter"),
]


@table(("partition", "expected"), LAGS)
def test_the_lag_is_that_of_the_slowest_voter(partition: QuorumPartition, expected: tuple[int, int]) -> None:
    status = status_of("cluster", partition, ())
    assert (status["MaxFollowerLag"], status["MaxFollowerLagTimeMs"]) == expected


def test_status_has_the_lines_of_kafka() -> None:
    nodes = (QuorumNode(NodeId(1), (NodeListener("CONTROLLER", "127.0.0.1", 9192),)),)
    partition = quorum(replica(1, 10), replica(2, 10, directory=None), observers=(replica(9, 3),))
    assert status_of("cluster", partition, nodes) == {
        "ClusterId": "cluster",
        "LeaderId": 2,
        "LeaderEpoch": 7,
        "HighWatermark": 10,
        "MaxFollowerLag": 0,
        "MaxFollowerLagTimeMs": 0,
        "CurrentVoters": [
            {"id": 1, "directoryId": "AAAAAAAAAAAAAAAAAAAAAQ", "endpoints": ["CONTROLLER://127.0.0.1:9192"]},
            {"id": 2, "directoryId": None, "endpoints": []},
        ],
        "CurrentObservers": [{"id": 9, "directoryId": "AAAAAAAAAAAAAAAAAAAAAQ", "endpoints": []}],
    }


def test_replication_has_the_columns_of_kafka_and_the_leader_first() -> None:
    rows = replication_of(quorum(replica(1, 7, 900), replica(2, 10, 1000), observers=(replica(9, 3, 800),)))
    assert [(row["NodeId"], row["Lag"], row["Status"]) for row in rows] == [
        (2, 0, "Leader"),
        (1, 3, "Follower"),
        (9, 7, "Observer"),
    ]
    assert rows[1] == {
        "NodeId": 1,
        "DirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "LogEndOffset": 7,
        "Lag": 3,
        "LastFetchTimestamp": 900,
        "LastCaughtUpTimestamp": 900,
        "Status": "Follower",
    }


def test_without_a_leader_no_lag_is_known() -> None:
    assert [row["Lag"] for row in replication_of(quorum(replica(1, 7), leader=-1))] == [-1]
