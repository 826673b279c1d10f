"""Voters and log levels: what is written at which level, and what is above a node stops it."""

import struct
import uuid
from functools import partial
from typing import Any

import msgspec
import pytest

from fencepost.controller import levels, voters
from fencepost.controller.decision import Decision
from fencepost.controller.errors import InvalidRequest
from fencepost.controller.levels import LOG_LEVEL, LogLevels
from fencepost.controller.view import View
from fencepost.quorum.messages import SnapshotBegin
from fencepost.records.batch import iter_batches
from fencepost.records.control import LeaderChange, decode_control
from fencepost.records.entry import LATER_MAGIC
from fencepost.records.levels import LEADER_CHANGE_0, LEVEL_MAX, LevelTooHigh
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import Log, NodeId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.image import image_digest
from tests.quorum.clients import Answers
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.snapshots.test_snapshot_levels import signed

UPGRADE = "upgrade this node"
WIPED = uuid.UUID(int=0x99)


def leader_changes(rig: Rig, node: int) -> list[int]:
    """The versions of the LeaderChanges in a node's archive."""
    rig[node].archiver.write()
    found: list[int] = []
    for file in sorted((rig.root / f"node-{node}" / "archive" / Log.METADATA.directory).glob("*.log")):
        for batch in iter_batches(file.read_bytes()):
            if batch.is_control:
                records = [decode_control(record.key, record.value) for record in batch.records]
                found += [record.version for record in records if isinstance(record, LeaderChange)]
    return found


def raise_to(rig: Rig, node: int, level: int) -> Any:
    """The answer to ``features upgrade``."""
    replica = rig[node]
    return ask(
        rig,
        node,
        lambda view, _now: levels.decide_upgrade(view, level, NodeId(node), replica.highest_levels),
    )


def ask(rig: Rig, node: int, decide: Any) -> Any:
    answers = Answers()
    rig.submit(node, decide, answers)
    rig.settle()
    (answer,) = answers.all
    return answer


def in_force(rig: Rig) -> set[int]:
    return {levels.in_force(replica.image) for replica in rig.replicas.values()}


def digests(rig: Rig) -> set[str]:
    return {image_digest(replica.store) for replica in rig.replicas.values()}


def restart(rig: Rig, node: int, reads: int) -> None:
    """The node's process ends, and another version of the software starts."""
    rig.crash(node)
    rig.reads[node] = reads
    rig.start(node)
    rig.connect(node)


def forced(level: int) -> Any:
    """What ``decide_upgrade`` would refuse."""
    record = FeatureLevelRecord(name=LOG_LEVEL, feature_level=level)
    return lambda _view, _now: Decision((record,), None)


# -- a new cluster -------------------------------------------------------------------------------------------


