"""Some cases of the sweep, of every structure that has many; ``make sweep`` plays them all."""

import pytest

from tests.simulation.sweep import ROLES, STATES, Outcome, Sweep

pytestmark = pytest.mark.slow

CASES = 40


def test_a_changed_byte_is_named_or_nothing_is_left_of_it() -> None:
    sweep = Sweep(0)
    try:
        cases = sweep.cases[7 :: len(sweep.cases) // CASES | 1]  # odd: of each role and state
        assert {(case.role, case.state) for case in cases} == {
            (role, state) for role in ROLES for state in STATES
        }
        outcomes: list[Outcome] = [sweep.play(case) for case in cases]
    finally:
        sweep.close()
    failed = [(str(case), each.failure) for case, each in zip(cases, outcomes, strict=True) if each.failure]
    assert not failed
    assert {each.kind for each in outcomes} == {"nothing", "by itself", "by command"}
