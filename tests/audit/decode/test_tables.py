"""Every table of whole trees: a real Kafka's, and one of every kind of file."""

import errno
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from kio.records.readers import read_batch

from fencepost.audit.decode import control as control_module
from fencepost.audit.decode.batches import Where, decode_segment
from fencepost.audit.decode.columns import RECORD_BATCHES, TABLES
from fencepost.audit.decode.control import markers
from fencepost.audit.decode.files import LocalFiles, OpenFile
from fencepost.audit.decode.local import tables
from fencepost.audit.decode.metadata import decode_blocks, decode_brokers, decode_topics
from fencepost.audit.decode.offsets import decode_commits
from fencepost.audit.decode.opened import open_records
from fencepost.audit.decode.tables import decode_log
from fencepost.audit.decode.transactions import decode_states
from fencepost.audit.source.remote import RemoteFiles
from fencepost.records.batch import encode_batch
from fencepost.records.batch_layout import COMPRESSION
from tests.audit.decode.corpus import NOW_MS, laid, written
from tests.audit.decode.test_mutated_files import CHECKPOINT, LOGS, batch, marker
from tests.audit.decode.test_snapshots import document
from tests.audit.faults.tree import edited
from tests.broker.log.builders import compressed, patched

KAFKA = Path(__file__).parents[1] / "kafka" / "kafka-4.1.1.tar.gz"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kafka")
    with tarfile.open(KAFKA) as archive:
        archive.extractall(root, filter="data")
    return root


def test_a_real_kafka_is_read_whole(kafka: Path) -> None:
    found = tables([str(kafka)])
    assert {name: found[name].schema for name in TABLES} == TABLES
    assert found["record_faults"].num_rows == 0
    assert Counter(found["files"]["stop"].to_pylist()) == {"end": found["files"].num_rows}
    batches = found["record_batches"]
    assert batches["fault"].null_count == batches.num_rows
    for name in ("producer_id_blocks", "brokers", "topics", "transaction_states", "offset_commits"):
        assert found[name].num_rows > 0, name
    assert set(found["producer_id_blocks"]["source"].to_pylist()) == {"log", "snapshot"}
    assert set(found["transaction_states"]["state"].to_pylist()) >= {
        "Ongoing",
        "PrepareCommit",
        "CompleteAbort",
    }


def test_each_batch_of_a_real_kafka_is_what_kio_reads(kafka: Path) -> None:
    seen = 0
    for path in sorted(kafka.rglob("*.log")):
        content = path.read_bytes()
        for row in pa.Table.from_batches(
            decode_segment(str(path), Where(1, "t", 0, "")), schema=RECORD_BATCHES
        ).to_pylist():
            if row["attributes"] & COMPRESSION:
                continue
            expected, size = read_batch(content, row["position"])
            assert (row["size"], row["base_offset"], row["crc"]) == (size, expected.base_offset, expected.crc)
            opened = open_records(content[row["position"] : row["position"] + size])
            assert [(each.offset, each.key, each.value) for each in opened] == [
                (int(each.offset), each.key, each.value) for each in expected.records
            ]
            seen += 1
    assert seen > 500


def a_tree(root: Path) -> Path:
    """A node's directory with a file of every kind, and faults."""
    root.mkdir(exist_ok=True)
    (root / "meta.properties").write_text("node.id=3")
    for topic, batches in LOGS.items():
        folder = root / f"{topic}-0"
        folder.mkdir()
        segment = laid(batches * 3)
        written(folder, segment.content)
        written(folder, laid(batches, base=500).content[:-3], 500)
    (root / "__cluster_metadata-0" / "holes.json").write_text(
        json.dumps({"version": 1, "holes": [[90, 500]]})
    )
    (root / "__cluster_metadata-0" / f"{500:020d}-{1:010d}.checkpoint").write_bytes(laid(CHECKPOINT).content)
    (root / "znodes.json").write_text(json.dumps(document()))
    return root


def test_a_tree_of_every_kind_of_file(tmp_path: Path) -> None:
    found = tables([str(a_tree(tmp_path / "n")), str(tmp_path / "gone")])
    files = found["files"].to_pylist()
    assert Counter((row["kind"], row["stop"]) for row in files) == {
        ("segment", "end"): 4, ("segment", "torn"): 4, ("hole", "end"): 1, ("checkpoint", "end"): 1,
        ("properties", "end"): 1,
        ("zookeeper-export", "end"): 1, ("directory", "unreadable"): 1,
    }  # fmt: skip
    assert [(row["base_offset"], row["size"]) for row in files if row["kind"] == "hole"] == [(90, 410)]
    assert Counter(found["producer_id_blocks"]["source"].to_pylist()) == {
        "log": 7,
        "snapshot": 1,
        "zookeeper": 1,
    }
    assert found["record_faults"].num_rows == 0
    assert {row["node"] for row in files} == {3, -1}


class Failing(LocalFiles):
    """This machine's files, of which some cannot be opened, or not a second time."""

    def __init__(self, times: int) -> None:
        self.left = times

    def open(self, path: str) -> OpenFile:
        if "payments-0" in path:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, "Input/output error")
        return super().open(path)


