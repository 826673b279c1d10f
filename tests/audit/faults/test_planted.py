"""Faults planted by who did not write the checks: each is found once, by the right check, at its place."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.audit.faults import campaign, cluster, engine
from tests.audit.faults.campaign import Case
from tests.audit.faults.cluster import OPEN_MS, unpacked
from tests.audit.faults.groups import GROUPS
from tests.audit.faults.kinds import KINDS, one_of_each
from tests.audit.kafka import fixture

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine

pytestmark = pytest.mark.slow

SOURCES = ("fencepost", "kafka")
WORN = "worn kafka"
KAFKA_HAS_NO = {"diverged replica", "double marker"}  # one node; a marker may be repeated
CASES = [
    pytest.param(source, kind, id=f"{source}, {kind}".replace(" ", "-"))
    for source in SOURCES
    for kind in KINDS
    if source != "kafka" or kind not in KAFKA_HAS_NO
]
SEEDS = (0, 1, 2, 3, 4, 6)  # with 5 two faults together are what a coordinator's log leaves that lost its end
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clean directories: what a cluster of ours left, and what Apache Kafka 4.1 left."""
    home = tmp_path_factory.mktemp("logs")
    return {
        "fencepost": unpacked(home / "fencepost"),
        "kafka": fixture.unpack(home / "kafka"),
        WORN: fixture.unpack(home / "worn", fixture.WORN),
        "groups": unpacked(home / "groups", cluster.GROUPS),
    }


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Engine]":
    """One for all: each audit names its tables anew."""
    from fencepost.audit.engine.embedded import EmbeddedEngine

    made = EmbeddedEngine(str(tmp_path_factory.mktemp("engine")))
    yield made
    made.close()


@pytest.mark.parametrize("source", [*SOURCES, WORN, "groups"])
def test_clean_logs_give_no_finding(source: str, logs: dict[str, Path], embedded: "Engine") -> None:
    found, _ = engine.audit(embedded, logs[source])
    assert not found


@pytest.mark.parametrize("source", SOURCES)
def test_an_open_transaction_is_late_an_hour_later(
    source: str, logs: dict[str, Path], embedded: "Engine"
) -> None:
    found, _ = engine.audit(embedded, logs[source], after_ms=OPEN_MS + HOUR_MS)
    assert [(each["check"], each["rule"], each["transactional_id"]) for each in found] == [
        ("hanging", "open_past_timeout", "left-open")
    ]


@pytest.mark.parametrize(("source", "kind"), CASES)
def test_a_fault_is_found_by_the_right_check_and_no_other(
    source: str, kind: str, logs: dict[str, Path], embedded: "Engine", tmp_path: Path
) -> None:
    variant = next(iter(KINDS[kind]))
    _audited(Case(1, source, faults=((kind, variant),)), logs, embedded, tmp_path)


@pytest.mark.parametrize("number", range(3))
def test_faults_of_all_kinds_at_once_are_found_each_once(
    number: int, logs: dict[str, Path], embedded: "Engine", tmp_path: Path
) -> None:
    _audited(Case(number, "fencepost", faults=tuple(one_of_each(Random(number)))), logs, embedded, tmp_path)


def test_faults_of_groups_are_found_each_once(
    logs: dict[str, Path], embedded: "Engine", tmp_path: Path
) -> None:
    faults = tuple((kind, variant) for kind, variants in GROUPS.items() for variant in variants)
    planted = _audited(Case(2, "groups", faults=faults), logs, embedded, tmp_path)
    assert len(planted.names) == len(GROUPS)


def test_an_offset_of_an_aborted_transaction_is_found_in_kafkas_log(
    logs: dict[str, Path], embedded: "Engine", tmp_path: Path
) -> None:
    _audited(Case(1, "kafka", faults=(("aborted offset", "commit marker"),)), logs, embedded, tmp_path)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("number", SEEDS)
def test_whatever_chance_plants_is_found_and_nothing_else(
    number: int, source: str, logs: dict[str, Path], embedded: "Engine", tmp_path: Path
) -> None:
    _audited(campaign.by_chance(number, source), logs, embedded, tmp_path)


def _audited(case: Case, logs: dict[str, Path], embedded: "Engine", folder: Path) -> campaign.Planted:
    planted = campaign.plant(case, logs[case.source], folder / "copy")
    assert planted is not None, "these logs have no place for it: another seed has"
    found, unknown = engine.audit(embedded, folder / "copy")
    complaints = campaign.complaints(planted, found, unknown)
    assert not complaints, "\n".join([*planted.said, *complaints])
    return planted
