"""Cases of the checks by hand, on the embedded engine: one run over all of them, and each story's own
findings."""

from pathlib import Path

import pytest

from tests.audit.checks.cases import CASES
from tests.audit.checks.judged import NAMES, Rules, expected_of, rules_of, stories
from tests.audit.checks.rows import relations


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Rules]:
    """What is found, of the stories together and of those that make the others' logs unknown."""
    return {apart: _rules(tmp_path_factory.mktemp("engine"), apart=apart) for apart in (False, True)}


def _rules(folder: Path, *, apart: bool) -> Rules:
    from fencepost.audit.engine.embedded import EmbeddedEngine

    engine = EmbeddedEngine(str(folder))
    try:
        return rules_of(relations(engine, stories(apart=apart)))
    finally:
        engine.close()


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_one_fault_is_one_finding(judged: dict[bool, Rules], number: int) -> None:
    _, _, apart = CASES[NAMES[number]]
    assert judged[apart].get(number, []) == expected_of(number)


def test_nothing_is_found_that_is_in_no_story(judged: dict[bool, Rules]) -> None:
    assert set(judged[False]) <= set(range(len(NAMES)))