@pytest.mark.parametrize("times", [0, 1], ids=["never opened", "opened once"])
def test_a_file_that_cannot_be_read_is_a_row_and_the_others_are_read(tmp_path: Path, times: int) -> None:
    for topic in ("a", "payments"):
        (tmp_path / f"{topic}-0").mkdir()
        written(tmp_path / f"{topic}-0", laid([marker(5)]).content)
    found = tables([str(tmp_path)], files=Failing(times))
    assert [(row["topic"], row["stop"], row["reason"]) for row in found["files"].to_pylist()] == [
        ("a", "end", None),
        ("payments", "unreadable", "Input/output error"),
    ]
    assert found["record_batches"]["topic"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("topic", "table", "decode"),
    [
        ("__cluster_metadata", "producer_id_blocks", decode_blocks),
        ("__cluster_metadata", "brokers", decode_brokers),
        ("__cluster_metadata", "topics", decode_topics),
        ("__transaction_state", "transaction_states", decode_states),
        ("__consumer_offsets", "offset_commits", decode_commits),
    ],
)
def test_a_table_can_be_read_alone(
    tmp_path: Path, topic: str, table: str, decode: Callable[..., Iterator[pa.RecordBatch]]
) -> None:
    where = Where(1, topic, 0, written(tmp_path, laid(LOGS[topic]).content + b"\xff" * 20))
    alone = list(decode(where.path, where))
    assert sum(rows.num_rows for rows in alone) > 0
    assert alone == [rows for name, rows in decode_log(where.path, where) if name == table]
    assert list(decode(where.path, where, 0, 0)) == []


def test_another_file_system_gives_the_same_tables(tmp_path: Path) -> None:
    root = str(a_tree(tmp_path / "n"))
    files = RemoteFiles(LocalFileSystem(), "test://", "test")
    assert tables([root], files=files) == tables([root])


def said(tmp_path: Path, raw: bytes) -> dict[str, Any]:
    path = written(tmp_path, laid([raw]).content)
    (row,) = pa.Table.from_batches(decode_segment(path, Where(1, "t", 0, path))).to_pylist()
    return {name: row[name] for name in ("control_type", "coordinator_epoch", "marker_version")}


UNREADABLE = {"control_type": -1, "coordinator_epoch": None, "marker_version": None}
KEY, VALUE = b"\0\0\0\1", b"\0\0\0\0\0\3"


def control(*records: tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes], ...]]) -> bytes:
    return encode_batch(records, timestamp_ms=NOW_MS, control=True)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            marker(0), {"control_type": 1, "coordinator_epoch": 3, "marker_version": None}, id="Kafka's"
        ),
        pytest.param(
            marker(5), {"control_type": 1, "coordinator_epoch": 3, "marker_version": 5}, id="fencepost's"
        ),
        pytest.param(
            compressed(marker(5), "lz4"),
            {"control_type": 1, "coordinator_epoch": 3, "marker_version": 5},
            id="lz4",
        ),
        pytest.param(
            control((KEY, VALUE, ((b"x", b"y"),))),
            {"control_type": 1, "coordinator_epoch": 3, "marker_version": None},
            id="another header",
        ),
        pytest.param(
            control((b"\0\1\0\0more", VALUE + b"more", ())),
            {"control_type": 0, "coordinator_epoch": 3, "marker_version": None},
            id="a later version",
        ),
        pytest.param(
            control((b"\0\0\0\5", b"", ())),
            {"control_type": 5, "coordinator_epoch": None, "marker_version": None},
            id="no marker",
        ),
        pytest.param(
            control((b"\0\0\0\x09", VALUE, ())),
            {"control_type": 9, "coordinator_epoch": None, "marker_version": None},
            id="of a type to come",
        ),
        pytest.param(control((b"\0", VALUE, ())), UNREADABLE, id="half a key"),
        pytest.param(control((None, VALUE, ())), UNREADABLE, id="no key"),
        pytest.param(control((KEY, b"\0\0", ())), UNREADABLE, id="half a value"),
        pytest.param(control((KEY, None, ())), UNREADABLE, id="no value"),
        pytest.param(patched(marker(0), 61, b"\x7f"), UNREADABLE, id="a record past the end"),
        pytest.param(patched(marker(0), 57, bytes(4)), UNREADABLE, id="no record by its count"),
    ],
)
def test_control_batches(tmp_path: Path, raw: bytes, expected: dict[str, Any]) -> None:
    assert said(tmp_path, raw) == expected
    faults = tables([str(tmp_path)])["record_faults"].to_pylist()
    assert [row["fault"] for row in faults] == (["record"] if expected == UNREADABLE else [])


def test_a_marker_that_the_log_cleaner_emptied_is_no_fault(tmp_path: Path) -> None:
    """Kafka keeps the header of a producer's last batch when its records are compacted away."""
    assert said(tmp_path, edited(marker(0), record_count=0, body=b"")) == UNREADABLE
    assert tables([str(tmp_path)])["record_faults"].num_rows == 0


@pytest.mark.parametrize("version", [0, 5], ids=["Kafka's", "fencepost's"])
def test_the_usual_markers_are_read_without_opening_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(control_module, "open_records", None)
    assert said(tmp_path, marker(version))["coordinator_epoch"] == 3


def test_no_control_batch_says_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    assert all(len(column) == 0 for column in markers(np.zeros(0, np.uint8), nothing, nothing, nothing))


def test_a_control_batch_of_the_metadata_log_is_no_metadata(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    written(folder, laid([LOGS["__cluster_metadata"][0], batch((None, None))]).content)
    faults = tables([str(tmp_path)])["record_faults"].to_pylist()
    assert [row["offset"] for row in faults] == [1]
