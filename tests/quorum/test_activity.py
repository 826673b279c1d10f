"""When a node is the active controller: from its LeaderChange until it stops or is deposed."""

from itertools import pairwise
from typing import Any

from fencepost.controller.decision import Decision
from fencepost.controller.view import View
from fencepost.quorum.raft_log import FOLLOWER, LEADER
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig


def test_a_leader_is_active_only_when_its_leader_change_is_applied(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.flow()
    rig.campaign(1)
    rig.deliver(1, 2)
    rig.deliver(2, 1)
    assert (rig[1].raft.role, rig[1].raft.commit_index) == (LEADER, 1)
    assert rig.read(1).codes == ["NotController"]
    rig.deliver(1, 2)  # its no-op
    rig.deliver(2, 1)
    assert rig[1].raft.commit_index == 2
    assert rig.read(1).codes == ["NotController"]
    rig.deliver(1, 2)  # its LeaderChange
    rig.deliver(2, 1)
    assert rig[1].proposer.active
    assert rig[1].image.header.controller_epoch == rig[1].raft.term


def test_a_follower_refuses(three: Rig) -> None:
    assert three.allocate(2).codes == ["NotController"]


def test_a_leader_that_stops_refuses_what_is_new_and_finishes_what_waits(three: Rig) -> None:
    waiting = three.allocate(1)
    assert not three.hand_over(1)
    assert three.allocate(1).codes == ["NotController"]
    three.turn(1)
    three.flow()
    assert waiting.codes == ["[0, 1000)"]


def test_a_stopped_leader_hands_over_to_a_voter_that_has_everything(three: Rig) -> None:
    three.disconnect(2)
    three.allocate(1)
    three.turn(1)
    three.flow()
    assert three.hand_over(1)
    three.turn(1)
    three.flow()
    three.settle(1, 3)
    assert (three[1].raft.role, three[3].raft.role) == (FOLLOWER, LEADER)


def test_time_does_not_jump_within_a_leadership(three: Rig) -> None:
    times: list[int] = []

    def note(_view: View, now_ms: int) -> Decision[Any]:
        times.append(now_ms)
        return Decision((), None)

    for jump_ms in (0, 3_600_000, -7_200_000):
        three.wall_ms += jump_ms
        three.wait(0.1)
        three.ask(1, note)
        three.turn(1)
        three.flow()
    assert [b - a for a, b in pairwise(times)] == [100, 100]
