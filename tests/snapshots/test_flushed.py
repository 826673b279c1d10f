"""What is flushed, and in which order: names in a directory are not flushed with the files that they name."""

import os
from pathlib import Path

import pytest
import structlog

from fencepost.controller import producer_ids
from fencepost.controller.view import ImageHeader
from fencepost.records.types import ImageVersion, Log, LogIndex, NodeId, Offset, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.archive_repair import Wrong, give_up
from fencepost.snapshots.checksums import Content, forget_sums, sums_path, write_content
from fencepost.snapshots.clean_shutdown import (
    CLEAN_SHUTDOWN_FILE,
    forget_clean_shutdown,
    record_clean_shutdown,
)
from fencepost.snapshots.flushes import replace_file, write_flushed
from fencepost.snapshots.segments import list_segments
from fencepost.snapshots.store import Store
from tests.controller.worlds import allocated
from tests.disk_calls import watched
from tests.snapshots.archives import ALL, batch, filled, opened

LOG = Log.METADATA.directory


class Watched(list[str]):
    """What is done to files and directories, but to files of sums, which are not flushed."""

    def append(self, call: str) -> None:
        if ".checksums.tmp -> " not in call:
            super().append(call)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return watched(monkeypatch, Watched())


def test_a_snapshot_is_flushed_before_it_has_its_name_and_its_name_after(
    tmp_path: Path, done: list[str]
) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    producer_ids.replay(store.image, allocated(1000))
    store.image.header = ImageHeader(ImageVersion(1), Term(1), NodeId(1), (3, 0, 0))
    store.flush()
    done.clear()
    with store.reader() as reader:
        raft = LogIndex(1), Term(1)
        path = snapshot.write(reader, tmp_path / "snapshots", cluster_id="c", raft=raft, now_ms=5)
    store.abandon()
    name = path.name
    assert done == [
        "flush state",
        f"flush {name}.checkpoint",
        "flush manifest",
        f"flush {name}.part",
        f"{name}.part -> {name}",
        "flush snapshots",
    ]


def test_a_new_segment_and_its_name_are_flushed(tmp_path: Path, done: list[str]) -> None:
    archive = opened(tmp_path)
    archive.append(batch(0))
    archive.write()
    done.clear()
    archive.sync()
    assert done == [f"flush {0:020d}.log", f"flush {LOG}"]
    archive.append(batch(1))
    archive.write()
    done.clear()
    archive.sync()
    assert done == [f"flush {0:020d}.log"], "its name was flushed"


def test_what_a_killed_process_wrote_is_flushed_before_it_counts_as_safe(
    tmp_path: Path, done: list[str]
) -> None:
    archive = opened(tmp_path)
    for offset in range(6):
        archive.append(batch(offset))
    archive.write()
    done.clear()
    again = opened(tmp_path)
    assert again.durable_end == 6
    assert done[-3:] == [f"flush {0:020d}.log", f"flush {4:020d}.log", f"flush {LOG}"]


def test_a_hole_is_named_on_the_disk_before_anything_follows_it(tmp_path: Path, done: list[str]) -> None:
    archive = filled(tmp_path, 2)
    archive.append(batch(2))
    done.clear()
    archive.start_at(Offset(9))
    assert done == [
        f"flush {0:020d}.log",
        "flush holes.json.tmp",
        "holes.json.tmp -> holes.json",
        f"flush {LOG}",
    ]


def test_a_deleted_segment_does_not_come_back_without_its_hole(tmp_path: Path, done: list[str]) -> None:
    archive = filled(tmp_path, 4)
    archive.start_at(Offset(8))
    for offset in range(8, 14):
        archive.append(batch(offset))
    archive.write()
    archive.sync()
    done.clear()
    archive.retain(0, ALL)
    assert archive.start > 4
    assert done[-4:] == [
        f"flush {LOG}",
        "flush holes.json.tmp",
        "holes.json.tmp -> holes.json",
        f"flush {LOG}",
    ]
    assert done[0] == f"delete {0:020d}.log"


def test_a_clean_end_is_recorded_and_forgotten_on_the_disk(tmp_path: Path, done: list[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    record_clean_shutdown(folder, structlog.get_logger())
    part = f"{CLEAN_SHUTDOWN_FILE}.tmp"
    assert done == [f"flush {part}", f"{part} -> {CLEAN_SHUTDOWN_FILE}", "flush logs"]
    done.clear()
    forget_clean_shutdown(folder)
    assert done == [f"delete {CLEAN_SHUTDOWN_FILE}", "flush logs"]


def test_what_is_flushed_is_all_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is still in the process when the disk is to keep it."""
    sizes: dict[str, int] = {}
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_file():
            sizes[path.name] = path.stat().st_size
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store = Store.open(tmp_path / "store", sync=False)
    producer_ids.replay(store.image, allocated(1000))
    store.flush()
    with store.reader() as reader:
        raft = LogIndex(1), Term(1)
        path = snapshot.write(reader, tmp_path / "snapshots", cluster_id="c", raft=raft, now_ms=5)
    store.abandon()
    assert {each.name: each.stat().st_size for each in path.iterdir()} == sizes
    sizes.clear()
    write_flushed(tmp_path / "new", bytes(100))
    replace_file(tmp_path / "replaced", bytes(200), durable=True)
    assert sizes == {"new": 100, "replaced.tmp": 200}


def test_sums_that_are_forgotten_do_not_come_back(tmp_path: Path, done: list[str]) -> None:
    log = tmp_path / "logs" / f"{0:020d}.log"
    log.parent.mkdir()
    forget_sums(log)
    assert done == [], "there are none"
    write_content(sums_path(log), 0, Content(), durable=False)
    done.clear()
    forget_sums(log)
    assert done == [f"delete {0:020d}.checksums", "flush logs"]


def test_what_is_given_up_is_a_named_hole_before_it_is_gone(tmp_path: Path, done: list[str]) -> None:
    filled(tmp_path, 6).close()
    folder = tmp_path / LOG
    first = list_segments(folder)[0]
    done.clear()
    give_up(folder, Wrong(first, Offset(0), Offset(4), "damaged"))
    name = f"{0:020d}"
    assert done == [
        "flush holes.json.tmp",
        "holes.json.tmp -> holes.json",
        f"flush {LOG}",
        f"{name}.log -> {name}.log.damaged",
        f"delete {name}.checksums",
        f"flush {LOG}",
    ]
