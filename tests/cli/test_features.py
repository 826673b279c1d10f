"""``features``: what is asked of the active controller, and how its answer is printed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fencepost.cli.features
from fencepost.cli.features import features
from fencepost.cluster.local_cluster import create_cluster
from fencepost.controller.feature_updates import Direction, FeatureUpdate, UpdateFeatures
from fencepost.controller.features import TRANSACTION_VERSION
from fencepost.controller.levels import LogLevels, VoterLevel
from fencepost.wire.connection import SOFTWARE
from fencepost.wire.dispatch import Api
from fencepost.wire.k18_api_versions import (
    API_VERSIONS,
    ApiVersionsAnswer,
    Features,
    FinalizedFeature,
    SupportedFeature,
)
from fencepost.wire.k20057_log_levels import AskLogLevels
from tests.harness.command import contents
from tests.ports import cluster_port

SAID = LogLevels(
    log_level=0, log_level_max=1, voters=(VoterLevel(1, 1), VoterLevel(2, 0), VoterLevel(3, None))
)
FEATURES = Features(
    (SupportedFeature("metadata.version", 25, 25), SupportedFeature("transaction.version", 0, 2)),
    (FinalizedFeature("metadata.version", 25),),
    7,
)
TEXT = """\
Feature              SupportedMinVersion  SupportedMaxVersion  FinalizedVersionLevel
metadata.version     25                   25                   25
transaction.version  0                    2                    0
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
    "features": [
        {
            "feature": "metadata.version",
            "supported_min_version": 25,
            "supported_max_version": 25,
            "finalized_version_level": 25,
        },
        {
            "feature": "transaction.version",
            "supported_min_version": 0,
            "supported_max_version": 2,
            "finalized_version_level": 0,
        },
    ],
}

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests that change something, to a controller that answers ``SAID`` and ``FEATURES``."""
    requests: list[Any] = []

    def ask(_target: object, api: Api[Any, Any], request: Any) -> Any:
        if request not in (AskLogLevels(), SOFTWARE):
            requests.append(request)
        return ApiVersionsAnswer((), FEATURES) if api is API_VERSIONS else SAID

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
        pytest.param(("describe",), [], id="describe"),
        pytest.param(("upgrade", "--log-level", "1"), [AskLogLevels(1)], id="upgrade"),
        pytest.param(("upgrade", "--log-level", "0"), [AskLogLevels(0)], id="upgrade-to-0"),
        pytest.param(
            ("upgrade", "--log-level", "3", "--feature", "transaction.version=2"),
            [AskLogLevels(3), UpdateFeatures((FeatureUpdate(TRANSACTION_VERSION, 2),))],
            id="upgrade-a-feature",
        ),
        pytest.param(
            ("downgrade", "--feature", "transaction.version=0", "--dry-run"),
            [UpdateFeatures((FeatureUpdate(TRANSACTION_VERSION, 0, Direction.SAFE_DOWNGRADE),), True)],
            id="downgrade",
        ),
        pytest.param(
            ("downgrade", "--unsafe", "--feature", "a=1", "--feature", "b=0"),
            [
                UpdateFeatures(
                    (
                        FeatureUpdate("a", 1, Direction.UNSAFE_DOWNGRADE),
                        FeatureUpdate("b", 0, Direction.UNSAFE_DOWNGRADE),
                    )
                )
            ],
            id="downgrade-two",
        ),
    ],
)
def test_what_is_asked_and_printed(
    run: Run, asked: list[Any], words: tuple[str, ...], request_: list[Any]
) -> None:
    assert run(*words) == (0, TEXT)
    status, printed = run(*words, "--format", "json")
    assert (status, contents(printed)) == (0, DOCUMENT)
    assert asked == [*request_, *request_]


@pytest.mark.parametrize(
    "words",
    [
        ("upgrade",),
        ("upgrade", "--log-level", "-1"),
        ("upgrade", "--log-level", "one"),
        ("upgrade", "--log-level", "3", "--dry-run"),
        ("upgrade", "--feature", "transaction.version"),
        ("upgrade", "--feature", "transaction.version=-1"),
        ("upgrade", "--feature", "=2"),
        ("upgrade", "--feature", "transaction.version=40000"),
        ("downgrade",),
    ],
    ids=" ".join,
)
def test_wrong_usage_asks_nothing(run: Run, asked: list[Any], words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2
    assert asked == []
