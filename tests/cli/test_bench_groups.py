"""``fencepost bench groups``: what it loads, what it reads back, and what it makes of the figures."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from fencepost.bench import group_rows, groups, loop_load, offset_load
from fencepost.bench.coordinators import NoCoordinator
from fencepost.bench.group_member import assignment, subscription
from fencepost.bench.group_rows import _rate
from fencepost.bench.groups import lines
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.offset_messages import (
    CommitOffsets,
    FetchedGroup,
    FetchedOffset,
    FetchOffsetsAnswer,
    OffsetToCommit,
)
from fencepost.controller.groups.subscriptions import topics_in
from fencepost.wire.connection import ConnectionLost
from fencepost.wire.errors import error_for
from tests.harness.command import contents, here, in_process, stdout_of
from tests.harness.nodes import running
from tests.ports import cluster_port
from tests.together import table

# -- what members send -----------------------------------------------------------------------------------


@table("size", [150, 500, 1000])
def test_a_subscription_is_a_consumers_and_as_long_as_wanted(size: int) -> None:
    metadata = subscription("the-topic", size)
    assert len(metadata) == size
    assert topics_in(metadata) == frozenset({"the-topic"})


def test_an_assignment_says_whose_it_is_and_is_as_long_as_wanted() -> None:
    own, other = (assignment("the-topic", each, 500) for each in ("member-1", "member-2"))
    assert len(own) == len(other) == 500
    assert own != other
    assert topics_in(own) == frozenset()  # the same layout: no topic


def test_bytes_that_hold_no_more_than_they_must_are_not_cut() -> None:
    assert topics_in(subscription("the-topic", 0)) == frozenset({"the-topic"})
    assert assignment("t", "member-1", 0) != assignment("t", "member-2", 0)


# -- what is read back -----------------------------------------------------------------------------------


def committer(*rows: FetchedOffset) -> offset_load.Client:
    """A client that sent offset 7, of which 5 was acknowledged; OffsetFetch answers with each row in turn."""
    load = offset_load.Load(
        bootstrap=[],
        prefix="g",
        topic="t",
        partitions=1,
        clients=1,
        transactional=False,
        warm_up_s=0,
        seconds=1,
    )
    client = offset_load.Client(offset_load.Course(load), 0)
    answers = iter(rows)

    async def call(*_request: Any, timeout_s: float) -> FetchOffsetsAnswer:
        return FetchOffsetsAnswer((FetchedGroup("g-0", (next(answers),)),))

    client._group = cast(Any, SimpleNamespace(call=call))
    client.acknowledged, client.offset = 5, 7
    return client


UNSTABLE = FetchedOffset("t", 0, -1, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        pytest.param([FetchedOffset("t", 0, 5)], "", id="the acknowledged one"),
        pytest.param([FetchedOffset("t", 0, 7)], "", id="one without an answer"),
        pytest.param([UNSTABLE, FetchedOffset("t", 0, 6)], "", id="after its transaction"),
        pytest.param([FetchedOffset("t", 0, 4)], "offset 4 is committed; 5 was", id="an earlier one"),
        pytest.param([FetchedOffset("t", 0, 8)], "offset 8 is committed", id="one that was never sent"),
        pytest.param([FetchedOffset("t", 0, -1)], "offset -1 is committed", id="none"),
    ],
)
def test_a_commit_that_is_not_there_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, rows: list[FetchedOffset], fault: str
) -> None:
    monkeypatch.setattr(offset_load, "BACKOFF_S", 0.0)
    found = asyncio.run(committer(*rows).difference())
    assert fault in found
    assert bool(fault) == bool(found)


@pytest.mark.parametrize("found", [True, False])
def test_a_commit_goes_to_the_coordinator_that_is_there_now(
    monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    client = committer()
    sent: list[Any] = []

    async def find_all(*_what: Any) -> dict[str, tuple[str, int]]:
        if not found:
            raise NoCoordinator("none")
        return {client.group_id: ("127.0.0.1", 2)}

    async def connect(_address: tuple[str, int]) -> Any:
        return SimpleNamespace(ask=lambda _api, request, *_rest, **_timeout: sent.append(request))

    monkeypatch.setattr(offset_load, "find_all", find_all)
    monkeypatch.setattr(client, "_connect", connect)
    monkeypatch.setattr(offset_load, "BACKOFF_S", 0.0)

    async def story() -> None:
        client._answered(error_for(ErrorCode.NOT_COORDINATOR))
        assert client._following is not None
        await client._following

    asyncio.run(story())
    assert sent == ([CommitOffsets("g-0", (OffsetToCommit("t", 0, 7),))] if found else [])
    assert client.idle.is_set() is not found


def test_an_offset_that_stays_unstable_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_load, "CAUGHT_UP_SECONDS", 0.0)
    assert "UNSTABLE_OFFSET_COMMIT" in asyncio.run(committer(UNSTABLE).difference())


@pytest.mark.parametrize(
    ("back", "fault"), [pytest.param(True, "", id="found"), pytest.param(False, "closed by", id="gone")]
)
def test_a_coordinator_that_moved_is_found_again(
    monkeypatch: pytest.MonkeyPatch, back: bool, fault: str
) -> None:
    """It has no answer to OffsetFetch: the connection is closed, as where Kafka's clients must look again."""
    client = committer(FetchedOffset("t", 0, 6))
    there, gone = client._group, ConnectionLost("closed by the other side")

    async def call(*_request: Any, timeout_s: float) -> FetchOffsetsAnswer:
        raise gone

    async def find_all(*_what: Any) -> dict[str, tuple[str, int]]:
        return {client.group_id: ("127.0.0.1", 2)}

    async def connect(address: tuple[str, int]) -> Any:
        assert address == ("127.0.0.1", 2)
        if not back:
            raise gone
        return there

    client._group = cast(Any, SimpleNamespace(call=call))
    monkeypatch.setattr(offset_load, "find_all", find_all)
    monkeypatch.setattr(client, "_connect", connect)
    monkeypatch.setattr(offset_load, "BACKOFF_S", 0.0)
    if not back:
        monkeypatch.setattr(offset_load, "CAUGHT_UP_SECONDS", 0.0)
    found = asyncio.run(client.difference())
    assert fault in found
    assert bool(fault) == bool(found)


