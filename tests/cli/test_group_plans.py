"""``groups reset-offsets --export`` and ``--from-file``: the CSV of Kafka's tool, there and back."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.cli import group_resets
from fencepost.controller.groups.offset_messages import CommitOffsets, OffsetToCommit
from tests.cli.group_cluster import EMPTY, Cluster

RESET = ("reset-offsets", "--group", "g")


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(stack, capsys)
        made.group = EMPTY
        yield made


def test_one_group_is_exported_without_its_name_and_several_with(cluster: Cluster) -> None:
    words = ("--topic", "t:0,2", "--to-current", "--export")
    assert cluster.run(*RESET, *words).stdout == "t,0,40\nt,2,120\n"
    assert cluster.run("reset-offsets", "--all-groups", *words).stdout == "g,t,0,40\ng,t,2,120\n"
    assert not cluster.asked(CommitOffsets)


PLANS = [
    pytest.param("t,0,50\nt,1,60\n", ("--group", "g"), id="of-the-group-that-is-named"),
    pytest.param("g,t,0,50\ng,t,1,60\n", ("--group", "g"), id="with-the-group"),
    pytest.param("g,t,0,50\nh,t,2,1\ng,t,1,60\n", ("--all-groups",), id="another-group-is-not-chosen"),
    pytest.param("t,0,1\nt,1,60\n\nt,0,50\n", ("--group", "g"), id="the-last-line-of-a-partition-counts"),
    pytest.param('"t","0",50\r\nt,1,60', ("--group", "g"), id="quoted"),
]


@pytest.mark.parametrize(("text", "which"), PLANS)
def test_a_file_says_where_to_begin(
    cluster: Cluster, tmp_path: Path, text: str, which: tuple[str, ...]
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text, "utf-8")
    rows = cluster.document("reset-offsets", *which, "--from-file", file, "--execute")
    assert [(row["partition"], row["new_offset"]) for row in rows] == [(0, 50), (1, 60)]
    offsets = (OffsetToCommit("t", 0, 50), OffsetToCommit("t", 1, 60))
    assert cluster.asked(CommitOffsets) == [CommitOffsets("g", offsets)]


def test_an_offset_of_a_file_stays_in_the_log(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("t,0,0\nt,1,5\nt,2,5000\n", "utf-8")
    rows = cluster.document(*RESET, "--from-file", file)
    assert [row["new_offset"] for row in rows] == [10, 10, 100]


REFUSED = [
    pytest.param("t,0", (), 2, "line 1: expected [GROUP,]TOPIC,PARTITION,OFFSET", id="too-few"),
    pytest.param("t,0,1\nt,zero,1", (), 2, "line 2", id="no-number"),
    pytest.param("t,0,-1", (), 2, "line 1", id="an-offset-below-0"),
    pytest.param("t,0,1", ("--group", "h"), 2, "line 1", id="whose-of-two-groups"),
    pytest.param("h,t,0,1", (), 1, "no line of group g", id="another-group"),
    pytest.param("t,0,1", ("--to-latest",), 2, "expected one of", id="another-scenario"),
    pytest.param("t,0,1", ("--topic", "t"), 2, "expected no --topic", id="a-topic"),
    pytest.param("t,9,1", (), 1, "leads t-9", id="no-such-partition"),
    pytest.param("t,0,1\nt,1,1\nt,2,1", (), 2, "at most 2 lines", id="too-many"),
]


@pytest.mark.parametrize(("text", "more", "status", "complaint"), REFUSED)
def test_a_file_that_is_refused(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    more: tuple[str, ...],
    status: int,
    complaint: str,
) -> None:
    monkeypatch.setattr(group_resets, "PLAN_LINES_MAX", 2)
    file = tmp_path / "plan.csv"
    file.write_text(text, "utf-8")
    said = cluster.run(*RESET, "--from-file", file, *more, "--execute")
    assert (said.status, complaint in said.stderr) == (status, True), said.stderr
    assert not cluster.asked(CommitOffsets)


def test_a_file_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    said = cluster.run(*RESET, "--from-file", tmp_path / "none.csv")
    assert (said.status, "--from-file" in said.stderr) == (3, True)


def test_csv_is_not_json(cluster: Cluster) -> None:
    said = cluster.run(*RESET, "--topic", "t", "--to-latest", "--export", "--format", "json")
    assert (said.status, "prints CSV" in said.stderr) == (2, True)
