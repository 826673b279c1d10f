"""The tables are what a plain run of the decoder says: in one go, bit by bit, after files were changed."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fencepost.audit.decode import batches, local
from fencepost.audit.decode.columns import TABLES_VERSION
from fencepost.audit.decode.files import LOCAL
from fencepost.audit.decode.plan import LogFile, list_files
from fencepost.audit.engine.protocol import Workers
from fencepost.audit.engine.spark import SparkEngine
from fencepost.audit.source import pieces
from fencepost.audit.tables import store
from fencepost.audit.tables.ingest import IngestReport, ingest
from fencepost.audit.tables.reading import scan, settled_ms
from fencepost.audit.tables.refused import TablesRefused
from tests.audit.faults import cluster
from tests.audit.kafka import fixture
from tests.audit.spark.ingest.killed import OneProcess
from tests.audit.spark.ingest.tables import in_engine, in_memory, on_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Unpack = Callable[[Path], Path]
LOGS = [pytest.param(cluster.unpacked, id="fencepost"), pytest.param(fixture.unpack, id="Kafka")]


class Audited:
    """Log directories, and the tables that are made of them."""

    def __init__(self, workers: Workers, folder: Path, unpack: Unpack) -> None:
        self.workers = workers
        self.root = unpack(folder / "logs")
        self.tables = folder / "tables"

    def ingest(self) -> IngestReport:
        """And the tables are then what the decoder says of the files as they are."""
        report = ingest(self.workers, [str(self.root)], str(self.tables))
        found, expected = on_disk(self.tables), in_memory(local.tables([str(self.root)]))
        for name, rows in expected.items():
            assert found[name] == rows, name
        return report

    def segments(self) -> list[Path]:
        """By size, the largest first."""
        return sorted(self.root.rglob("*.log"), key=lambda path: path.stat().st_size, reverse=True)


@pytest.fixture(scope="module")
def on_spark(spark: "SparkSession") -> SparkEngine:
    """Tasks run on Spark's workers."""
    return SparkEngine(spark)


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    """Without Spark: what happens to the files is the same, and sooner."""
    return Audited(OneProcess(), tmp_path, cluster.unpacked)


@pytest.mark.row("card.8")
@pytest.mark.parametrize("unpack", LOGS)
def test_one_ingest_is_what_the_decoder_says(on_spark: SparkEngine, tmp_path: Path, unpack: Unpack) -> None:
    root, tables = str(unpack(tmp_path / "logs")), str(tmp_path / "tables")
    report = ingest(on_spark, [root], tables)
    expected = in_memory(local.tables([root]))
    scan(on_spark, tables)
    assert in_engine(on_spark) == expected
    assert {name: expected[name].total() for name in expected} == report.rows
    assert report.commit == 1
    assert settled_ms(tables) == report.settled_ms


@pytest.mark.parametrize("unpack", LOGS)
def test_growing_files_are_read_once_and_from_where_they_were_left(
    on_spark: SparkEngine, tmp_path: Path, unpack: Unpack
) -> None:
    audited = Audited(on_spark, tmp_path, unpack)
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


def test_small_files_are_merged_and_old_ones_kept_for_their_readers(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SMALL_FILES_MAX", 2)
    whole = {path: path.read_bytes() for path in audited.segments()}
    for count in range(1, 5):
        for path, content in whole.items():
            path.write_bytes(content[: len(content) * count // 4])
        audited.ingest()
        manifest = store.read_manifest(audited.tables)
        assert sum(part.table == "record_batches" for part in manifest.parts) <= 2
        assert all((audited.tables / name).exists() for name in manifest.retired)
    monkeypatch.setattr(store, "RETIRED_SECONDS", 0)
    audited.ingest()
    audited.ingest()
    manifest = store.read_manifest(audited.tables)
    kept = {f"{path.parent.name}/{path.name}" for path in audited.tables.rglob("*.parquet")}
    assert kept == {f"{part.table}/{part.name}" for part in manifest.parts} | set(manifest.retired)


def test_roots_add_up(tmp_path: Path) -> None:
    ours, kafkas = cluster.unpacked(tmp_path / "a"), fixture.unpack(tmp_path / "b")
    ingest(OneProcess(), [str(ours)], str(tmp_path / "tables"))
    ingest(OneProcess(), [str(kafkas)], str(tmp_path / "tables"))
    assert on_disk(tmp_path / "tables") == in_memory(local.tables([str(ours), str(kafkas)]))


def test_a_file_system_that_its_uri_names(on_spark: SparkEngine, tmp_path: Path) -> None:
    root = cluster.unpacked(tmp_path / "logs")
    report = ingest(on_spark, [root.as_uri()], str(tmp_path / "tables"))
    expected = in_memory(local.tables([str(root)]))
    assert report.rows == {name: rows.total() for name, rows in expected.items()}


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
        assert not ingest(OneProcess(), [str(root)], str(tmp_path / "tables")).read_anew
    writer.join()
    assert not ingest(OneProcess(), [str(root)], str(tmp_path / "tables")).not_read
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
        assert not ingest(OneProcess(), [str(audited.root)], str(audited.tables)).not_read
    assert not audited.ingest().read_anew


def test_a_manifest_is_replaced_not_written_over(audited: Audited, tmp_path: Path) -> None:
    audited.ingest()
    held = tmp_path / "held"
    held.hardlink_to(audited.tables / "manifest.json")
    before = held.read_text()
    audited.ingest()
    assert held.read_text() == before


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


def test_another_writer_and_other_versions_are_refused(on_spark: SparkEngine, tmp_path: Path) -> None:
    audited = Audited(on_spark, tmp_path, cluster.unpacked)
    with store.writing(audited.tables), pytest.raises(TablesRefused, match="another ingest"):
        audited.ingest()
    with pytest.raises(TablesRefused, match="no tables are here"):
        scan(on_spark, str(audited.tables))
    audited.ingest()
    manifest = audited.tables / "manifest.json"
    before = f'"version":{TABLES_VERSION}'
    assert before in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(before, f'"version":{TABLES_VERSION + 1}', 1))
    refused = f"version {TABLES_VERSION + 1}, expected {TABLES_VERSION}"
    with pytest.raises(TablesRefused, match=refused):
        scan(on_spark, str(audited.tables))
    with pytest.raises(TablesRefused, match=refused):
        audited.ingest()


def _flipped(path: Path, position: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    return bytes(content)


def _listed(path: Path) -> LogFile:
    return list_files([str(path)])[0]