@pytest.mark.parametrize(
    ("seen", "committed", "fault"),
    [
        pytest.param({0: [0, 1], 1: [0]}, 3, "", id="all-there"),
        pytest.param({0: [0, 2]}, 2, "saw record 2 of 0, expected [1, 0]", id="lost"),
        pytest.param({0: [0, 0]}, 2, "saw record 0 of 0, expected [1, 0]", id="twice"),
        pytest.param({0: [0], 1: [0]}, 3, "3 records were committed, 2 are seen", id="the-last-lost"),
        pytest.param({0: [0, 1]}, 1, "1 records were committed, 2 are seen", id="one-too-many"),
    ],
)
def test_the_output_of_loops_is_compared_with_what_was_committed(
    mock_cluster: str, seen: dict[int, list[int]], committed: int, fault: str, request: pytest.FixtureRequest
) -> None:
    load = loop_load.Load(
        bootstrap=mock_cluster, prefix=request.node.callspec.id, loops=2, warm_up_s=0, seconds=1
    )
    producer = Producer({"bootstrap.servers": mock_cluster})
    for partition, numbers in seen.items():
        for number in numbers:
            value = loop_load._VALUE.pack(partition, number) + loop_load._PADDING
            producer.produce(loop_load.output_of(load), value, partition=partition)
    assert producer.flush(10) == 0
    found = loop_load.difference(load, committed)
    assert fault in found
    assert bool(fault) == bool(found)


# -- what is shown ---------------------------------------------------------------------------------------

STABLE_ROW = {"members": 10, "cold_ms": 3000.0, "member_killed_ms": None, "leader_killed_ms": 500.0}
RATES = {"per_s": 800.0, "p50_ms": 1.5, "p99_ms": 9.0, "verified": True}
OWN = {
    "stable": [STABLE_ROW],
    "loops": [{"loops": 1} | RATES],
    "commits": [{"clients": 10, "kind": "plain"} | RATES | {"verified": False}],
}
PEER = {
    "stable": [STABLE_ROW | {"cold_ms": 6000.0, "member_killed_ms": 10.0, "leader_killed_ms": None}],
    "loops": [{"loops": 1} | RATES | {"per_s": 400.0}],
    "commits": [{"clients": 10, "kind": "plain"} | RATES | {"per_s": 0.0}],
}
STALLS = {"turn": 4.4, "JoinGroup": 7.0, "sweep": 1.0, "maintain": 0.5}


def cells(text: str) -> list[list[str]]:
    """The rows of tables below their titles."""
    return [line.split() for line in text.splitlines() if line[:1].isdigit()]


def test_the_table_has_the_peer_beside_the_cluster() -> None:
    shown = lines({"cluster": OWN, "peer": PEER, "stalls_ms": STALLS})
    assert cells(shown) == [
        ["10", "3000", "6000", "2.00", "-", "10", "-", "500", "-", "-"],
        ["1", "800", "400", "2.00", "1.50", "9.00", "yes"],
        ["10", "plain", "800", "0", "-", "1.50", "9.00", "NO"],
    ]
    assert shown.endswith("event loop: JoinGroup 7 ms, turn 4 ms, sweep 1 ms")


