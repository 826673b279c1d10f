"""A clean stop: the driver hands leadership over, and says when its process may end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.controller.errors import NotController
from fencepost.node.driver import HAND_OVER_S, End
from fencepost.quorum.raft_log import FOLLOWER
from tests.node.stage import ONE, THREE, TWO, Stage, kinds


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Stage]:
    """Three voters; node 1 is active, and nothing is on its way."""
    stage = Stage(tmp_path, 3)
    stage.elect()
    yield stage
    stage.close()


def test_a_leader_hands_over_and_then_may_end(three: Stage) -> None:
    """Its followers hold the whole log, so the first of them is asked at once, and campaigns."""
    driver = three[1]
    assert kinds(three.carry_out(1, driver.hand_over())) == ["Turn"]
    assert kinds(three.turn(1))[0] == "TimeoutNow"
    assert driver.handed_over
    assert three.submit(1).all == [NotController]
    while three.ended == []:
        three.step()
    assert three.ended == [ONE]
    assert driver.replica.raft.role == FOLLOWER
    three.rest()
    assert three.ended == [ONE], "once"


def test_each_tick_of_a_clean_stop_asks_again_until_a_voter_is_ready(three: Stage) -> None:
    driver = three[1]
    waiting = three.submit(1)
    three.turn(1)
    three.carry_out(1, driver.hand_over())
    assert not driver.handed_over, "its entry is in flight"
    three.rest()
    assert (waiting.all, driver.handed_over) == (["done"], False)
    three.tick(1)
    assert driver.handed_over


def test_a_clean_stop_of_a_leader_that_no_voter_relieves_ends_in_time(three: Stage) -> None:
    driver = three[1]
    for peer in (TWO, THREE):
        three.carry_out(1, driver.disconnected(peer))
    three.carry_out(1, driver.hand_over())
    three.now += HAND_OVER_S - 0.001
    assert End() not in three.tick(1)
    three.now += 0.002
    assert End() in three.tick(1)
    assert not driver.handed_over


@pytest.mark.parametrize("node", [ONE, TWO], ids=["the-only-voter", "a-follower"])
def test_who_has_nothing_to_hand_over_may_end_at_once(tmp_path: Path, node: int) -> None:
    stage = Stage(tmp_path, 1 if node == ONE else 3)
    stage.elect()
    assert End() in stage[node].hand_over()
    stage.close()
