"""A leader whose LeaderChange cannot be made resigns, and what it proposed before is answered once."""

import pytest

from fencepost.records.types import Term
from tests.quorum.rig import Rig


def test_a_proposal_of_before_is_answered_once(three: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads again, cannot begin its leader epoch, and another leader's entry takes its place."""
    answers = three.allocate(1)
    three.turn(1)
    proposer = three[1].proposer
    proposer._led_term = Term(0)
    monkeypatch.setattr(proposer, "_leader_change", lambda _view: 1 // 0)
    proposer.own_no_op_applied()
    assert proposer.must_resign
    three.disconnect(1)
    three.elect(2, 3)
    three.connect(1)
    three.settle()
    assert answers.codes == ["NotController"]