def test_a_new_cluster_is_at_its_formatted_level_from_the_first_record_on(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(3, log_level_formatted=1)
    rig.campaign(1)
    while not rig[1].proposer.active:
        rig.deliver(1, 2)
        rig.deliver(2, 1)
    assert (leader_changes(rig, 1), in_force(rig)) == ([0], {0})
    rig.crash(1)  # the entry with the features is lost
    rig.elect(2)
    rig.settle()
    assert (leader_changes(rig, 2), in_force(rig)) == ([0, 0], {1})
    rig.start(1)
    rig.connect(1)
    rig.elect(3)
    rig.settle()
    assert [leader_changes(rig, node) for node in (1, 2, 3)] == [[0, 0, 0]] * 3
    assert (in_force(rig), len(digests(rig))) == ({1}, 1)


@pytest.mark.parametrize(
    ("reads", "born"),
    [({}, LEVEL_MAX), ({1: 0}, 0), ({2: 0}, 0), ({3: 0}, 0), ({1: 1}, 1), ({2: 1}, 1)],
    ids=["all-new", "leader-is-old", "follower-is-old", "the-other-is-old", "leader-at-1", "follower-at-1"],
)
def test_without_a_formatted_level_every_voter_has_its_say(
    make_rig: MakeRig, reads: dict[int, int], born: int
) -> None:
    """Directories that were formatted without the voters: they bind each other once all are connected."""
    rig = make_rig(3, initial_voters=False, reads=reads)
    rig.elect(1)
    rig.settle()
    assert in_force(rig) == {born}
    assert leader_changes(rig, 1) == [1 if born < LEADER_CHANGE_0 else 0]


def test_a_lone_voter_is_born_at_the_highest(make_rig: MakeRig) -> None:
    rig = make_rig(1, initial_voters=False)
    rig.elect(1)
    rig.settle()
    assert in_force(rig) == {LEVEL_MAX}


# -- the raise -----------------------------------------------------------------------------------------------


def test_an_old_cluster_stays_as_it_is_until_it_is_raised(make_rig: MakeRig) -> None:
    rig = make_rig(3, reads={3: 0})
    rig.elect(1)
    rig.settle()
    rig.elect(2)
    assert (in_force(rig), leader_changes(rig, 2)) == ({0}, [1, 1])
    refusal = raise_to(rig, 2, 1)
    assert isinstance(refusal, InvalidRequest)
    assert "node 3 reads levels up to 0: upgrade it" in str(refusal)

    rig.crash(3)
    rig.settle()
    refusal = raise_to(rig, 2, 1)
    assert isinstance(refusal, InvalidRequest)
    assert "node 3 is not connected" in str(refusal)
    assert in_force(rig) == {0}

    rig.reads[3] = 1
    rig.start(3)
    rig.connect(3)
    rig.settle()
    answer = raise_to(rig, 2, 1)
    assert isinstance(answer, LogLevels)
    assert (answer.log_level, in_force(rig)) == (1, {1})
    rig.elect(1)
    rig.elect(3)
    rig.settle()
    assert [leader_changes(rig, node) for node in (1, 2, 3)] == [[1, 1, 0, 0]] * 3
    assert len(digests(rig)) == 1


def test_both_versions_are_read_again_after_a_restart(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    rig.settle()
    raise_to(rig, 1, 1)
    rig.elect(2)
    rig.settle()
    assert len(digests(rig)) == 1
    for node in (1, 2, 3):
        rig.crash(node)
    for node in (1, 2, 3):
        rig.start(node)
    rig.connect()
    rig.elect(3)
    rig.settle()
    assert len(digests(rig)) == 1
    assert leader_changes(rig, 3) == [1, 0, 0]
    assert in_force(rig) == {1}


def test_what_is_decided_after_a_raise_is_in_an_entry_of_its_own(make_rig: MakeRig) -> None:
    """Else a node that cannot read the new level would find its bytes beside the record that says so."""
    rig = make_rig(3)
    rig.elect(1)
    rig.settle()
    seen: list[tuple[int, int]] = []

    def look(view: View, _now: int) -> Decision[None]:
        seen.append((view.header.version, levels.in_force(view)))
        return Decision((), None)

    highest = rig[1].highest_levels
    before = rig[1].image.header.version
    rig.submit(1, look, Answers())
    rig.submit(1, lambda view, _now: levels.decide_upgrade(view, 1, NodeId(1), highest), Answers())
    rig.submit(1, look, Answers())
    rig.settle()
    assert seen == [(before, 0), (before + 1, 1)]


def test_who_left_no_longer_says_what_it_reads(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    assert rig[1].highest_levels == {1: LEVEL_MAX, 2: LEVEL_MAX, 3: LEVEL_MAX}
    rig.part(1, 3)
    assert rig[1].highest_levels == {1: LEVEL_MAX, 2: LEVEL_MAX}


def test_a_level_is_one_of_the_image_and_counts_in_its_digest(make_rig: MakeRig) -> None:
    rig = make_rig(1)
    rig.elect(1)
    rig.settle()
    header = rig[1].image.header
    before = image_digest(rig[1].store)
    raise_to(rig, 1, 1)
    rig[1].store.image.header = header
    assert image_digest(rig[1].store) != before


@pytest.mark.parametrize(("reads", "readmitted"), [(0, False), (1, True)], ids=["older", "as-new"])
def test_who_cannot_read_the_level_is_not_readmitted(make_rig: MakeRig, reads: int, readmitted: bool) -> None:
    """A voter that lost its directory is unbound, and has no say in a raise; then it must read the level."""
    rig = make_rig(3)
    rig.elect(1)
    rig.settle()
    rig.crash(3)
    rig.wipe(3, 0x99)
    assert rig[1].proposer.submit_control(partial(voters.decide_bind, node_id=NodeId(3), directory_id=WIPED))
    rig.settle()
    assert isinstance(raise_to(rig, 1, 1), LogLevels)

    rig.met(1, NodeId(3), WIPED, {}, reads)  # it connected before the raise was applied
    rig.join(1, 3)
    for _ in range(3):
        rig[1].firewall.learner_match[NodeId(3)] = rig[1].journal.last_index
        rig.maintenance_tick(1)
        rig.settle(1, 2)
    assert (NodeId(3) in rig[1].electorate.bound()) == readmitted


# -- what is above a node ------------------------------------------------------------------------------------


def test_the_level_record_itself_stops_a_node_that_does_not_read_it(make_rig: MakeRig) -> None:
    """The command does not let it come to that; older software that is put back does."""
    rig = make_rig(3, reads={3: 0})
    rig.elect(1)
    rig.settle()
    before = rig[3].image.header
    with pytest.raises(LevelTooHigh, match=f"node-3 has log level 1, .* up to 0: {UPGRADE}"):
        ask(rig, 1, forced(1))
    rig.crash(3)
    assert rig.start(3).image.header.version <= before.version, "what it could not read is not in its image"
    rig.connect(3)
    with pytest.raises(LevelTooHigh, match=UPGRADE):
        rig.settle()
    restart(rig, 3, reads=1)
    rig.settle()
    assert (in_force(rig), len(digests(rig))) == ({1}, 1)


def test_a_level_above_every_version_stops_the_leader_too(make_rig: MakeRig) -> None:
    rig = make_rig(1)
    rig.elect(1)
    with pytest.raises(LevelTooHigh, match=f"log level {LEVEL_MAX + 1}"):
        ask(rig, 1, forced(LEVEL_MAX + 1))


def test_an_image_above_the_software_is_said_at_the_start(make_rig: MakeRig) -> None:
    rig = make_rig(1, log_level_formatted=1)
    rig.elect(1)
    rig.settle()
    rig.flush(1)
    rig.crash(1)
    rig.reads[1] = 0
    with pytest.raises(LevelTooHigh, match=f"log level 1, this node reads levels up to 0: {UPGRADE}"):
        rig.start(1)


LATER = struct.pack(">BH", LATER_MAGIC, LEVEL_MAX + 1) + b"anything" * 9


def test_a_directory_that_a_later_version_formatted_is_said_at_the_start(make_rig: MakeRig) -> None:
    """Before anything is written at a level that this node only half knows."""
    with pytest.raises(LevelTooHigh, match=f"log level {LEVEL_MAX + 1}.*{UPGRADE}"):
        make_rig(3, log_level_formatted=LEVEL_MAX + 1)


def test_an_entry_of_a_later_layout_stops_who_applies_it(make_rig: MakeRig) -> None:
    rig = make_rig(1)
    rig.elect(1)
    rig[1].raft.propose(LATER)
    with pytest.raises(LevelTooHigh, match=f"an entry of the log has log level {LEVEL_MAX + 1}.*{UPGRADE}"):
        rig.turn(1)


def test_an_entry_of_a_later_layout_stops_who_would_lead_on_it(make_rig: MakeRig) -> None:
    """Its Voters record, if it has one, says whose votes count, applied or not: no vote may be counted."""
    rig = make_rig(3)
    rig.elect(1)
    rig.settle()
    rig[1].raft.propose(LATER)
    rig.step(1)
    for node in (2, 3):
        rig.deliver(1, node)
    rig.crash(1)
    with pytest.raises(LevelTooHigh, match=UPGRADE):
        rig.campaign(2)


def later_manifest(rig: Rig) -> bytes:
    rig[1].snapshotter.take(lambda _told: None)
    rig.maintenance_tick(1)
    rig.work()
    (directory,) = snapshot.listed(rig[1].snapshotter.root)
    return signed(msgspec.json.decode((directory / "manifest").read_bytes()) | {"log_level": LEVEL_MAX + 1})


def test_a_snapshot_of_a_later_level_stops_the_receiver(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    raw = later_manifest(rig)
    with pytest.raises(LevelTooHigh, match=UPGRADE):
        rig.deliver(1, 2, SnapshotBegin(Term(rig[1].raft.term), "any", raw))


def test_a_snapshot_of_a_later_level_is_not_set_aside_at_the_start(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    raw = later_manifest(rig)
    (directory,) = snapshot.listed(rig[1].snapshotter.root)
    (directory / "manifest").write_bytes(raw)
    rig.crash(1)
    with pytest.raises(LevelTooHigh, match=UPGRADE):
        rig.start(1)
    assert snapshot.listed(rig.root / "node-1" / "snapshots") == [directory]
