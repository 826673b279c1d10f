"""The files beside segments: what they become, and each way that they are not as their writer writes them."""

import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.local import tables
from fencepost.audit.decode.side_files import decode_side_file
from fencepost.broker.log.log_starts import encode_starts
from fencepost.records.batch import encode_batch
from fencepost.records.control import LeaderChange, Voter, encode_control
from fencepost.records.frame import encode_frame
from fencepost.records.schema import PartitionRecord
from fencepost.records.types import NodeId, Offset

FOLDER = "orders-0"
OFFSETS = ("offset-checkpoint", "replication-offset-checkpoint")
STARTS = ("offset-checkpoint", "log-start-offset-checkpoint")
EPOCHS = ("leader-epochs", "leader-epoch-checkpoint")
INDEX = ("transaction-index", f"{0:020}.txnindex")
SNAPSHOT = ("producer-snapshot", f"{7:020}.snapshot")
QUORUM = ("quorum-state", "quorum-state")
TOPIC_ID = ("partition-metadata", "partition.metadata")
PROPERTIES = ("properties", "meta.properties")
ID = "ahACMJTsRY6wesBMRrVEyA"
STATE = struct.Struct(">qhiqiqiq")


def rows(tmp_path: Path, kind: str, name: str, content: bytes) -> dict[str, list[dict[str, Any]]]:
    (tmp_path / FOLDER).mkdir(exist_ok=True)
    path = tmp_path / FOLDER / name
    path.write_bytes(content)
    found: dict[str, list[dict[str, Any]]] = {}
    for table, batch in decode_side_file(kind, str(path), Where(1, "orders", 0, str(path))):
        assert batch.schema == TABLES[table]
        found.setdefault(table, []).extend(batch.to_pylist())
    return found


def reason(found: dict[str, list[dict[str, Any]]]) -> str:
    (fault,) = found["record_faults"]
    return str(fault["reason"])


def snapshot(*states: tuple[int, ...], version: int = 1, flip: int = 0) -> bytes:
    body = struct.pack(">I", len(states)) + b"".join(STATE.pack(*state) for state in states)
    return struct.pack(">hI", version, crc32c(body) ^ flip) + body


def aborted(*entries: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack(">hqqqq", *entry) for entry in entries)


def test_a_checkpoint_of_offsets_names_each_partitions_directory(tmp_path: Path) -> None:
    content = b"0\n2\norders 1 80\n__transaction_state 3 27\n"
    found = rows(tmp_path, "offset-checkpoint", "replication-offset-checkpoint", content)
    folder = str(tmp_path / FOLDER)
    assert [
        (row["topic"], row["partition"], row["copy"], row["kind"], row["offset"])
        for row in found["offset_checkpoints"]
    ] == [
        ("orders", 1, f"{folder}/orders-1", "high-watermark", 80),
        ("__transaction_state", 3, f"{folder}/__transaction_state-3", "high-watermark", 27),
    ]


def test_lines_of_leader_epochs(tmp_path: Path) -> None:
    found = rows(tmp_path, "leader-epochs", "leader-epoch-checkpoint", b"0\n2\n1 0\n4 70\n")
    assert [(row["epoch"], row["start_offset"]) for row in found["leader_epochs"]] == [(1, 0), (4, 70)]


def test_a_file_that_was_made_and_not_yet_written_has_no_lines(tmp_path: Path) -> None:
    assert rows(tmp_path, *EPOCHS, b"") == {}


def test_entries_of_a_transaction_index(tmp_path: Path) -> None:
    found = rows(
        tmp_path, "transaction-index", f"{0:020}.txnindex", aborted((0, 9, 3, 7, 8), (0, 9, 9, 12, 13))
    )
    assert [
        (row["position"], row["producer_id"], row["first_offset"], row["last_offset"])
        for row in found["aborted_transactions"]
    ] == [(0, 9, 3, 7), (34, 9, 9, 12)]


def test_producers_of_a_snapshot(tmp_path: Path) -> None:
    found = rows(tmp_path, "producer-snapshot", f"{70:020}.snapshot", snapshot((9, 2, 5, 61, 3, 1000, 7, 58)))
    (row,) = found["producer_states"]
    assert (row["offset"], row["producer_id"], row["producer_epoch"], row["first_offset"]) == (70, 9, 2, 58)


def test_the_voters_of_a_quorum(tmp_path: Path) -> None:
    old = b'{"leaderEpoch":3,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    found = rows(tmp_path, "quorum-state", "quorum-state", old)
    assert [(row["leader_epoch"], row["voter_id"]) for row in found["voters"]] == [(3, 1), (3, 2)]
    assert rows(tmp_path, "quorum-state", "quorum-state", b'{"leaderEpoch":3,"data_version":1}') == {}


def test_the_topic_of_a_partition_s_directory(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, *TOPIC_ID, f"version: 0\ntopic_id: {ID}".encode())["directories"]
    assert (row["kind"], row["identifier"], row["broker_id"]) == ("partition", ID, None)
    assert row["copy"] == str(tmp_path / FOLDER)


