"""Which files are read below a root: each layout that people point at, and what cannot be read said aloud."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from fencepost.audit.decode import plan
from fencepost.audit.decode.files import Entry, LocalFiles, OpenFile
from fencepost.audit.decode.plan import LogFile, list_files
from fencepost.audit.source.remote import RemoteFiles
from fencepost.records.blank_check import with_check
from tests.together import table

BASE = "0" * 20
CHECKPOINT = f"{9:020d}-{2:010d}.checkpoint"


def make(root: Path, *names: str, node: int | None = 1) -> Path:
    """Files below ``root``, empty but for meta.properties."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 7)
    root.mkdir(exist_ok=True)
    if node is not None:
        (root / "meta.properties").write_text(f"#comment\nversion=1\nnode.id={node}\n")
    return root


def short(files: list[LogFile], root: Path) -> list[tuple[int, str, int, str, str, bool]]:
    """What a listing says, with paths from ``root`` on, but for the meta.properties that ``make`` made."""
    return [
        (
            each.node,
            each.topic,
            each.partition,
            os.path.relpath(each.path, root),
            each.kind,
            each.last_of_partition,
        )
        for each in files
        if each.kind != "properties"
    ]


def listed(roots: list[str], **given: Any) -> list[LogFile]:
    """Without the meta.properties that ``make`` made."""
    return [each for each in list_files(roots, **given) if each.kind != "properties"]


def test_what_a_directory_says_of_itself_is_read(tmp_path: Path) -> None:
    make(tmp_path, f"payments-0/{BASE}.log", "payments-0/partition.metadata")
    found = [(each.kind, each.topic, each.node) for each in list_files([str(tmp_path)])]
    assert found == [
        ("properties", "", 1), ("partition-metadata", "payments", 1), ("segment", "payments", 1),
    ]  # fmt: skip


def test_a_kafka_log_directory(tmp_path: Path) -> None:
    make(
        tmp_path,
        f"payments-eu-0/{BASE}.log", f"payments-eu-0/{BASE}.index", f"payments-eu-0/{5:020d}.log",
        "payments-eu-0/leader-epoch-checkpoint", f"__cluster_metadata-0/{BASE}.log",
        f"__cluster_metadata-0/{CHECKPOINT}", f"__cluster_metadata-0/{BASE}.log.deleted",
        f"__cluster_metadata-0/{9:020d}-{2:010d}.checkpoint.part", "bootstrap.checkpoint",
        "recovery-point-offset-checkpoint", node=4,
    )  # fmt: skip
    assert short(list_files([str(tmp_path)]), tmp_path) == [
        (4, "", -1, "recovery-point-offset-checkpoint", "offset-checkpoint", False),
        (
            4,
            "__cluster_metadata",
            0,
            f"__cluster_metadata-0/{CHECKPOINT}",
            "checkpoint",
            False,
        ),
        (4, "__cluster_metadata", 0, "__cluster_metadata-0/*.log.deleted", "unread", False),
        (4, "__cluster_metadata", 0, "__cluster_metadata-0/*.checkpoint.part", "unread", False),
        (4, "__cluster_metadata", 0, f"__cluster_metadata-0/{BASE}.log", "segment", True),
        (4, "payments-eu", 0, "payments-eu-0/leader-epoch-checkpoint", "leader-epochs", False),
        (4, "payments-eu", 0, "payments-eu-0/*.index", "unread", False),
        (4, "payments-eu", 0, f"payments-eu-0/{BASE}.log", "segment", False),
        (4, "payments-eu", 0, f"payments-eu-0/{5:020d}.log", "segment", True),
    ]
    last = list_files([str(tmp_path)])[-1]
    assert (last.base_offset, last.size, last.fault, last.note) == (5, 7, None, None)


