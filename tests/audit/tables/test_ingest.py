"""The tables are what a plain run of the decoder says: in one go, bit by bit, after files were changed."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.audit.decode import batches, local
from fencepost.audit.decode.columns import TABLES_VERSION
from fencepost.audit.decode.files import LOCAL
from fencepost.audit.decode.plan import LogFile, list_files
from fencepost.audit.source import pieces
from fencepost.audit.tables import merging, writing
from fencepost.audit.tables.ingest import IngestReport, ingest
from fencepost.audit.tables.place import place_of
from fencepost.audit.tables.reading import settled_ms
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import required
from tests.audit.faults import cluster
from tests.audit.kafka import fixture
from tests.audit.tables.rows import in_memory, kept, meant, on_disk
from tests.audit.tables.workers import Here

pytestmark = pytest.mark.slow

Unpack = Callable[[Path], Path]
LOGS = [pytest.param(cluster.unpacked, id="fencepost"), pytest.param(fixture.unpack, id="Kafka")]


class Audited:
    """Log directories, and the tables that are made of them."""

    def __init__(self, folder: Path, unpack: Unpack) -> None:
        self.root = unpack(folder / "logs")
        self.tables = folder / "tables"

    def ingest(self) -> IngestReport:
        """And the tables are then what the decoder says of the files as they are."""
        report = ingest(Here(), [str(self.root)], str(self.tables))
        found, expected = on_disk(self.tables), in_memory(local.tables([str(self.root)]))
        for name, rows in expected.items():
            assert found[name] == rows, name
        return report

    def segments(self) -> list[Path]:
        """By size, the largest first."""
        return sorted(self.root.rglob("*.log"), key=lambda path: path.stat().st_size, reverse=True)


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    return Audited(tmp_path, cluster.unpacked)


@pytest.mark.row("card.8")
@pytest.mark.parametrize("unpack", LOGS)
def test_one_ingest_is_what_the_decoder_says(tmp_path: Path, unpack: Unpack) -> None:
    audited = Audited(tmp_path, unpack)
    report = audited.ingest()
    expected = in_memory(local.tables([str(audited.root)]))
    assert {name: expected[name].total() for name in expected} == report.rows
    assert report.number == 1
    assert settled_ms(str(audited.tables)) == report.settled_ms
    assert audited.ingest().number is None  # nothing new: nothing is written
    assert kept(audited.tables) == meant(audited.tables)


@pytest.mark.parametrize("unpack", LOGS)
def test_growing_files_are_read_once_and_from_where_they_were_left(tmp_path: Path, unpack: Unpack) -> None:
    audited = Audited(tmp_path, unpack)
    whole = {path: path.read_bytes() for path in audited.segments()}
    read_before = 0
    for share in (0.1, 0.35, 0.72, 1.0):  # cuts fall into batches: a torn tail is read when it is whole
        for path, content in whole.items():
            path.write_bytes(content[: int(len(content) * share)])
        report = audited.ingest()
        read_before += report.bytes_read
        assert not report.read_anew
    longest = max(map(len, whole.values()))
    total = sum(path.stat().st_size for path in audited.root.rglob("*") if path.is_file())
    assert read_before < total + longest  # only what was torn is read a second time
    assert audited.ingest().bytes_read < longest


def test_a_large_segment_is_many_pieces(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    size = audited.segments()[0].stat().st_size // 20
    monkeypatch.setattr("fencepost.audit.tables.ingest.piece_bytes", lambda total, cores: size)
    assert len(pieces.cut(_listed(audited.segments()[0]), 0, size, LOCAL)) > 10
    audited.ingest()


def test_pieces_that_do_not_fit_are_read_again_in_one(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an index would cut that names a place inside a batch."""

    def cut(file: LogFile, start: int, size: int, files: object) -> list[pieces.Piece]:
        middle = start + (file.size - start) // 2 + 1
        return [pieces.Piece(file, start, middle), pieces.Piece(file, middle, file.size)]

    monkeypatch.setattr("fencepost.audit.tables.ingest.cut", cut)
    audited.ingest()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda path: os.truncate(path, path.stat().st_size // 2), "truncated", id="truncated"),
        pytest.param(lambda path: os.truncate(path, 0), "truncated", id="emptied"),
        pytest.param(lambda path: path.unlink(), "not there", id="deleted"),
        pytest.param(lambda path: path.write_bytes(_flipped(path, 30)), "anew", id="its-head-is-another"),
        pytest.param(lambda path: path.write_bytes(_flipped(path, -30)), "anew", id="its-tail-is-another"),
        pytest.param(lambda path: shutil.rmtree(path.parent), "not there", id="its-partition-is-deleted"),
    ],
)
def test_a_file_that_was_changed_is_read_anew(
    audited: Audited, change: Callable[[Path], None], reason: str
) -> None:
    audited.ingest()
    path = audited.segments()[0]
    change(path)
    extent = dict(audited.ingest().read_anew)
    assert reason in extent[str(path)]
    assert not audited.ingest().read_anew