def test_the_node_of_an_entry_of_log_dirs(tmp_path: Path) -> None:
    content = f"#\nversion=1\ncluster.id=x\nnode.id=1\ndirectory.id={ID}\n".encode()
    found = rows(tmp_path, *PROPERTIES, content)["directories"]
    assert [(row["kind"], row["identifier"], row["broker_id"]) for row in found] == [
        ("log-dir", ID, 1),
        ("cluster", "x", 1),
    ]


def test_fenceposts_log_starts_have_a_checksum(tmp_path: Path) -> None:
    content = encode_starts({"orders-0": Offset(5), "pay-1": Offset(80)})
    found = rows(tmp_path, *STARTS, content)
    assert [(row["topic"], row["offset"]) for row in found["offset_checkpoints"]] == [
        ("orders", 5), ("pay", 80)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "content"),
    [
        pytest.param(TOPIC_ID, b"", id="a-partition-s-file-that-was-made-and-not-yet-written"),
        pytest.param(PROPERTIES, b"version=0\nbroker.id=1\n", id="properties-from-before-directory-ids"),
        pytest.param(PROPERTIES, b"\xff\xfe", id="properties-that-are-no-text"),
    ],
)
def test_a_directory_that_does_not_say_what_it_is(
    tmp_path: Path, file: tuple[str, str], content: bytes
) -> None:
    assert rows(tmp_path, *file, content) == {}


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        pytest.param(TOPIC_ID, b"version: 1\ntopic_id: x\n", "version 0", id="a-newer-partition-s-file"),
        pytest.param(TOPIC_ID, b"\xff" * 40, "topic_id", id="a-partition-s-file-that-is-no-text"),
        pytest.param(OFFSETS, b"0\n2\na 1 80\n", "2", id="a-line-is-gone"),
        pytest.param(OFFSETS, b"1\n0\n", "version", id="a-newer-version"),
        pytest.param(OFFSETS, b"0\n1\na 1 x\n", "line 3", id="no-offset"),
        pytest.param(OFFSETS, b"\xff\n0\n", "no checkpoint", id="no-text"),
        pytest.param(STARTS, b"0\n2\n~crc32c 0 3410870065\na 1 6\n", "checksum", id="other-log-starts"),
        pytest.param(EPOCHS, b"0\n2\n4 0\n1 70\n", "after epoch 4", id="epochs-go-back"),
        pytest.param(EPOCHS, b"0\n2\n1 9\n2 7\n", "from 7 on", id="starts-go-back"),
        pytest.param(INDEX, aborted((0, 9, 3, 7, 8))[:-1], "33 bytes", id="torn"),
        pytest.param(INDEX, aborted((1, 9, 3, 7, 8)), "version 1", id="index-version"),
        pytest.param(INDEX, aborted((0, 9, 8, 7, 8)), "8 to 7", id="ends-before-it-begins"),
        pytest.param(INDEX, aborted((0, 9, 3, 7, 8)) * 2, "after 7", id="twice"),
        pytest.param(SNAPSHOT, snapshot(flip=1), "checksum", id="a-wrong-checksum"),
        pytest.param(SNAPSHOT, snapshot(version=2), "version 2", id="snapshot-version"),
        pytest.param(SNAPSHOT, b"\0", "1 bytes", id="nearly-nothing"),
        pytest.param(QUORUM, b"{", "quorum", id="no-json"),
        pytest.param(QUORUM, b"[" * 100_000, "quorum", id="json-without-end"),
    ],
)
def test_what_is_not_as_it_was_written_is_a_fault(
    tmp_path: Path, file: tuple[str, str], content: bytes, expected: str
) -> None:
    assert expected in reason(rows(tmp_path, *file, content))


def test_who_has_a_partition_and_who_votes(tmp_path: Path) -> None:
    voters = tuple(Voter(voter_id=NodeId(each)) for each in (1, 2, 3))
    change = LeaderChange(version=0, leader_id=NodeId(2), voters=voters)
    partition = PartitionRecord(partition_id=4, topic_id=UUID(int=7), replicas=(1, 2), isr=(2,), leader=2)
    changed = (
        b"\x01\x05\x00"
        + struct.pack(">i", 4)
        + UUID(int=7).bytes
        + b"\x02\x01\x04\x00\x00\x00\x01\x05\x01\x01"
    )
    content = encode_batch([(*encode_control(change), ())], timestamp_ms=5, control=True, base_offset=0)
    content += encode_batch(
        [(None, encode_frame(partition), ()), (None, changed, ())], timestamp_ms=5, base_offset=1
    )
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(content)
    found = tables([str(tmp_path)])
    assert found["voters"]["voter_id"].to_pylist() == [1, 2, 3]
    assert [
        (row["event"], row["partition_id"], row["replicas"], row["isr"], row["leader"], row["recovering"])
        for row in found["partitions"].to_pylist()
    ] == [("created", 4, [1, 2], [2], 2, False), ("changed", 4, None, None, 1, True)]
    assert found["record_faults"].num_rows == 0