def test_a_fencepost_cluster_one_of_its_nodes_a_log_and_a_segment(tmp_path: Path) -> None:
    for node in (1, 2):
        make(
            tmp_path / f".fencepost/nodes/{node}/data",
            f"archive/__transaction_state-0/{BASE}.log", f"payments-{node}/{BASE}.log",
            f"snapshots/{9:020d}-{2:010d}/{CHECKPOINT}", f"snapshots/{9:020d}-{2:010d}/state",
            f"snapshots/{8:020d}-{2:010d}.part/{8:020d}-{2:010d}.checkpoint", "store/data.mdb", node=node,
        )  # fmt: skip
    (tmp_path / ".git/payments-0").mkdir(parents=True)
    (tmp_path / f".git/payments-0/{BASE}.log").touch()

    everything = listed([str(tmp_path)])
    assert [(each.node, each.topic, each.partition) for each in everything] == [
        (1, "__transaction_state", 0), (1, "payments", 1), (1, "__cluster_metadata", 0),
        (2, "__transaction_state", 0), (2, "payments", 2), (2, "__cluster_metadata", 0),
    ]  # fmt: skip
    assert listed([f"{tmp_path}/.fencepost/"]) == listed([str(tmp_path / ".fencepost")]) == everything
    second = tmp_path / ".fencepost/nodes/2/data"
    assert listed([str(second)]) == everything[3:]
    log = second / "archive/__transaction_state-0"
    assert listed([str(log)]) == everything[3:4]
    assert listed([str(log / f"{BASE}.log")]) == everything[3:4]
    assert listed([str(log), str(second), str(log / f"{BASE}.log")]) == everything[3:]
    assert listed([str(log / f"{BASE}.log"), str(log)]) == everything[3:4]


@table(
    ("text", "node"),
    [
        pytest.param("node.id=3", 3, id="node.id"),
        pytest.param("broker.id=5\nversion=0", 5, id="broker.id, of ZooKeeper's time"),
        pytest.param("version=1\n", -1, id="neither"),
        pytest.param("node.id=x", -1, id="no number"),
    ],
)
def test_who_a_directory_belongs_to(tmp_path: Path, text: str, node: int) -> None:
    make(tmp_path, f"a-0/{BASE}.log", node=None)
    (tmp_path / "meta.properties").write_text(text)
    assert [each.node for each in listed([str(tmp_path)])] == [node]


@table(
    ("suffix", "note"),
    [
        ("delete", "a deleted partition on its way out"),
        ("future", "a copy that a broker was still making"),
        ("stray", "a partition that its broker no longer hosts"),
    ],
)
def test_a_partition_on_its_way_is_noted_and_not_read(tmp_path: Path, suffix: str, note: str) -> None:
    make(tmp_path, f"a-b-12.0123456789abcdef0123456789abcdef-{suffix}/{BASE}.log")
    (only,) = listed([str(tmp_path)])
    assert (only.topic, only.partition, only.kind, only.note, only.fault) == (
        "a-b",
        12,
        "directory",
        note,
        None,
    )


def test_what_is_not_there_is_a_fault(tmp_path: Path) -> None:
    (only,) = list_files([str(tmp_path / "gone")])
    assert (only.kind, only.fault) == ("directory", "No such file or directory")


def test_a_file_that_is_no_log_is_a_fault(tmp_path: Path) -> None:
    path = make(tmp_path, "notes.txt") / "notes.txt"
    (only,) = list_files([str(path)])
    assert only.fault == "neither a segment nor a checkpoint nor an export of znodes"


class Denied(LocalFiles):
    """This machine's files, of which a directory may not be listed and a file not be opened."""

    def entries(self, path: str) -> list[Entry]:
        if path.endswith("/a-0"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return super().entries(path)

    def open(self, path: str) -> OpenFile:
        if path.endswith(".json"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return super().open(path)


def test_what_may_not_be_listed_is_a_fault(tmp_path: Path) -> None:
    make(tmp_path, f"a-0/{BASE}.log", f"b-0/{BASE}.log", "b-0/holes.json")
    assert [(each.kind, each.topic, each.fault) for each in listed([str(tmp_path)], files=Denied())] == [
        ("directory", "", "Permission denied"),
        ("hole", "b", "Permission denied"),
        ("segment", "b", None),
    ]


def test_links_are_followed_once_and_one_to_nothing_is_a_fault(tmp_path: Path) -> None:
    make(tmp_path, f"real/a-0/{BASE}.log", node=None)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "real/a-0/loop").symlink_to(tmp_path)
    (tmp_path / "real/nothing-0").symlink_to(tmp_path / "gone")
    found = list_files([str(tmp_path)])
    assert [(each.topic, each.kind, each.fault) for each in found] == [
        ("", "directory", "a link to nothing"),
        ("a", "segment", None),
    ]


def test_a_tree_that_is_too_deep_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, f"1/2/a-0/{BASE}.log", f"1/2/3/b-0/{BASE}.log", node=None)
    monkeypatch.setattr(plan, "DEPTH_MAX", 3)
    assert [(each.topic, each.fault) for each in list_files([str(tmp_path)])] == [
        ("", "not entered: more than 3 directories deep"),
        ("a", None),
    ]


