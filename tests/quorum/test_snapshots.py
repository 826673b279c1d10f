"""Snapshots of running voters: taken, compacted after, sent, verified, installed, refused by name (H5-H8)."""

import shutil

import pytest

import fencepost.quorum.snapshot_receiver
import fencepost.quorum.snapshotter
from fencepost.quorum.messages import Ack, SnapshotAck, SnapshotBegin, SnapshotChunk
from fencepost.records.types import NodeId
from fencepost.snapshots import snapshot
from fencepost.snapshots.image import image_digest
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.transfers import INTERVAL, advance, begun, catch_up, installing, snapshots_of

pytestmark = pytest.mark.usefixtures("small")


# -- taking ---------------------------------------------------------------


def test_a_snapshot_is_taken_when_enough_was_applied_and_the_journal_forgets_what_it_holds(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(3, snapshot_entries=INTERVAL + 1)
    rig.elect(1)
    rig.register(1)
    rig.maintenance_tick(1)
    assert not rig.jobs
    advance(rig, 1, INTERVAL)
    applied = rig[1].applied[0]
    rig.maintenance_tick(1)
    assert rig[1].journal.first_index == 1, "not before it is on disk"
    rig.work()
    assert rig[1].journal.first_index == applied
    assert len(snapshots_of(rig[1])) == 1


def test_the_journal_keeps_what_the_archive_does_not_have_on_disk(make_rig: MakeRig) -> None:
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, INTERVAL)
    asked = rig[1].applied[0]
    rig.maintenance_tick(1)
    advance(rig, 1, 3)  # applied while the background works: in the snapshot, not in the synced archive
    rig.flush(1)
    rig.work()
    assert rig[1].archiver.marked_index == asked
    assert rig[1].journal.first_index == asked


def test_the_journal_keeps_a_tail_for_those_who_are_a_little_behind(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 3)
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, INTERVAL)
    rig.maintenance_tick(1)
    rig.work()
    assert rig[1].journal.first_index == rig[1].journal.last_index - 3


def test_a_snapshot_that_cannot_be_written_changes_nothing(make_rig: MakeRig) -> None:
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, INTERVAL)
    rig.maintenance_tick(1)
    rig.work(OSError("no space"))
    assert rig[1].journal.first_index == 1
    for _ in range(3):
        rig.maintenance_tick(1)
        assert not rig.jobs, "a full disk is full for a while, and said once"
    rig.now += fencepost.quorum.snapshotter.AGAIN_S
    rig.maintenance_tick(1)
    rig.work()
    assert rig[1].journal.first_index > 1


def test_a_full_disk_is_not_written_to_over_and_over_for_a_follower(behind: Rig) -> None:
    """It wants a snapshot with each heartbeat. An operator's word is obeyed at once."""
    for directory in snapshots_of(behind[1]):
        shutil.rmtree(directory)
    tries = 0
    for _ in range(10):
        behind.heartbeat()
        behind.flow()
        behind.maintenance_tick(1)
        tries += len(behind.jobs)
        behind.work(OSError("no space"))
    assert tries == 1
    behind[1].snapshotter.take(lambda _: None)
    behind.maintenance_tick(1)
    assert behind.jobs
    behind.work(OSError("no space"))
    behind.now += fencepost.quorum.snapshotter.WANTED_AGAIN_S
    behind.heartbeat()
    behind.flow()
    behind.maintenance_tick(1)
    behind.work()
    catch_up(behind)


# -- sending and installing ---------------------------------------------------------------


def test_a_follower_that_fell_behind_catches_up_by_snapshot(behind: Rig) -> None:
    catch_up(behind)
    assert image_digest(behind[3].store) == image_digest(behind[1].store)
    assert behind[3].journal.first_index > 1
    holes = behind[3].archiver.archives[next(iter(behind[3].archiver.archives))].holes()
    assert len(holes) == 1, "what the snapshot skipped is named"


def test_nothing_is_left_of_the_image_before(behind: Rig) -> None:
    catch_up(behind)
    for _ in range(20):
        behind.maintain(3)
    behind.flush(3)
    stores = [behind[node].store for node in (1, 3)]
    behind.flush(1)
    rows = [store.txn.stat(store.image_db)["entries"] for store in stores]
    assert rows[0] == rows[1] > 0


def test_it_goes_on_with_the_log_after_it(behind: Rig) -> None:
    catch_up(behind)
    advance(behind, 1, 2)
    behind.settle()
    assert behind[3].applied == behind[1].applied
    behind.crash(2)
    answers = behind.allocate(1)
    behind.turn(1)
    behind.flow()
    assert answers.all, "and counts again"


def test_duplicates_and_chunks_out_of_order_are_ignored(behind: Rig) -> None:
    begun(behind)
    first = behind.take(1, 3, SnapshotChunk)
    behind.deliver(1, 3, first)
    behind.deliver(1, 3, first)
    later = SnapshotChunk(first.term, first.name, first.file, first.position + 100_000, b"?")
    behind.deliver(1, 3, later)
    catch_up(behind)


