"""``groups``: Kafka's flags and columns; what is requested of the cluster; each refusal."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsAnswer,
    ListGroups,
)
from fencepost.controller.groups.offset_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    PartitionCode,
    PartitionCodes,
)
from fencepost.wire.k03_metadata import (
    METADATA,
    BrokerNode,
    Metadata,
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
)
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE
from tests.cli.fake_broker import BROKER_ID
from tests.cli.group_cluster import EMPTY, MEMBER, MISSING, NOW_MS, STABLE, STATIC, Cluster, assignment


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr("fencepost.cli.groups_reset._now_ms", lambda: NOW_MS)
    monkeypatch.setattr("fencepost.cluster.brokers.TIMEOUT_SECONDS", 3.0)
    with ExitStack() as stack:
        yield Cluster(stack, capsys)


# -- list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param((), ListGroups(), id="all"),
        pytest.param(("--state", "stable, EMPTY"), ListGroups(("Stable", "Empty")), id="states"),
        pytest.param(("--state", "--type"), ListGroups(), id="as-kafkas-tool-is-asked-for-columns"),
        pytest.param(("--type", "classic"), ListGroups((), ("classic",)), id="types"),
    ],
)
def test_a_list_requests_what_its_flags_say(
    cluster: Cluster, words: tuple[object, ...], asked: ListGroups
) -> None:
    row = {"group": "g", "type": "Classic", "protocol": "consumer", "state": "Stable"}
    assert cluster.document("list", *words)[0] == row
    assert cluster.asked(ListGroups) == [asked]
    assert cluster.run("list").stdout.splitlines()[0].split() == ["GROUP", "TYPE", "PROTOCOL", "STATE"]


# -- describe --------------------------------------------------------------------------------------------

OFFSETS = [
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
]


EPOCHS = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]


def test_offsets_have_the_columns_and_the_lag_of_kafka(cluster: Cluster) -> None:
    """A partition without an owner, one without a committed offset, one of a topic that was deleted, one past
    its end."""
    said = cluster.run("describe", "--group", "g")
    columns, *rows = said.stdout.splitlines()
    assert columns.split() == OFFSETS
    assert [row.split() for row in rows] == [
        ["g", "gone", "0", "7", "-", "-", "-", "-", "-"],
        ["g", "t", "0", "40", "100", "60", "m-1", "/127.0.0.1", "app"],
        ["g", "t", "1", "-", "100", "-", "m-1", "/127.0.0.1", "app"],
        ["g", "t", "2", "120", "100", "-20", "-", "-", "-"],
    ]
    assert cluster.document("describe", "--group", "g", "--verbose")[1] == {
        "group": "g", "topic": "t", "partition": 0, "leader_epoch": 5, "current_offset": 40,
        "log_end_offset": 100, "lag": 60, "consumer_id": "m-1", "host": "/127.0.0.1", "client_id": "app",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("members", "columns", "rows"),
    [
        pytest.param(
            (MEMBER,),
            ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *EPOCHS],
            [["g", "m-1", "/127.0.0.1", "app", "2", "-", "t:0,1", "-", "-"]],
            id="dynamic",
        ),
        pytest.param(
            (MEMBER, STATIC),
            ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *EPOCHS],
            [
                ["g", "m-1", "-", "/127.0.0.1", "app", "2", "-", "t:0,1", "-", "-"],
                ["g", "m-2", "blue", "/127.0.0.1", "app", "1", "-", "t:2", "-", "-"],
            ],
            id="static",
        ),
    ],
)
def test_members_have_the_columns_of_kafka(
    cluster: Cluster, members: tuple[DescribedMember, ...], columns: list[str], rows: list[list[str]]
) -> None:
    cluster.group = DescribedGroup("g", state="Stable", protocol_type="consumer", members=members)
    head, *found = cluster.run("describe", "--group", "g", "--members", "--verbose").stdout.splitlines()
    assert (head.split(), [row.split() for row in found]) == (columns, rows)
    assert "ASSIGNMENT" not in cluster.run("describe", "--group", "g", "--members").stdout


def test_a_state_has_the_columns_of_kafka(cluster: Cluster) -> None:
    (row,) = cluster.document("describe", "--all-groups", "--state")
    port = row["coordinator_id"].partition(":")[2].split()[0]
    assert row == {
        "group": "g",
        "coordinator_id": f"127.0.0.1:{port} ({BROKER_ID})",
        "assignment_strategy": "range",
        "state": "Stable",
        "members": 1,
    }
    (row,) = cluster.document("describe", "--group", "g", "--state", "--verbose")
    assert (row["group_epoch"], row["target_assignment_epoch"], list(row)[-1]) == (None, None, "members")


@pytest.mark.parametrize(
    ("state", "warning"), [("Empty", "has no active members"), ("PreparingRebalance", "is rebalancing")]
)
def test_a_state_that_explains_the_rows_is_said(cluster: Cluster, state: str, warning: str) -> None:
    cluster.group = DescribedGroup("g", state=state, protocol_type="consumer")
    assert warning in cluster.run("describe", "--group", "g").stderr


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\x7f\xff\xff\xff", assignment("t", 1)[:-6]])
def test_an_assignment_that_cannot_be_read_is_none(cluster: Cluster, content: bytes) -> None:
    member = DescribedMember("m", None, "app", "/h", assignment=content)
    cluster.group = DescribedGroup("g", state="Stable", protocol_type="consumer", members=(member,))
    (row,) = cluster.document("describe", "--group", "g", "--members", "--verbose")
    assert (row["partitions"], row["current_assignment"]) == (0, None)


def test_the_assignment_of_another_protocol_is_not_read(cluster: Cluster) -> None:
    cluster.group = DescribedGroup("g", state="Stable", protocol_type="connect", members=(MEMBER,))
    (row,) = cluster.document("describe", "--group", "g", "--members")
    assert row["partitions"] == 0


def test_a_broker_that_dies_leaves_its_partitions_without_a_leader(cluster: Cluster) -> None:
    """Metadata names it for a while after its death: the end of its log is requested until it does not."""
    leaders = [BROKER_ID + 1, BROKER_ID + 1, -1]

    def metadata(request: Metadata) -> MetadataAnswer:
        assert cluster.broker is not None
        nodes = (BrokerNode(BROKER_ID, "127.0.0.1", cluster.broker.port),)
        leader = leaders[0] if len(leaders) == 1 or not request.topics else leaders.pop(0)
        topic = TopicMetadata(name="t", partitions=(PartitionMetadata(partition_index=0, leader_id=leader),))
        return MetadataAnswer(cluster_id="c", brokers=nodes, topics=(topic,) if request.topics else ())

    cluster.answers[METADATA] = metadata
    (_, row, *_) = cluster.document("describe", "--group", "g")
    assert (row["topic"], row["partition"], row["log_end_offset"], row["lag"]) == ("t", 0, None, None)
    assert leaders == [-1]


def test_a_coordinator_that_loads_is_asked_again(cluster: Cluster) -> None:
    answers: list[Any] = [CoordinatorLoadInProgress("soon"), DescribeGroupsAnswer((STABLE,))]
    cluster.answers[DESCRIBE_GROUPS] = lambda _request: answers.pop(0)
    assert len(cluster.document("describe", "--group", "g")) == 4
    assert cluster.asked(DescribeGroups) == [DescribeGroups(("g",))] * 2


# -- reset -----------------------------------------------------------------------------------------------

RESETS = [
    pytest.param(("--to-earliest",), [10, 10], id="earliest"),
    pytest.param(("--to-latest",), [100, 100], id="latest"),
    pytest.param(("--to-current",), [40, 100], id="current-or-the-end"),
    pytest.param(("--to-offset", 55), [55, 55], id="offset"),
    pytest.param(("--to-offset", 5), [10, 10], id="offset-below-the-log"),
    pytest.param(("--to-offset", 5000), [100, 100], id="offset-past-the-log"),
    pytest.param(("--to-datetime", "2025-10-09T08:53:19Z"), [70, 70], id="datetime"),
    pytest.param(("--to-datetime", "2025-10-09T10:53:19+02:00"), [70, 70], id="datetime-of-a-zone"),
    pytest.param(("--to-datetime", "2025-10-09T08:53:19.000"), [70, 70], id="datetime-is-utc"),
    pytest.param(("--to-datetime", "2030-01-01T00:00:00"), [100, 100], id="datetime-past-the-log"),
    pytest.param(("--by-duration", "PT1S"), [70, 70], id="duration"),
]


@pytest.mark.parametrize(("scenario", "expected"), RESETS)
def test_a_reset_goes_where_its_scenario_says(
    cluster: Cluster, scenario: tuple[object, ...], expected: list[int]
) -> None:
    cluster.group = EMPTY
    words = ("reset-offsets", "--group", "g", "--topic", "t:1,0", *scenario)
    rows = cluster.document(*words, "--dry-run")
    assert [(row["topic"], row["partition"], row["new_offset"]) for row in rows] == [
        ("t", 0, expected[0]),
        ("t", 1, expected[1]),
    ]
    assert not cluster.asked(CommitOffsets)
    assert cluster.document(*words, "--execute") == rows
    offsets = tuple(OffsetToCommit("t", index, offset) for index, offset in enumerate(expected))
    assert cluster.asked(CommitOffsets) == [CommitOffsets("g", offsets)]


@pytest.mark.parametrize(("by", "expected"), [(5, 45), (-5, 35), (-1000, 10), (1000, 100)])
def test_a_shift_stays_in_the_log(cluster: Cluster, by: int, expected: int) -> None:
    cluster.group = EMPTY
    words = ("reset-offsets", "--group", "g", "--topic", "t:0", "--shift-by", by)
    assert [row["new_offset"] for row in cluster.document(*words)] == [expected]


def test_all_partitions_of_a_topic_or_all_that_were_committed(cluster: Cluster) -> None:
    cluster.group = MISSING  # a group that is not there yet may begin somewhere, too
    rows = cluster.document("reset-offsets", "--all-groups", "--topic", "t", "--to-latest")
    assert [row["partition"] for row in rows] == [0, 1, 2]
    said = cluster.run("reset-offsets", "--group", "g", "--all-topics", "--to-latest")
    assert (said.status, "no broker leads gone-0" in said.stderr) == (1, True)


def test_without_execute_it_says_that_nothing_is_done(cluster: Cluster) -> None:
    cluster.group = EMPTY
    said = cluster.run("reset-offsets", "--group", "g", "--topic", "t", "--to-latest")
    assert (said.status, "nothing is committed without --execute" in said.stderr) == (0, True)
    assert said.stdout.splitlines()[0].split() == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert not cluster.asked(CommitOffsets)


RESET = ("reset-offsets", "--group", "g", "--topic")
ONE = (*RESET, "t", "--to-latest")
REFUSED = [
    pytest.param(STABLE, (*ONE, "--execute"), 1, "is Stable; expected one without members", id="in-use"),
    pytest.param(MISSING, ("describe", "--group", "g"), 1, "there is no group g", id="no-group"),
    pytest.param(EMPTY, (*RESET, "x", "--to-latest"), 1, "no topic x", id="no-topic"),
    pytest.param(EMPTY, (*RESET, "t:9", "--to-latest"), 1, "leads t-9", id="no-partition"),
    pytest.param(EMPTY, (*RESET, "t:1", "--shift-by", 1), 1, "no committed", id="nothing-to-shift"),
    pytest.param(EMPTY, (*ONE, "--to-earliest"), 2, "expected one of --to-earliest", id="two-scenarios"),
    pytest.param(EMPTY, (*RESET, "t"), 2, "got 0", id="no-scenario"),
    pytest.param(EMPTY, (*ONE, "--execute", "--dry-run"), 2, "--dry-run and --execute", id="both"),
    pytest.param(EMPTY, (*ONE, "--all-topics"), 2, "--topic, or --all-topics", id="topic-and-all"),
    pytest.param(EMPTY, (*ONE, "--topic", "t:0"), 2, "each topic once", id="a-topic-twice"),
    pytest.param(EMPTY, (*RESET, "t", "--to-datetime", "soon"), 2, "YYYY-MM-DD", id="no-date"),
    pytest.param(EMPTY, (*RESET, "t", "--by-duration", "P"), 2, "PnDTnHnMnS", id="no-duration"),
    pytest.param(EMPTY, ("list", "--state", "Stable,Soon"), 2, "expected some of Empty", id="no-such-state"),
    pytest.param(EMPTY, ("list", "--type", "share"), 2, "of classic, consumer", id="no-such-type"),
    pytest.param(EMPTY, ("describe",), 2, "--group, or --all-groups", id="which-group"),
    pytest.param(EMPTY, ("describe", "--group", "g", "--all-groups"), 2, "or --all-groups", id="one-and-all"),
    pytest.param(EMPTY, ("describe", "--state", "--members"), 2, "expected one of", id="two-views"),
    pytest.param(EMPTY, ("delete-offsets", "--group", "g"), 2, "expected --topic", id="delete-of-nothing"),
]


@pytest.mark.parametrize(("group", "words", "status", "complaint"), REFUSED)
def test_what_is_refused(
    cluster: Cluster, group: DescribedGroup, words: tuple[object, ...], status: int, complaint: str
) -> None:
    cluster.group = group
    said = cluster.run(*words)
    assert (said.status, complaint in said.stderr) == (status, True), said.stderr
    assert not cluster.asked(CommitOffsets)


def test_a_commit_that_is_refused_is_named(cluster: Cluster) -> None:
    cluster.group = EMPTY
    refused = PartitionCodes((PartitionCode("t", 0, ErrorCode.UNKNOWN_MEMBER_ID),))
    cluster.answers[OFFSET_COMMIT] = lambda _request: refused
    said = cluster.run(*ONE, "--execute")
    assert (said.status, "t-0 of group g: UNKNOWN_MEMBER_ID" in said.stderr) == (1, True)


def test_groups_with_members_are_left_and_the_others_are_reset(cluster: Cluster) -> None:
    """Exit status 1 says that some are left; Kafka's is 0."""
    states = {"busy": STABLE, "idle": EMPTY}
    cluster.answers[DESCRIBE_GROUPS] = lambda request: DescribeGroupsAnswer((states[request.group_ids[0]],))
    words = ("--group", "busy", "--group", "idle", "--topic", "t:0", "--to-latest", "--execute")
    said = cluster.run("reset-offsets", *words)
    assert (said.status, "Error: group busy is Stable" in said.stderr) == (1, True)
    assert [row.split() for row in said.stdout.splitlines()[1:]] == [["idle", "t", "0", "100"]]
    assert cluster.asked(CommitOffsets) == [CommitOffsets("idle", (OffsetToCommit("t", 0, 100),))]


