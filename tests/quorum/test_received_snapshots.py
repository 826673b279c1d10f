"""Snapshots on their way to a follower's disk, and what a node says and forgets of them."""

import errno
import os
from pathlib import Path

import pytest

from fencepost.quorum.messages import Ack, SnapshotAck, SnapshotChunk
from fencepost.records.types import NodeId
from fencepost.snapshots import snapshot
from fencepost.snapshots.flushes import NotFlushed
from fencepost.snapshots.rows import Row, row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import StoreDamaged
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.transfers import INTERVAL, advance, begun, installing, snapshots_of


def test_a_received_snapshot_is_flushed_before_it_has_its_name(
    behind: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files, their directory, then the name. A crash of the machine leaves no name without its bytes."""
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def flushed(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append(path.name if path.is_dir() else f"{path.name} {path.stat().st_size}")
        fsync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        seen.append(f"-> {new.name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    installing(behind)
    (final,) = snapshots_of(behind[3])
    sizes = {f"{path.name} {path.stat().st_size}" for path in final.iterdir()}
    named = seen.index(f"-> {final.name}")
    assert sizes <= set(seen[: named - 1])
    assert seen[named - 1 : named + 2] == [f"{final.name}.received.part", f"-> {final.name}", "snapshots"]


def test_an_archive_that_cannot_be_flushed_ends_the_node(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later flush that does not fail would prove nothing: the journal would forget what is on no disk."""
    rig = make_rig(3, snapshot_entries=INTERVAL)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, INTERVAL)
    rig.maintenance_tick(1)
    fsync = os.fsync

    def fails(descriptor: int) -> None:
        if "/archive/" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(NotFlushed, match=r"Input/output error: '.*/archive/.*\.log'"):
        rig.work()
    monkeypatch.undo()
    assert rig[1].journal.first_index == 1


def test_a_transfer_that_is_refused_leaves_nothing_behind(behind: Rig) -> None:
    begun(behind)
    chunk = behind.take(1, 3, SnapshotChunk)
    parts = list((behind.root / "node-3" / "snapshots").glob("*.received.part"))
    assert len(parts) == 1
    size = snapshot.read_manifest(parts[0]).files[chunk.file][0]
    longer = SnapshotChunk(chunk.term, chunk.name, chunk.file, chunk.position, b"?" * (size + 1))
    behind.deliver(1, 3, longer)
    assert "longer than its" in behind.take(3, 1, SnapshotAck).refused
    assert not parts[0].exists()


def test_rows_that_are_not_found_where_they_were_put_are_no_image(
    behind: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the store changed while it was open: the node ends, and its next start reads every page."""
    put_rows, lost = Store.put_rows, 0

    def put_and_lost(store: Store, generation: int, rows: list[Row]) -> None:
        nonlocal lost
        put_rows(store, generation, rows)
        name, key, _ = rows[-1]
        lost += store.txn.delete(row_key(generation, name, key), db=store.image_db)

    monkeypatch.setattr(Store, "put_rows", put_and_lost)
    installing(behind)
    before = behind[3].applied
    with pytest.raises(StoreDamaged, match="are not found where they were put"):
        behind[3].snapshotter._receiver.finish()
    assert lost
    assert behind[3].applied == before


def test_a_node_whose_image_is_bad_sends_no_more_of_a_snapshot(behind: Rig) -> None:
    """Nor does it keep its journal for a follower that would need what comes after it."""
    begun(behind)
    chunk = behind.take(1, 3, SnapshotChunk)
    sender = behind[1].snapshotter
    damaged = sender.root / f"{0:020}-{0:010}"
    damaged.mkdir()  # without a manifest: nothing says of which version it is
    sender.distrust(-1)
    assert snapshot.listed(sender.root) == []
    behind.frames.clear()
    assert (sender._transfers, sender._needed) == ({}, {})
    ack = SnapshotAck(behind[1].raft.term, chunk.name, chunk.file, 0, "", installed=False)
    behind.deliver(3, 1, ack)
    assert not behind.frames[NodeId(1), NodeId(3)]


def test_a_follower_says_at_once_what_it_has_installed(behind: Rig) -> None:
    """The log behind the snapshot comes with the leader's next entries, a round earlier."""
    installing(behind)
    behind.frames.clear()
    for _ in range(100):
        behind.maintenance_tick(3)
        if not behind[3].snapshotter._receiver.installing:
            break
    ack = behind.take(3, 1, Ack)
    assert (ack.success, ack.reset, ack.next_index) == (True, False, behind[3].applied[0] + 1)
