"""``features``: what is asked of the active controller, and how its answer is printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fencepost.cli.features
from fencepost.cli.features import features
from fencepost.cluster.local_cluster import create_cluster
from fencepost.controller.levels import LogLevels, VoterLevel
from fencepost.wire.k20057_log_levels import AskLogLevels
from tests.ports import cluster_port

SAID = LogLevels(
    log_level=0, log_level_max=1, voters=(VoterLevel(1, 1), VoterLevel(2, 0), VoterLevel(3, None))
)
TEXT = """\
LogLevel:     0
LogLevelMax:  1
NodeId  LogLevelMax
1       1
2       0
3       unknown
"""
DOCUMENT = {
    "log_level": 0,
    "log_level_max": 1,
    "voters": [
        {"node_id": 1, "log_level_max": 1},
        {"node_id": 2, "log_level_max": 0},
        {"node_id": 3, "log_level_max": None},
    ],
}

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AskLogLevels]:
    """The requests to an active controller that answers ``SAID``."""
    requests: list[AskLogLevels] = []

    def ask(_target: object, _api: object, request: AskLogLevels) -> Any:
        requests.append(request)
        return SAID

    monkeypatch.setattr(fencepost.cli.features, "ask", ask)
    return requests


@pytest.fixture
def run(tmp_path: Path) -> Run:
    create_cluster(tmp_path / "cluster", 1, cluster_port())

    def call(*words: str) -> tuple[int, str]:
        ended = CliRunner().invoke(features, [*words, "--dir", str(tmp_path / "cluster")])
        return ended.exit_code, ended.output

    return call


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        pytest.param(("describe",), AskLogLevels(), id="describe"),
        pytest.param(("upgrade", "--log-level", "1"), AskLogLevels(1), id="upgrade"),
        pytest.param(("upgrade", "--log-level", "0"), AskLogLevels(0), id="upgrade-to-0"),
    ],
)
def test_what_is_asked_and_printed(
    run: Run, asked: list[AskLogLevels], words: tuple[str, ...], request_: AskLogLevels
) -> None:
    assert run(*words) == (0, TEXT)
    status, printed = run(*words, "--format", "json")
    assert (status, json.loads(printed)) == (0, DOCUMENT)
    assert asked == [request_, request_]


@pytest.mark.parametrize(
    "words",
    [("upgrade",), ("upgrade", "--log-level", "-1"), ("upgrade", "--log-level", "one"), ("downgrade",)],
    ids=" ".join,
)
def test_wrong_usage_asks_nothing(run: Run, asked: list[AskLogLevels], words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2
    assert asked == []