def test_all_groups_are_those_of_consumers(cluster: Cluster) -> None:
    """What others' members commit is no business of a command for consumers."""
    cluster.group = EMPTY
    rows = cluster.document("reset-offsets", "--all-groups", "--topic", "t:0", "--to-latest", "--execute")
    assert [row["group"] for row in rows] == ["g"]
    assert [each.group_id for each in cluster.asked(CommitOffsets)] == ["g"]


ATTEMPTS_OF_A_SECOND = 12


def test_a_timeout_is_in_milliseconds(cluster: Cluster) -> None:
    cluster.answers[DESCRIBE_GROUPS] = lambda _request: CoordinatorLoadInProgress("soon")
    said = cluster.run("describe", "--group", "g", "--timeout", 300)
    assert (said.status, "soon" in said.stderr) == (3, True)
    assert len(cluster.asked(DescribeGroups)) < ATTEMPTS_OF_A_SECOND


# -- delete ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [(ErrorCode.NONE, 0, "Successful"), (ErrorCode.NON_EMPTY_GROUP, 1, "Error: NON_EMPTY_GROUP")],
)
def test_each_group_is_deleted_or_says_why_not(
    cluster: Cluster, code: ErrorCode, status: int, says: str
) -> None:
    cluster.answers[DELETE_GROUPS] = lambda request: DeleteGroupsAnswer(((request.group_ids[0], code),))
    words = ("delete", "--group", "g", "--group", "h")
    assert cluster.document(*words, status=status) == [
        {"group": "g", "status": says},
        {"group": "h", "status": says},
    ]
    assert cluster.asked(DeleteGroups) == [DeleteGroups(("g",)), DeleteGroups(("h",))]