def test_a_chunk_that_comes_after_the_whole_snapshot_is_ignored(behind: Rig) -> None:
    installing(behind)
    (directory,) = snapshots_of(behind[3])
    for file, (size, _) in snapshot.decode_manifest((directory / "manifest").read_bytes(), "").files.items():
        behind.deliver(1, 3, SnapshotChunk(behind[1].raft.term, directory.name, file, size, b""))
    catch_up(behind)
    assert image_digest(behind[3].store) == image_digest(behind[1].store)


def test_a_lost_chunk_is_sent_again_after_a_while(behind: Rig) -> None:
    begun(behind)
    behind.take(1, 3, SnapshotChunk)
    behind.frames.clear()
    behind.wait(fencepost.quorum.snapshotter.CHUNK_WAIT_S + 1)
    catch_up(behind)


def test_a_connection_that_closes_in_the_middle_starts_it_anew(behind: Rig) -> None:
    begun(behind)
    behind.disconnect(3)
    behind.connect(3)
    catch_up(behind)


def test_a_leader_that_changes_in_the_middle_starts_it_anew(behind: Rig) -> None:
    begun(behind)
    behind.maintenance_tick(2)
    behind.work()
    behind.elect(2, 1)
    catch_up(behind)
    assert image_digest(behind[3].store) == image_digest(behind[2].store)


def test_a_snapshot_that_another_one_replaces_in_the_middle_is_not_sent_for_ever(behind: Rig) -> None:
    """Of the same name, but shorter: its end never came, and the journal was kept for it (storm 36)."""
    begun(behind)
    directory = behind[1].snapshotter._transfers[NodeId(3)].directory
    for file in directory.iterdir():
        if file.name != "manifest":
            file.write_bytes(file.read_bytes()[:100])
    behind[1].snapshotter.take(lambda _taken: None)
    for _ in range(20):
        behind.deliver(1, 3)
        behind.deliver(3, 1)
        if not behind[1].snapshotter._transfers:
            break
    else:
        raise AssertionError("it goes on and on")
    behind.maintenance_tick(1)
    behind.work()
    catch_up(behind)


def test_a_node_may_take_a_snapshot_of_its_own_in_the_middle(behind: Rig) -> None:
    """Its tidying up took away the directory that the transfer was writing to (simulation seed 16)."""
    begun(behind)
    behind.deliver(1, 3)
    behind[3].snapshotter.take(lambda _taken: None)
    behind.maintenance_tick(3)
    behind.work()
    catch_up(behind)


def test_h5_a_snapshot_older_than_the_image_is_not_installed(behind: Rig) -> None:
    catch_up(behind)
    newest = max(path for path in snapshots_of(behind[1]) if path.suffix == "")
    manifest = (newest / "manifest").read_bytes()
    advance(behind, 1, 2)
    behind.settle()
    before = behind.commands(3)
    behind.deliver(1, 3, SnapshotBegin(behind[1].raft.term, newest.name, manifest))
    ack = behind.take(3, 1, SnapshotAck)
    assert (ack.installed, behind.commands(3)) == (True, before)


def test_a_snapshot_of_another_term_or_to_a_leader_is_ignored(behind: Rig) -> None:
    term = behind[1].raft.term
    for target, told in ((3, term + 1), (3, term - 1), (1, term)):
        behind.deliver(2, target, SnapshotBegin(told, "x", b"{}"))
        assert not [m for m in behind.frames[NodeId(target), NodeId(2)] if isinstance(m, SnapshotAck)]


def test_the_journal_waits_for_a_follower_that_installs_longer_than_the_next_snapshot_takes(
    behind: Rig,
) -> None:
    """Else it needs the next snapshot when it is done with this one, and so on without end."""
    installing(behind)
    taken = behind[1].snapshotter._last_index
    for _ in range(4):
        advance(behind, 1, INTERVAL)
        behind.wait(fencepost.quorum.snapshotter.CHUNK_WAIT_S + 1)
        behind.maintenance_tick(1)  # before it is asked again
        behind.heartbeat()
        behind.flow()
        behind.maintenance_tick(1)
        behind.work()
        behind.maintenance_tick(1)
    assert behind[3].snapshotter._receiver.installing
    assert behind[1].snapshotter._last_index > taken
    assert behind[1].journal.first_index <= taken, "what follows the snapshot under way is there"
    catch_up(behind)
    archive = next(iter(behind[3].archiver.archives.values()))
    assert len(archive.holes()) == 1, "one snapshot was enough"


def test_it_does_not_wait_for_ever(behind: Rig) -> None:
    begun(behind)
    behind.crash(3)
    advance(behind, 1, 2 * INTERVAL)
    behind.wait(2 * fencepost.quorum.snapshotter.CHUNK_WAIT_S + 1)
    behind.maintenance_tick(1)
    behind.work()
    behind.maintenance_tick(1)
    assert behind[1].journal.first_index == behind[1].snapshotter._last_index


