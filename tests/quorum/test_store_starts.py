"""A store that was opened less often than is written beside it is an older one, and forgot votes."""

import shutil
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.quorum.store_starts import STARTS_FILE, count_start, remember_start, require_latest
from fencepost.records.types import NodeId
from fencepost.settings.node_identity import Identity
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import StoreDamaged
from tests.wire.stage import capturing_log

IDENTITY = Identity(
    cluster_id="c", node_id=NodeId(1), directory_id=UUID(int=1), voter_id=UUID(int=2), initial_voters=None
)


def started(home: Path, *, remembers: bool = True) -> list[str]:
    """As a node does, killed before it wrote beside its store if not ``remembers``. Raises StoreDamaged.

    Returns the events that it logged.
    """
    log, events = capturing_log()
    store = Store.open(home / "store", sync=False)
    try:
        require_latest(store, home, IDENTITY)
        count_start(store)
        store.flush()
        if remembers:
            remember_start(store, home, IDENTITY, log)
    finally:
        store.abandon()
    return [each["event"] for each in events]


def copied(home: Path, name: str) -> None:
    shutil.copytree(home / "store", home / name)


def put_back(home: Path, name: str) -> None:
    shutil.rmtree(home / "store")
    shutil.copytree(home / name, home / "store")


@pytest.mark.row("beyond.13")
def test_a_copy_of_the_store_before_its_last_start_is_a_lost_store(tmp_path: Path) -> None:
    started(tmp_path)
    copied(tmp_path, "of the first")
    started(tmp_path)
    copied(tmp_path, "of the second")
    started(tmp_path)
    for name in ("of the first", "of the second"):
        put_back(tmp_path, name)
        with pytest.raises(StoreDamaged, match=r"it was opened [12] times, and .* start number 3"):
            started(tmp_path)


def test_a_process_killed_between_store_and_file_is_no_older_store(tmp_path: Path) -> None:
    started(tmp_path, remembers=False)
    started(tmp_path, remembers=False)
    started(tmp_path)
    started(tmp_path)


@pytest.mark.parametrize("at", range(34))
def test_a_file_with_a_changed_byte_says_nothing(tmp_path: Path, at: int) -> None:
    for _ in range(3):
        started(tmp_path)
    file = tmp_path / STARTS_FILE
    raw = file.read_bytes()
    assert len(raw) == 34
    file.write_bytes(raw[:at] + bytes((raw[at] ^ 4,)) + raw[at + 1 :])
    assert started(tmp_path) == ["store_starts_damaged"]
    assert file.read_bytes().split(b" ")[1] == b"4"


def test_the_file_of_another_voter_says_nothing(tmp_path: Path) -> None:
    """A node whose store was lost is a new voter, and begins to count again."""
    store = Store.open(tmp_path / "store", sync=False)
    for _ in range(3):
        count_start(store)
    remember_start(store, tmp_path, replace(IDENTITY, voter_id=UUID(int=3)), capturing_log()[0])
    store.abandon()
    started(tmp_path)


def test_a_full_disk_is_no_reason_not_to_start(tmp_path: Path) -> None:
    assert started(tmp_path) == []
    (tmp_path / f"{STARTS_FILE}.part").mkdir()  # what is written aside cannot be
    assert started(tmp_path) == ["store_starts_not_kept"]
    assert started(tmp_path) == ["store_starts_not_kept"]