def test_offsets_are_deleted_by_partition(cluster: Cluster) -> None:
    codes = {0: ErrorCode.NONE, 1: ErrorCode.NONE, 2: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    cluster.answers[OFFSET_DELETE] = lambda request: PartitionCodes(
        tuple(PartitionCode(topic, index, codes[index]) for topic, index in request.partitions)
    )
    rows = cluster.document("delete-offsets", "--group", "g", "--topic", "t", "--topic", "gone:0", status=1)
    assert [tuple(row.values()) for row in rows] == [
        ("gone", 0, "Successful"),
        ("t", 0, "Successful"),
        ("t", 1, "Successful"),  # nothing was committed
        ("t", 2, "Error: GROUP_SUBSCRIBED_TO_TOPIC"),
    ]
    assert cluster.asked(DeleteOffsets) == [DeleteOffsets("g", (("gone", 0), ("t", 0), ("t", 1), ("t", 2)))]


def test_a_topic_that_is_not_there_has_no_offsets_to_delete(cluster: Cluster) -> None:
    cluster.answers[OFFSET_DELETE] = lambda request: PartitionCodes(
        tuple(PartitionCode(topic, index) for topic, index in request.partitions)
    )
    rows = cluster.document("delete-offsets", "--group", "g", "--topic", "x", "--topic", "gone", status=1)
    assert [tuple(row.values()) for row in rows] == [
        ("x", None, "Error: UNKNOWN_TOPIC_OR_PARTITION: there is no topic x"),
        ("gone", 0, "Successful"),  # deleted meanwhile
    ]


def test_only_offsets_of_the_group_are_read(cluster: Cluster) -> None:
    cluster.document("describe", "--group", "g")
    (request,) = cluster.asked(FetchOffsets)
    assert [(each.group_id, each.partitions) for each in request.groups] == [("g", None)]