def test_the_table_of_a_part_of_one_cluster() -> None:
    shown = lines({"cluster": {"commits": OWN["commits"]}, "stalls_ms": {}})
    assert cells(shown)[0] == ["10", "plain", "800", "1.50", "9.00", "NO"]
    assert "PEER" not in shown


def test_a_rate_is_of_the_window_and_faults_are_in_it() -> None:
    ns = [1_000_000 * each for each in range(100, 0, -1)]
    assert _rate(ns, 2.0, "") == {"per_s": 50.0, "p50_ms": 50.0, "p99_ms": 99.0, "verified": True}
    assert _rate([], 2.0, "lost") == {"per_s": 0.0, "p50_ms": None, "p99_ms": None, "verified": False}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--members", "1"), "from 2 to 2000", id="a group that loses its only member"),
        pytest.param(("--members", "2001"), "from 2 to 2000", id="more members than a group may have"),
        pytest.param(("--assignment-bytes", "149"), "150", id="no room for a member id"),
        pytest.param(("--only", "others"), "commits", id="an unknown part"),
        pytest.param(("--peer-kill", "x"), "go together", id="a node that nothing starts again"),
        pytest.param(("--peer-kill", "x", "--peer-start", "y"), "--bootstrap-server", id="no peer"),
        pytest.param(("--bootstrap-server", "here"), "expected HOST:PORT", id="no address"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    result = here(capsys, "bench", "groups", *arguments)
    assert result.status == 2
    assert words in result.stderr


# -- on clusters -----------------------------------------------------------------------------------------

NO_DELAY = "group.initial.rebalance.delay.ms=0"
SHORTEST_SESSION = "group.min.session.timeout.ms=1000"


@pytest.mark.slow
def test_a_cluster_and_its_peer_are_measured_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its waits are shorter than a user's: for more members to join, and for the killed one's session."""
    monkeypatch.setattr(groups, "OWN_SETTINGS", (NO_DELAY, SHORTEST_SESSION))
    monkeypatch.setattr(group_rows, "VICTIM_SESSION_MS", 1_000)
    monkeypatch.setattr(group_rows, "WARM_UP_SECONDS", 0.5)
    with running(tmp_path / "peer", SHORTEST_SESSION) as peer:
        node = f"{sys.executable} -P -m fencepost.cli.main %s {{node}} --dir {peer.directory}"
        words = (
            "bench", "groups", "--members", "4", "--loops", "2", "--clients", "3", "--seconds", 1.0,
            "--subscription-bytes", 500, "--assignment-bytes", 500,
            "--dir", tmp_path / "own", "--port", cluster_port(), "--format", "json",
            "--bootstrap-server", peer.bootstrap,
            "--peer-kill", node % "kill", "--peer-start", node % "start",
        )  # fmt: skip
        ended = in_process(*words)
        assert {each["status"] for each in peer.read("ps")["nodes"]} == {"running"}
    document = contents(stdout_of(ended))
    assert ended.stderr == ""
    assert set(document) == {"cluster", "peer", "stalls_ms"}
    for rows in (document["cluster"], document["peer"]):
        require_whole(rows)
    for part in ("loops", "commits"):
        for own, other in zip(document["cluster"][part], document["peer"][part], strict=True):
            # A busy machine may get nothing done in one window of a second.
            assert own["per_s"] + other["per_s"] > 0
    assert document["stalls_ms"]["turn"] > 0


def require_whole(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Each part has its rows, and each row its figures."""
    kinds = [(each["clients"], each["kind"]) for each in rows["commits"]]
    assert kinds == [(3, "plain"), (3, "transactional")]
    assert [each["loops"] for each in rows["loops"]] == [2]
    for each in (*rows["loops"], *rows["commits"]):
        assert each["verified"] is True
        if each["per_s"]:
            assert 0 < each["p50_ms"] <= each["p99_ms"]
        else:
            assert (each["p50_ms"], each["p99_ms"]) == (None, None)
    (stable,) = rows["stable"]
    assert stable["members"] == 4
    assert stable["cold_ms"] > 0
    assert stable["leader_killed_ms"] > 0
    assert stable["member_killed_ms"] is not None


def test_a_peer_that_is_not_there_is_an_error_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.bench.group_subjects.PEER_SECONDS_MAX", 0.3)
    result = here(capsys, "bench", "groups", "--bootstrap-server", "127.0.0.1:1", "--dir", tmp_path / "own")
    assert result.status == 1
    assert "0 of 1 brokers" in result.stderr or "no connection" in result.stderr
    assert not (tmp_path / "own").exists()