def test_a_tree_of_too_many_files_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, f"a-0/{BASE}.log", node=None)
    monkeypatch.setattr(plan, "ENTRIES_MAX", 2)
    assert [each.fault for each in list_files([str(tmp_path)])] == [None]
    monkeypatch.setattr(plan, "ENTRIES_MAX", 1)
    assert [each.fault for each in list_files([str(tmp_path)])] == ["not entered: too many files"]


@table(
    ("content", "expected"),
    [
        pytest.param({"version": 1, "holes": []}, [], id="none"),
        pytest.param({"version": 1, "holes": [[5, 9], [20, 21]]}, [(5, 4, None), (20, 1, None)], id="two"),
        pytest.param({"version": 2, "holes": []}, "expected version 1, ", id="version"),
        pytest.param({"version": 1, "holes": [[5, 5]]}, "expected ascending", id="empty-hole"),
        pytest.param({"version": 1, "holes": [[5]]}, "expected ascending", id="no-pair"),
        pytest.param({"version": 1, "holes": [7]}, "expected ascending", id="no-list"),
        pytest.param({"version": 1, "holes": 7}, "expected a list", id="no-list-of-lists"),
        pytest.param([], "expected version 1, ", id="no-object"),
    ],
)
def test_holes_are_files_of_their_own(
    tmp_path: Path, content: object, expected: list[tuple[int, int, str | None]] | str
) -> None:
    make(tmp_path, f"archive/__cluster_metadata-0/{BASE}.log")
    (tmp_path / "archive/__cluster_metadata-0/holes.json").write_text(json.dumps(content))
    found = listed([str(tmp_path)])
    holes = [each for each in found if each.kind == "hole"]
    assert [each.topic for each in found] == ["__cluster_metadata"] * len(found)
    if isinstance(expected, str):
        assert holes[0].base_offset is None
        assert str(holes[0].fault).startswith(f"not the holes of a log: {expected}")
    else:
        assert [(each.base_offset, each.size, each.fault) for each in holes] == expected


def test_holes_that_changed_are_not_those_of_the_log(tmp_path: Path) -> None:
    make(tmp_path, f"archive/__cluster_metadata-0/{BASE}.log")
    path = tmp_path / "archive/__cluster_metadata-0/holes.json"
    for content, fault in (
        (with_check(b'{"version":1,"holes":[[5,9]]}'), None),
        (with_check(b'{"version":1,"holes":[[5,9]]}').replace(b"9", b"8"), "not the holes of a log: other"),
    ):
        path.write_bytes(content)
        (hole,) = [each for each in listed([str(tmp_path)]) if each.kind == "hole"]
        assert (hole.fault or "").startswith(fault or "")
        assert (hole.base_offset, hole.size) == ((5, 4) if fault is None else (None, 0))


def test_an_export_is_known_by_what_it_says(tmp_path: Path) -> None:
    make(tmp_path, "cluster.json", node=None)
    path = tmp_path / "znodes.json"
    path.write_text(json.dumps({"format": "fencepost-znodes", "version": 1}, indent=1))
    assert short(list_files([str(tmp_path)]), tmp_path) == [
        (-1, "", -1, "znodes.json", "zookeeper-export", False)
    ]
    assert short(list_files([str(path)]), tmp_path) == [
        (-1, "", -1, "znodes.json", "zookeeper-export", False)
    ]


def test_another_file_system_is_listed_alike(tmp_path: Path) -> None:
    make(tmp_path, f"payments-0/{BASE}.log", f"__cluster_metadata-0/{CHECKPOINT}")
    files = RemoteFiles(LocalFileSystem(), "test://", "test")
    assert list_files([str(tmp_path)], files=files) == list_files([str(tmp_path)])
    assert list_files(["/nowhere/at/all"], files=files)[0].fault is not None
