"""What time voters tell each other: who jumped alone finds a majority, who jumped together finds none."""

import pytest

from fencepost.quorum.messages import Ack, AppendEntries
from fencepost.quorum.peer_clocks import READ_S, SAID_S_MAX, PeerClocks
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

DAY_MS = 24 * 3_600_000


class Wall:
    """A voter's wall clock. ``agreed``: what majorities said."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.skew_ms = 0
        self.has_jumped = False
        self.agreed: list[int] = []

    def unjumped_ms(self) -> int | None:
        return None if self.has_jumped else self.rig.wall_ms + self.skew_ms

    def agree(self, majority_ms: int) -> None:
        self.agreed.append(majority_ms)

    def jump(self, days: int = 8) -> None:
        self.skew_ms, self.has_jumped = days * DAY_MS, True


def with_clocks(rig: Rig) -> dict[int, Wall]:
    walls = {int(node): Wall(rig) for node in rig.ids}
    for node, wall in walls.items():
        rig[node].firewall.clocks = PeerClocks(len(rig.ids), lambda: rig.now, wall)
    return walls


def beat(rig: Rig) -> None:
    for _ in range(4):
        rig.wait(READ_S)
        rig.settle()


@pytest.mark.parametrize("node", [1, 2, 3], ids=["the-leader", "a-follower", "the-other"])
def test_one_that_jumped_alone_hears_what_a_majority_has(make_rig: MakeRig, node: int) -> None:
    rig = make_rig()
    walls = with_clocks(rig)
    rig.elect(1)
    beat(rig)
    walls[node].jump()
    walls[node].agreed.clear()
    beat(rig)
    assert walls[node].agreed
    assert all(abs(said - rig.wall_ms) < 10_000 for said in walls[node].agreed)


def test_voters_that_jumped_together_are_no_majority(make_rig: MakeRig) -> None:
    rig = make_rig()
    walls = with_clocks(rig)
    rig.elect(1)
    beat(rig)
    for node in (2, 3):
        walls[node].jump()
    beat(rig)
    for wall in walls.values():
        wall.agreed.clear()
    beat(rig)
    assert [wall.agreed for wall in walls.values()] == [[], [], []]


def test_what_a_voter_said_goes_out_of_date(make_rig: MakeRig) -> None:
    rig = make_rig()
    walls = with_clocks(rig)
    clocks = rig[1].firewall.clocks
    assert clocks is not None
    clocks.said(rig.ids[1], rig.wall_ms)
    assert clocks.agreed_ms() == rig.wall_ms
    rig.now += SAID_S_MAX
    assert clocks.agreed_ms() is not None
    rig.now += READ_S
    assert clocks.agreed_ms() is None
    assert walls[1].agreed


def test_nodes_of_before_have_no_say(make_rig: MakeRig) -> None:
    assert AppendEntries(1, 1, 1, 0, []).agreed_ms is None
    assert Ack(1, 2, reset=False, success=True).unjumped_ms is None
    rig = make_rig()
    rig.elect(1)
    walls = {1: Wall(rig)}
    rig[1].firewall.clocks = PeerClocks(3, lambda: rig.now, walls[1])
    beat(rig)
    assert walls[1].agreed == []