def test_a_fault_at_the_end_is_looked_at_again_when_the_file_grows(audited: Audited) -> None:
    path = audited.segments()[0]
    content = path.read_bytes()
    path.write_bytes(_flipped(path, -3))
    audited.ingest()
    path.write_bytes(path.read_bytes() + b"\xff" * 100 + content)  # now it is the length that seems wrong
    assert "behind a fault" in dict(audited.ingest().read_anew)[str(path)]


def test_a_torn_tail_is_told_and_a_directory_that_cannot_be_listed_too(audited: Audited) -> None:
    path = audited.segments()[0]
    os.truncate(path, path.stat().st_size - 5)
    link = audited.root / "gone"
    link.symlink_to(audited.root / "nowhere")
    not_read = {each: reason for each, _, reason in audited.ingest().not_read}
    assert str(path) in not_read
    assert "link to nothing" in not_read[str(link)]


def test_small_ingests_are_merged_and_old_ones_kept_for_their_readers(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "SMALL_INGESTS_MAX", 2)
    whole = {path: path.read_bytes() for path in audited.segments()}
    changed = list(whole)[-1]
    seen = []
    for count in range(1, 7):
        for path, content in whole.items():
            path.write_bytes(content[: len(content) * count // 6])
        if count == 4:
            changed.unlink()  # its rows are in ingests that are being merged
            whole.pop(changed)
        audited.ingest()
        found = required(place_of(str(audited.tables)))
        assert len(found.live) <= 3
        seen.append(found)
        for earlier in seen:  # a reader that began with it finds all its files
            names = {part.name for each in earlier.live.values() for part in each.parts}
            assert names <= kept(audited.tables)
    assert any(each.replaces for each in found.live.values())
    monkeypatch.setattr(writing, "RETIRED_SECONDS", 0)
    audited.ingest()
    found = required(place_of(str(audited.tables)))
    assert found.documents.keys() == found.live.keys()
    assert kept(audited.tables) == meant(audited.tables)
    audited.ingest()


def test_roots_add_up(tmp_path: Path) -> None:
    ours, kafkas = cluster.unpacked(tmp_path / "a"), fixture.unpack(tmp_path / "b")
    ingest(Here(), [str(ours)], str(tmp_path / "tables"))
    ingest(Here(), [str(kafkas)], str(tmp_path / "tables"))
    assert on_disk(tmp_path / "tables") == in_memory(local.tables([str(ours), str(kafkas)]))


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost"])
def test_a_path_by_its_uri_is_the_same_path(audited: Audited, prefix: str) -> None:
    audited.ingest()
    again = ingest(Here(), [prefix + str(audited.root)], prefix + str(audited.tables))
    assert again.number is None


def test_a_log_that_is_being_written_is_never_torn(tmp_path: Path) -> None:
    """Listed in the midst of a batch; by the time it is read its writer has gone on."""
    root = cluster.unpacked(tmp_path / "logs")
    path = max(root.rglob("*.log"), key=lambda each: each.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(b"")
    ended = threading.Event()

    def write() -> None:
        with open(path, "ab", buffering=0) as file:
            file.writelines(content[start : start + 13] for start in range(0, len(content), 13))
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        assert not ingest(Here(), [str(root)], str(tmp_path / "tables")).read_anew
    writer.join()
    assert not ingest(Here(), [str(root)], str(tmp_path / "tables")).not_read
    assert on_disk(tmp_path / "tables") == in_memory(local.tables([str(root)]))


def test_what_was_torn_when_it_was_read_and_is_whole_now_is_read_the_next_time(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audited.segments()[0]
    content = path.read_bytes()
    os.truncate(path, len(content) - 5)

    def late(*place: object, **files: object) -> object:
        path.write_bytes(content)
        return batches.stop_of(*place, **files)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr("fencepost.audit.tables.ingest.stop_of", late)
        assert not ingest(Here(), [str(audited.root)], str(audited.tables)).not_read
    assert not audited.ingest().read_anew


def test_tables_that_cannot_be_written_are_told(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            audited.ingest()
    audited.ingest()


def test_a_file_that_vanishes_while_it_is_read_was_never_there(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audited.segments()[0]

    def cut(file: LogFile, start: int, size: int, files: object) -> list[pieces.Piece]:
        path.unlink(missing_ok=True)
        return [pieces.Piece(file, start, file.size)]

    monkeypatch.setattr("fencepost.audit.tables.ingest.cut", cut)
    assert not audited.ingest().not_read


def test_other_versions_are_refused(audited: Audited) -> None:
    with pytest.raises(TablesRefused, match="no tables are here"):
        on_disk(audited.tables)
    audited.ingest()
    document = audited.tables / "_ingests" / "00000001.json"
    document.write_text(document.read_text().replace('"version":3', '"version":4'))
    for use in (audited.ingest, lambda: on_disk(audited.tables)):
        with pytest.raises(TablesRefused, match=f"version 4, expected {TABLES_VERSION}; ingest anew"):
            use()
    shutil.rmtree(audited.tables / "_ingests")
    (audited.tables / "manifest.json").write_text('{"version":2}')
    with pytest.raises(TablesRefused, match=r"version 2 or older, which kept a manifest\.json; ingest anew"):
        audited.ingest()


def _flipped(path: Path, position: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    return bytes(content)


def _listed(path: Path) -> LogFile:
    return list_files([str(path)])[0]
