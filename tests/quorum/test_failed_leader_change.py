"""A leader whose control record cannot be made resigns; what it proposed before is answered once."""

from typing import Never

import pytest

from fencepost.controller.view import View
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


def test_what_waits_behind_one_is_refused(three: Rig) -> None:
    """Voters cannot be written: its leader resigns, and what waits is not proposed before."""
    three.elect(1)
    three.register(1)
    last = three.commands(1)[-1]

    def fails(_view: View) -> Never:
        raise ZeroDivisionError

    assert three[1].proposer.submit_control(fails)
    answers = three.allocate(1)
    three.turn(1)
    three.turn(1)
    assert not three[1].raft.is_leader
    assert answers.codes == ["NotController"]
    assert three.commands(1)[-1] == last