def test_a_snapshot_found_at_the_start_brings_its_term_with_it(behind: Rig) -> None:
    """Received and published, and killed before anything of the new term was flushed. A voter whose term is
    below its log's would listen to a leader that was deposed before the snapshot was taken.
    """
    installing(behind)
    manifest = snapshot.read_manifest(snapshots_of(behind[3])[0])
    behind.crash(3)
    shutil.rmtree(behind.root / "node-3" / "store")
    restarted = behind.start(3)
    assert restarted.applied[0] == manifest.raft_index
    assert restarted.raft.term == manifest.raft_term == restarted.journal.getCurrentTerm()


# -- refusing ---------------------------------------------------------------


def test_h6_a_flipped_byte_on_the_way_is_refused_and_nothing_is_acknowledged(behind: Rig) -> None:
    begun(behind)
    chunk = behind.take(1, 3, SnapshotChunk)
    flipped = bytes([chunk.payload[0] ^ 1]) + chunk.payload[1:]
    before = behind[3].applied
    behind.deliver(1, 3, SnapshotChunk(chunk.term, chunk.name, chunk.file, chunk.position, flipped))
    refused = None
    for _ in range(60):
        acks = [m for m in behind.frames[NodeId(3), NodeId(1)] if isinstance(m, SnapshotAck) and m.refused]
        if acks:
            refused = acks[0]
            break
        assert not [m for m in behind.frames[NodeId(3), NodeId(1)] if isinstance(m, Ack) and m.success]
        behind.deliver(3, 1)
        behind.deliver(1, 3)
    assert refused is not None
    assert chunk.file in refused.refused
    assert behind[3].applied == before
    catch_up(behind)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        pytest.param(b"{}", "manifest", id="empty"),
        pytest.param(b"\x80\x04N.", "manifest", id="a-pickle"),
    ],
)
def test_a_manifest_that_is_none_is_refused(behind: Rig, manifest: bytes, reason: str) -> None:
    behind.deliver(1, 3, SnapshotBegin(behind[1].raft.term, "00000000000000000009-0000000001", manifest))
    assert reason in behind.take(3, 1, SnapshotAck).refused


def test_a_chunk_longer_than_its_file_is_refused(behind: Rig) -> None:
    begun(behind)
    chunk = behind.take(1, 3, SnapshotChunk)
    behind.deliver(1, 3, SnapshotChunk(chunk.term, chunk.name, chunk.file, chunk.position, b"x" * 100_000))
    assert "longer than" in behind.take(3, 1, SnapshotAck).refused
    behind.deliver(1, 3, chunk)
    assert snapshots_of(behind[3]) == [], "what was on the wire of a transfer that is refused is ignored"


def test_a_leader_whose_snapshot_rotted_names_it_sets_it_aside_and_takes_another(behind: Rig) -> None:
    (directory,) = snapshots_of(behind[1])
    state = directory / "state"
    raw = bytearray(state.read_bytes())
    raw[len(raw) // 2] ^= 1
    state.write_bytes(raw)
    behind.heartbeat(1)
    assert [path.suffix for path in snapshots_of(behind[1])] == [".refused"]
    behind.maintenance_tick(1)
    behind.work()
    catch_up(behind)


# -- crashes ---------------------------------------------------------------


def test_killed_before_the_last_chunk_leaves_no_snapshot(behind: Rig) -> None:
    begun(behind)
    behind.deliver(1, 3)
    assert [path.suffix for path in snapshots_of(behind[3])] == [".part"]
    behind.crash(3)
    assert snapshots_of(behind.start(3)) == []
    behind.connect(3)
    catch_up(behind)


def test_killed_while_it_is_installed_leaves_the_old_image_whole_and_the_start_installs_it(
    behind: Rig,
) -> None:
    installing(behind)
    before = image_digest(behind[3].store)
    behind.maintain(3)
    behind.maintain(3)
    behind.flush(3)  # some rows of the next generation are on disk
    assert image_digest(behind[3].store) == before
    behind.crash(3)
    behind.start(3)
    assert image_digest(behind[3].store) != before
    behind.connect(3)
    catch_up(behind)


def test_a_start_removes_old_snapshots_that_an_earlier_process_left(behind: Rig) -> None:
    (newest,) = snapshots_of(behind[1])
    older = [newest.with_name(f"{number:020d}-0000000001") for number in range(1, snapshot.KEPT + 1)]
    for each in older:
        shutil.copytree(newest, each)
    behind.crash(1)
    left = {path.name for path in snapshots_of(behind.start(1))}
    assert newest.name in left
    assert not {name for name in left if name.startswith(older[0].name)}, "removed, and not even looked at"


def test_a_corrupt_snapshot_is_refused_at_the_start_and_the_node_recovers_from_its_peers(behind: Rig) -> None:
    installing(behind)
    (directory,) = snapshots_of(behind[3])
    (directory / "state").write_bytes(b"")
    before = image_digest(behind[3].store)
    behind.flush(3)
    behind.crash(3)
    assert image_digest(behind.start(3).store) == before
    assert [path.suffix for path in snapshots_of(behind[3])] == [".refused"]
    behind.connect(3)
    catch_up(behind)
