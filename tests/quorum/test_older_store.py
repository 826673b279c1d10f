"""A store that is older than its own archive: its disk lost flushes, or a copy was put in its place."""

import shutil
from pathlib import Path

import msgspec
import pytest

from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import Journal
from fencepost.quorum.older_store import MARK, last_end, note_archives, require_not_older
from fencepost.records.types import Log, LogIndex, NodeId, Offset
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SEAL, SEAL_COPY, Seal, StoreDamaged, read_seal
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.test_integrity import led, outcome, put_back, stored
from tests.quorum.test_lost_image import advance
from tests.snapshots.archives import batch, filled

__all__ = ["led"]


def lagging(rig: Rig, entries: int, *, saves: bool = True) -> None:
    """Node 2 goes on for so many entries, and dies; ``saves``: its image has them, too."""
    rig.start(2)
    rig.connect(2)
    rig.heartbeat()
    rig.flow()
    advance(rig, entries)
    if saves:
        rig.flush(2)
    rig[2].archiver.write()
    rig.crash(2)


@pytest.mark.row("beyond.13")
def test_an_older_copy_of_the_store_is_a_lost_store(led: Rig) -> None:
    before = stored(led)
    lagging(led, 3)
    put_back(led, before)
    with pytest.raises(StoreDamaged, match="older than its archive"):
        led.start(2)


def test_the_store_as_it_was_before_its_first_entry_is_a_lost_store(make_rig: MakeRig) -> None:
    """It is no new one: that would vote and acknowledge as the voter whose votes it forgot."""
    rig = make_rig(3)
    rig.flush(2)
    rig.crash(2)
    before = stored(rig)
    rig.start(2)
    rig.connect(2)
    rig.elect(1)
    rig.register(1)
    advance(rig, 3)
    rig.flush(2)
    rig[2].archiver.write()
    rig.crash(2)
    put_back(rig, before)
    with pytest.raises(StoreDamaged, match="older than its archive"):
        rig.start(2)


def test_an_older_copy_whose_image_is_damaged_too_is_a_lost_store(led: Rig) -> None:
    before = stored(led)
    lagging(led, 3)
    (key, value), *rest = before[b"image"].items()
    put_back(led, {**before, b"image": {key: value[:-1] + bytes((value[-1] ^ 1,)), **dict(rest)}})
    with pytest.raises(StoreDamaged):
        led.start(2)


def test_an_older_copy_with_an_older_archive_is_not_seen(led: Rig) -> None:
    """That is outside of what is promised: no program can see it."""
    home = led.root / "node-2"
    before = stored(led)
    shutil.copytree(home / "archive", home / "archive.before")
    lagging(led, 3)
    put_back(led, before)
    shutil.rmtree(home / "archive")
    (home / "archive.before").rename(home / "archive")
    assert outcome(led) != "lost"


def test_a_follower_with_less_than_it_acknowledged_is_sent_it_again(led: Rig) -> None:
    """It has an older copy that cannot be seen. What it refuses first is not refused late (H4)."""
    before = stored(led)
    home = led.root / "node-2"
    shutil.copytree(home / "archive", home / "archive.before")
    lagging(led, 3)
    put_back(led, before)
    shutil.rmtree(home / "archive")
    (home / "archive.before").rename(home / "archive")
    led.start(2)
    assert led[2].journal.last_index < led[1].raft.match_index(NodeId(2))
    led.connect(2)
    led.settle()
    assert led.commands(2)[-5:] == led.commands(1)[-5:]


def test_an_archive_ahead_of_the_image_but_not_of_the_journal_is_a_crash(led: Rig) -> None:
    lagging(led, 3, saves=False)
    assert outcome(led) == "right"


def test_a_store_with_an_earlier_mark_of_its_archive_is_a_lost_store(led: Rig) -> None:
    """A flush that the disk wrote in part: mark and seals are of one before, and the journal is not."""
    before = stored(led)
    assert before[b"meta"][MARK.encode()]
    meta = {name.decode("latin-1"): value for name, value in before[b"meta"].items()}
    seal = read_seal(meta[SEAL])
    assert seal is not None
    meta[MARK] = msgspec.msgpack.encode((1, ImageHeader()))
    meta[SEAL] = meta[SEAL_COPY] = Seal({**seal.meta, MARK: meta[MARK]}, seal.rows).encode()
    put_back(led, {**before, b"meta": {name.encode("latin-1"): value for name, value in meta.items()}})
    with pytest.raises(StoreDamaged, match=r"archive.mark is Raft index 1, older than the journal"):
        led.start(2)


def test_a_new_store_beside_an_old_archive_notes_where_that_ended(tmp_path: Path) -> None:
    """A voter that joined again: what its archive has is not of this store. A hole's end is no trace."""
    store = Store.open(tmp_path / "store", sync=False)
    journal = Journal(store)
    archive = filled(tmp_path, 6)
    nothing = (LogIndex(1), ImageHeader())

    def ends() -> dict[Log, Offset]:
        return {Log.METADATA: last_end(archive)}

    with pytest.raises(StoreDamaged, match="batches up to offset 6"):
        require_not_older(store, ends(), journal, nothing)
    note_archives(store, ends())
    require_not_older(store, ends(), journal, nothing)
    archive.start_at(Offset(50))
    require_not_older(store, ends(), journal, nothing)
    archive.append(batch(50))
    with pytest.raises(StoreDamaged, match="batches up to offset 51"):
        require_not_older(store, ends(), journal, nothing)
    archive.close()
    store.abandon()
