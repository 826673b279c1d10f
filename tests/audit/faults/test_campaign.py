"""What a campaign of faults by chance calls right: nine of ten that are alone, and everything else."""

import pytest

from tests.audit.faults.campaign import Planted, Tally, Verdict
from tests.audit.faults.fault import Planted as Fault
from tests.audit.faults.kinds import Seeded

_FAULT = Seeded("a kind", "in place", Fault(check="offsets", rules=frozenset({"hole"}), entries=(), said=""))
_ALONE = Planted((_FAULT,), ("said",), ("a kind, in place",))
_SEVERAL = Planted((_FAULT, _FAULT), ("said", "said"), ("a kind", "a kind"))
_HARMLESS = Planted((), ("said",), ("harmless",))
_GOOD = (_ALONE, Verdict.NAMED, False)
_MISSED = (_ALONE, Verdict.MISSED, True)


@pytest.mark.parametrize(
    ("cases", "is_right"),
    [
        pytest.param([_GOOD] * 9 + [_MISSED], True, id="nine-of-ten"),
        pytest.param([_GOOD] * 8 + [_MISSED] * 2, False, id="eight-of-ten"),
        pytest.param([_GOOD, (_SEVERAL, Verdict.NAMED, False)], True, id="several-found"),
        pytest.param([_GOOD, (_SEVERAL, Verdict.OTHERWISE, True)], False, id="one-of-several-missed"),
        pytest.param([_GOOD, (_HARMLESS, Verdict.NAMED, False)], True, id="harmless"),
        pytest.param([_GOOD, (_HARMLESS, Verdict.OTHERWISE, True)], False, id="a-false-finding"),
        pytest.param([], False, id="nothing-was-planted"),
    ],
)
def test_a_campaign_is_right(cases: list[tuple[Planted, Verdict, bool]], is_right: bool) -> None:
    tally = Tally()
    for number, (planted, verdict, is_wrong) in enumerate(cases):
        tally.add(number, planted, verdict, ["not found"] if is_wrong else [])
    assert tally.is_right == is_right
