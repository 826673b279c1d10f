"""Voters in tests are driven by node/driver.py, and by nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.node.driver import Driver
from fencepost.quorum.replica import Replica
from tests.node.conftest import MakeStage
from tests.one_driver import DRIVEN

TESTS: Final = Path(__file__).parents[1]
WORLDS: Final = {
    "quorum/voters.py",  # every frame and every turn is moved by a script
    "node/stage.py",  # every obligation is carried out by a test, one by one
    "simulation/starting.py",  # a process under virtual time
}
"""The test code that carries out a driver's obligations."""


def makers(name: str) -> Iterator[str]:
    """The test files that call a class of this name."""
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text()
        if name not in source:
            continue
        calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
        if any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls):
            yield str(path.relative_to(TESTS))


def test_drivers_are_made_by_the_worlds_and_no_replica_is_made_by_a_test() -> None:
    assert set(makers(Driver.__name__)) == WORLDS
    assert not list(makers(Replica.__name__))


@pytest.mark.parametrize(("owner", "name"), DRIVEN, ids=lambda each: getattr(each, "__name__", each))
def test_a_test_that_drives_a_voter_itself_is_refused(make_stage: MakeStage, owner: type, name: str) -> None:
    replica = make_stage()[1].replica
    target: Any = replica if owner is Replica else replica.proposer
    with pytest.raises(AssertionError, match="expected an event of the driver"):
        getattr(target, name)()
