"""Leadership moves on request: to that voter, with nothing lost, or it stays (Raft thesis 3.10)."""

from typing import Any

import pytest

from fencepost.quorum.succession import YIELD_S_MAX
from fencepost.records.types import NodeId
from tests.quorum.rig import Rig
from tests.together import table


def moved(rig: Rig, to: int | None) -> int:
    """Who leads after leader 1 was to hand over."""
    rig[1].succession.move(None if to is None else NodeId(to))
    for _ in range(4):
        rig.maintenance_tick()
        rig.flow()
        rig.settle()
    (leader,) = [int(node) for node in rig.replicas if rig[node].proposer.active]
    return leader


@table(("to", "leads"), [(2, {2}), (3, {3}), (None, {2, 3})])
def test_that_voter_leads_and_has_what_was_answered(make_rig: Any, to: int | None, leads: set[int]) -> None:
    rig = make_rig(3)
    rig.elect(1)
    rig.register(1)
    waiting = rig.allocate(1)
    new = moved(rig, to)
    assert new in leads
    assert waiting.codes == ["[0, 1000)"], "what waited was done before"
    assert rig.images() == {1: 1000, 2: 1000, 3: 1000}
    later = rig.allocate(new)
    rig.turn(new)
    rig.flow()
    assert later.codes == ["[1000, 2000)"]
    assert not any(rig[node].proposer.stopping for node in rig.replicas)


def move_to_a_laggard(rig: Rig) -> None:
    """Node 3 is connected, but its acknowledgements are lost: it may lack what node 2 has."""
    rig.disconnect(3)
    rig.allocate(1)
    rig[1].connected_peers.add(NodeId(3))
    rig[1].succession.move(NodeId(3))
    rig.turn(1)
    rig.flow()


def test_who_lags_does_not_lead_and_no_other_does_in_its_place(three: Rig) -> None:
    move_to_a_laggard(three)
    three.maintain(1)
    three.turn(1)
    three.flow()
    assert three[1].proposer.stopping
    assert three[1].raft.is_leader, "node 2 has the whole log, and was not named"
    assert three.allocate(1).codes == ["NotController"], "clients come again"
    three.wait(YIELD_S_MAX)
    three.maintain(1)
    assert three[1].proposer.active
    waiting = three.allocate(1)
    three.turn(1)
    three.flow()
    assert waiting.codes == ["[1000, 2000)"], "it leads on"


def test_a_violation_takes_any_voter_whichever_was_named_before(three: Rig) -> None:
    move_to_a_laggard(three)
    three[1].proposer.violated = True
    three.maintain(1)
    three.turn(1)
    three.flow()
    assert three[2].raft.is_leader


def test_a_clean_stop_in_the_middle_takes_any_voter(three: Rig) -> None:
    move_to_a_laggard(three)
    assert three.hand_over(1), "node 2 has the whole log"


def test_who_could_lead(three: Rig) -> None:
    assert three[1].succession.successors == [2, 3]
    three.disconnect(2)
    assert three[1].succession.successors == [3]
    three[1].electorate.directories.pop(NodeId(3))
    assert three[1].succession.successors == []


@pytest.mark.parametrize("to", [1, None])
def test_a_leader_without_peers_stays(make_rig: Any, to: int | None) -> None:
    rig = make_rig(1)
    rig.elect(1)
    rig[1].succession.move(to)
    rig.maintain(1)
    rig.wait(YIELD_S_MAX)
    rig.maintain(1)
    assert rig[1].proposer.active
    assert not rig[1].proposer.stopping
