"""The benches on real clusters: their documents, their histories counted otherwise, and what they leave."""

import contextlib
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fencepost.bench.failover import _have_caught_up
from fencepost.cli.images import newest_image
from fencepost.cluster.local_cluster import open_cluster
from fencepost.cluster.target import Target
from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import NotController
from fencepost.records.types import NodeId, Offset
from fencepost.settings.config import Address
from fencepost.snapshots.history import Allocation, producer_id_history
from fencepost.wire.client import RequestTimeout
from fencepost.wire.k55_describe_quorum import DescribeQuorumAnswer, QuorumPartition, ReplicaState
from tests.harness.command import TIMEOUT_S, command, environment, here, in_process_json
from tests.harness.nodes import running
from tests.ports import cluster_port

SECONDS = 0.5  # of each row
CORES = {"load", "node-1", "node-2", "node-3"}


def read(history: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in history.read_text().splitlines()]


def duplicate_ids(attempts: list[dict[str, Any]]) -> int:
    """How many ids were given out more than once, one by one."""
    ids = [
        each
        for attempt in attempts
        if attempt["outcome"] == "ok"
        for each in range(attempt["start"], attempt["start"] + attempt["len"])
    ]
    return len(ids) - len(set(ids))


@pytest.mark.slow
@pytest.mark.row("730.1")
def test_allocate_measures_each_row_and_what_to_hold_it_against(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    document = in_process_json(
        "bench", "allocate", "--clients", "1,4", "--seconds", SECONDS, "--port", cluster_port(),
        "--history", history,
    )  # fmt: skip
    assert set(document) == {"rows", "baseline"}
    assert set(document["baseline"]) == {"lmdb_commits_per_s", "pysyncobj_stock_per_s"}
    assert min(document["baseline"].values()) > 0
    assert [row["clients"] for row in document["rows"]] == [1, 4]
    for row in document["rows"]:
        assert set(row) == {"clients", "blocks_per_s", "p50_ms", "p99_ms", "duplicates", "cores"}
        assert row["blocks_per_s"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["duplicates"] == 0
        assert set(row["cores"]) == CORES
    attempts = read(history)
    granted = [attempt for attempt in attempts if attempt["outcome"] == "ok"]
    measured = sum(row["blocks_per_s"] for row in document["rows"]) * SECONDS
    assert len(granted) >= measured * 0.9  # and the warm-up
    assert duplicate_ids(attempts) == 0
    assert {attempt["len"] for attempt in granted} == {1000}


@pytest.mark.slow
def test_allocate_loads_a_cluster_that_runs_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as nodes:
        controllers = ",".join(
            "{}:{}".format(*nodes.address(each, "controller")) for each in nodes.node_ids[:2]
        )
        where = ("--bootstrap-controller", controllers)
        document = in_process_json("bench", "allocate", "--clients", 2, "--seconds", 0.5, *where)
        (row,) = document["rows"]
        assert row["duplicates"] == 0
        assert set(row["cores"]) == {"load"}
        assert {node["status"] for node in nodes.read("ps")["nodes"]} == {"running"}
    _, registered = newest_image(
        nodes.cluster, lambda reader: {broker_id for broker_id, _ in reader.items(BROKERS)}
    )
    assert registered == {1, 2, 3}  # the guest has left


@pytest.mark.slow
@pytest.mark.row("card.4")
@pytest.mark.parametrize("signal_name", ["KILL", "STOP"])
def test_failover_kills_leaders_and_nobody_was_lied_to(tmp_path: Path, signal_name: str) -> None:
    history, directory = tmp_path / "history.jsonl", tmp_path / "cluster"
    document = in_process_json(
        "bench", "failover", "--kills", 2, "--signal", signal_name, "--clients", 4, "--port", cluster_port(),
        "--history", history, "--dir", directory,
    )  # fmt: skip
    assert {key: document[key] for key in ("duplicates", "refused_but_done", "granted_but_missing")} == {
        "duplicates": 0, "refused_but_done": 0, "granted_but_missing": 0,
    }  # fmt: skip
    assert len(document["kills"]) == 2
    gaps = sorted(kill["gap_ms"] for kill in document["kills"])
    assert (document["p50_ms"], document["p90_ms"]) == (gaps[0], gaps[1])
    assert {kill["node"] for kill in document["kills"]} <= {1, 2, 3}
    attempts = read(history)
    assert duplicate_ids(attempts) == 0
    kept = {
        (item.broker_id, item.first, item.end)
        for item in producer_id_history([node.config.directory for node in open_cluster(directory).nodes])
        if isinstance(item, Allocation)
    }
    told = {
        (1_000_000_000 + attempt["client"], attempt["start"], attempt["start"] + attempt["len"])
        for attempt in attempts
        if attempt["outcome"] == "ok"
    }
    unknown = [attempt for attempt in attempts if attempt["outcome"] == "unknown"]
    assert told <= kept
    assert len([block for block in kept - told if block[0] >= 1_000_000_000]) <= len(unknown)
    assert unknown  # somebody waited when the leader went
    assert {node.status() for node in open_cluster(directory).nodes} == {"down"}


@pytest.mark.slow
def test_an_interrupted_bench_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    arguments = ("bench", "failover", "--kills", 100, "--port", cluster_port(), "--dir", directory)
    history = tmp_path / "history.jsonl"
    with subprocess.Popen(
        [*command(*arguments), "--history", str(history)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment(), "TMPDIR": str(tmp_path)},
    ) as running:
        try:
            while running.poll() is None and not (history.exists() and history.stat().st_size):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(0.05)  # until the first round is over
            running.send_signal(signal.SIGTERM)
            output, _ = running.communicate(timeout=TIMEOUT_S)
        finally:
            running.kill()
    assert running.returncode == 130, output
    assert {node.status() for node in open_cluster(directory).nodes} == {"down"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cluster", "history.jsonl"]


@pytest.mark.parametrize("kind", [NotController, RequestTimeout])
def test_a_bench_waits_for_health_while_no_controller_says_it(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def voters(*caught_up_ms: int) -> DescribeQuorumAnswer:
        rows = tuple(
            ReplicaState(NodeId(1 + index), Offset(5), last_caught_up_timestamp=ms)
            for index, ms in enumerate(caught_up_ms)
        )
        return DescribeQuorumAnswer.of(QuorumPartition(current_voters=rows))

    outcomes: list[DescribeQuorumAnswer | Exception] = [kind("x"), voters(10, 9), voters(), voters(10, 11)]

    async def call(_client: object, *_request: object, timeout_s: float) -> DescribeQuorumAnswer:
        del timeout_s
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("fencepost.wire.client.ControllerClient.call", call)
    target = Target((Address("127.0.0.1", 1),))
    assert [_have_caught_up(target, 10) for _ in range(4)] == [False, False, False, True]


USAGE = [
    pytest.param(("allocate", "--clients", "0"), 2, "from 1 to", id="no-client"),
    pytest.param(("allocate", "--clients", "8,many"), 2, "expected N", id="not-a-number"),
    pytest.param(("allocate", "--clients", "4097"), 2, "from 1 to 4096", id="one-past-the-most"),
    pytest.param(("allocate", "--seconds", "0"), 2, "--seconds", id="no-time"),
    pytest.param(("failover", "--kills", "0"), 2, "--kills", id="no-kill"),
    pytest.param(("failover", "--nodes", "2"), 2, "3 or more", id="nobody-would-be-left"),
    pytest.param(("failover", "--signal", "TERM"), 2, "--signal", id="a-signal-that-is-no-failure"),
    pytest.param(
        ("allocate", "--bootstrap-controller", "127.0.0.1:1", "--dir", "x"), 2, "for a new one",
        id="a-new-cluster-and-a-running-one",
    ),
    pytest.param(("allocate", "--history", "/nowhere/at/all"), 2, "--history", id="history-nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "status", "words"), USAGE)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, words: str
) -> None:
    result = here(capsys, "bench", *arguments)
    assert result.status == status
    assert words in result.stderr


@pytest.mark.parametrize("bench", ["allocate", "failover"])
def test_a_folder_that_holds_a_cluster_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bench: str
) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    result = here(capsys, "bench", bench, "--dir", tmp_path)
    assert result.status == 2
    assert "choose another --dir" in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.json"]
