"""ACLs, users and settings of brokers: a change is whole or not there, wherever nodes are killed."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from fencepost.controller import acls, broker_configs, levels, scram
from fencepost.controller.acl_types import Acl, CreateAcls, Operation, PatternType, Permission, ResourceType
from fencepost.controller.config_changes import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
    decide_alter,
    require_count,
)
from fencepost.controller.scram_types import (
    AlterScram,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
)
from fencepost.controller.view import View
from fencepost.quorum.port import Decide
from fencepost.records.levels import LEVEL_MAX
from fencepost.snapshots.image import image_digest
from tests.quorum.clients import Answers
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

SHA_256: Final = Mechanism.SCRAM_SHA_256
STEPS_MAX: Final = 100
LEADERS_TURNS: Final = 3
FIRST, SECOND = (
    Acl(ResourceType.TOPIC, PatternType.LITERAL, name, "User:alice", "*", Operation.READ, Permission.ALLOW)
    for name in ("orders", "bills")
)


class Change(NamedTuple):
    """``kept``: what an image has of it, which is ``old`` before and ``new`` afterwards."""

    before: Decide[Any]
    change: Decide[Any]
    kept: Callable[[View], tuple[int, ...]]
    old: tuple[int, ...]
    new: tuple[int, ...]


def altered(*changes: ScramUpsertion | ScramDeletion) -> Decide[Any]:
    request = AlterScram(
        tuple(each for each in changes if isinstance(each, ScramDeletion)),
        tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )
    return lambda view, _now: scram.decide_alter(view, request)


def user(name: str, iterations: int) -> ScramUpsertion:
    return ScramUpsertion(name, SHA_256, iterations, b"salt", b"salted")


def iterations_of(view: View) -> tuple[int, ...]:
    """Of alice and of bob; 0: no credential."""
    found = [scram.find(view, name, SHA_256) for name in ("alice", "bob")]
    return tuple(0 if each is None else each.iterations for each in found)


def configured(*changes: tuple[str, str | None]) -> Decide[Any]:
    """All brokers; no value: the setting is removed."""
    operations = (
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in changes
    )
    whose = ResourceChanges(broker_configs.BROKER_RESOURCE, broker_configs.ALL_BROKERS, tuple(operations))
    request = AlterConfigs((whose,))
    return lambda view, _now: decide_alter(view, request, require_count(request))


def settings_of_brokers(view: View) -> tuple[int, ...]:
    """What is set of two settings; 0: nothing is."""
    found = dict(broker_configs.find(view, broker_configs.ALL_BROKERS))
    return tuple(int(found.get(name, 0)) for name in ("log.retention.ms", "log.segment.bytes"))


def granted(*wanted: Acl) -> Decide[Any]:
    return lambda view, _now: acls.decide_create(view, CreateAcls(wanted))


def revoked(*wanted: Acl) -> Decide[Any]:
    return lambda view, _now: acls.decide_delete(view, (tuple(each.acl_id for each in wanted),))


def there(view: View) -> tuple[int, ...]:
    return tuple(int(acls.find(view, each.acl_id) is not None) for each in (FIRST, SECOND))


CHANGES: Final = {
    "users": Change(
        altered(user("alice", 4096), user("bob", 4096)),
        altered(ScramDeletion("bob", SHA_256), user("alice", 8192)),
        iterations_of,
        (4096, 4096),
        (8192, 0),
    ),
    "settings": Change(
        configured(("log.retention.ms", "5"), ("log.segment.bytes", "99")),
        configured(("log.retention.ms", "7"), ("log.segment.bytes", None)),
        settings_of_brokers,
        (5, 99),
        (7, 0),
    ),
    "grant": Change(revoked(), granted(FIRST, SECOND), there, (0, 0), (1, 1)),
    "revoke": Change(granted(FIRST, SECOND), revoked(FIRST, SECOND), there, (1, 1), (0, 0)),
}


def begun(make_rig: MakeRig, change: Change) -> tuple[Rig, Answers]:
    """Node 1 leads, what was before is there everywhere, a change is submitted: no turn was taken since."""
    rig = make_rig(3)
    rig.elect(1)
    raised = rig.ask(
        1, lambda view, _now: levels.decide_upgrade(view, LEVEL_MAX, rig.ids[0], rig[1].highest_levels)
    )
    rig.turn(1)
    rig.flow()
    rig.settle()
    before = rig.ask(1, change.before)
    rig.turn(1)
    rig.flow()
    rig.settle()
    assert len(raised.all) == len(before.all) == 1
    return rig, rig.ask(1, change.change)


def advance(rig: Rig, step: int) -> None:
    """The next step alone: a frame arrives and its node takes a turn, or the leader does.

    The leader takes its first turns while nothing arrives: what it proposed is on its own disk alone.
    """
    for (source, target), waiting in sorted(rig.frames.items()):
        if waiting and target in rig.drivers and step >= LEADERS_TURNS:
            rig.receive(target, source, waiting.pop(0))
            rig.step(target)
            return
    rig.wait(0.02)
    rig.step(1)


@pytest.mark.parametrize(
    ("kind", "killed"),
    [
        pytest.param("users", (1,), id="users-and-the-leader"),
        pytest.param("users", (1, 2, 3), id="users-and-all"),
        pytest.param("settings", (1,), id="settings-and-the-leader"),
        pytest.param("grant", (1,), id="grant-and-the-leader"),
        pytest.param("revoke", (1, 2, 3), id="revoke-and-all"),
    ],
)
@pytest.mark.row("730.4")
def test_a_change_is_whole_or_not_there_wherever_nodes_are_killed(
    make_rig: MakeRig, kind: str, killed: tuple[int, ...]
) -> None:
    """What was answered is there afterwards; an unknown outcome is either, and the same on every node."""
    change = CHANGES[kind]
    seen = set()
    for steps in range(STEPS_MAX):
        rig, answers = begun(make_rig, change)
        for step in range(steps):
            advance(rig, step)
        answered = [each for each in answers.all if not isinstance(each, Exception)]
        for node in killed:
            rig.crash(node)
        for node in killed:
            rig.start(node)
            rig.connect(node)
        if 1 in killed:
            rig.elect(2)
        rig.settle()
        found = {(change.kept(rig[node].image), image_digest(rig[node].store)) for node in rig.ids}
        assert len(found) == 1, steps
        ((kept, _),) = found
        assert kept == change.new if answered else kept in (change.old, change.new), steps
        seen.add((kept, bool(answered)))
        if answered and not any(rig.frames.values()):
            break
    else:
        raise AssertionError("the change was never answered")
    assert (change.new, True) in seen
    if 1 in killed:
        assert (change.old, False) in seen
        assert (change.new, False) in seen, "committed, and its answer was lost with the leader"
