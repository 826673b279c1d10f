"""Users' SCRAM credentials, and nodes that are killed at every step of a change: it is whole or not there."""

from typing import Final

import pytest

from fencepost.controller import levels, scram
from fencepost.controller.scram_types import (
    AlterScram,
    AlterScramAnswer,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
)
from fencepost.quorum.port import Decide
from fencepost.records.levels import LEVEL_MAX
from fencepost.snapshots.image import image_digest
from tests.quorum.clients import Answers
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

SHA_256: Final = Mechanism.SCRAM_SHA_256
STEPS_MAX: Final = 100
BEFORE: Final = AlterScram(
    (), tuple(ScramUpsertion(each, SHA_256, 4096, b"old", b"old") for each in ("alice", "bob"))
)
CHANGE: Final = AlterScram(
    (ScramDeletion("bob", SHA_256),), (ScramUpsertion("alice", SHA_256, 8192, b"new", b"new"),)
)


def submitted(request: AlterScram) -> Decide[AlterScramAnswer]:
    return lambda view, _now: scram.decide_alter(view, request)


def begun(make_rig: MakeRig) -> tuple[Rig, Answers]:
    """Node 1 leads, two users are there everywhere, and a change is submitted: no turn was taken since."""
    rig = make_rig(3)
    rig.elect(1)
    raised = rig.ask(
        1, lambda view, _now: levels.decide_upgrade(view, LEVEL_MAX, rig.ids[0], rig[1].highest_levels)
    )
    rig.turn(1)
    rig.flow()
    rig.settle()
    there = rig.ask(1, submitted(BEFORE))
    rig.turn(1)
    rig.flow()
    rig.settle()
    assert len(raised.all) == len(there.all) == 1
    return rig, rig.ask(1, submitted(CHANGE))


def advance(rig: Rig) -> None:
    """The next step alone: a frame arrives and its node takes a turn, or the leader does."""
    for (source, target), waiting in sorted(rig.frames.items()):
        if waiting and target in rig.drivers:
            rig.receive(target, source, waiting.pop(0))
            rig.step(target)
            return
    rig.wait(0.02)
    rig.step(1)


def kept(rig: Rig, node: int) -> tuple[int, int]:
    """Iterations of alice and of bob; 0: no credential."""
    found = [scram.find(rig[node].image, user, SHA_256) for user in ("alice", "bob")]
    return tuple(0 if each is None else each.iterations for each in found)  # type: ignore[return-value]


@pytest.mark.parametrize("killed", [(1,), (2,), (1, 2, 3)], ids=["leader", "follower", "all"])
@pytest.mark.row("730.4")
def test_a_change_is_whole_or_not_there_wherever_nodes_are_killed(
    make_rig: MakeRig, killed: tuple[int, ...]
) -> None:
    """What was answered is there afterwards; an unknown outcome is either, and the same on every node."""
    seen = set()
    for steps in range(STEPS_MAX):
        rig, answers = begun(make_rig)
        for _ in range(steps):
            advance(rig)
        answered = [each for each in answers.all if isinstance(each, AlterScramAnswer)]
        for node in killed:
            rig.crash(node)
        for node in killed:
            rig.start(node)
            rig.connect(node)
        if 1 in killed:
            rig.elect(2)
        rig.settle()
        found = {(kept(rig, node), image_digest(rig[node].store)) for node in rig.ids}
        assert len(found) == 1, steps
        ((credentials, _),) = found
        assert credentials == (8192, 0) if answered else credentials in ((4096, 4096), (8192, 0)), steps
        seen.add((credentials, bool(answered)))
        if answered and not any(rig.frames.values()):
            break
    else:
        raise AssertionError("the change was never answered")
    assert ((8192, 0), True) in seen
    if 1 in killed:
        assert ((4096, 4096), False) in seen
        assert ((8192, 0), False) in seen, "committed, and its answer was lost with the leader"
