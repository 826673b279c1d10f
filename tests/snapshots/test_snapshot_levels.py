"""Snapshots and log levels: level 0 leaves no trace, a higher one is said, one above this node stops it."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.controller.levels import LOG_LEVEL, in_force
from fencepost.controller.replay import replay_record
from fencepost.controller.view import ImageHeader
from fencepost.records.levels import LEVEL_MAX, LevelTooHigh
from fencepost.records.schema import FeatureLevelRecord, MetadataRecord
from fencepost.records.types import ImageVersion, LogIndex, NodeId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.snapshot import CorruptSnapshot
from fencepost.snapshots.store import Store
from tests.controller.worlds import level, registered
from tests.together import table

BASE: tuple[MetadataRecord, ...] = (level("metadata.version", 25), registered(1, 10))
BEFORE_LEVELS = "9b42f1fa485323610706ed2d0dd51f729249bbbac0ca492b587d832e05630549"
"""The manifest's checksum, and so every byte of the snapshot, as the version before log levels wrote it."""


def written(root: Path, *records: MetadataRecord) -> Path:
    """A snapshot of the image after these records."""
    store = Store.open(root / "store", sync=False)
    for record in records:
        replay_record(store.image, record)
    store.image.header = ImageHeader(ImageVersion(8), Term(3), NodeId(1), (42, 7, 0))
    store.flush()
    try:
        with store.reader() as reader:
            return snapshot.write(
                reader, root / "snapshots", cluster_id="c", raft=(LogIndex(50), Term(3)), now_ms=1
            )
    finally:
        store.abandon()


def signed(manifest: dict[str, Any]) -> bytes:
    """As ``encode_manifest`` writes it, whatever the fields are."""
    checksum = hashlib.sha256(msgspec.json.encode(manifest | {"checksum": ""})).hexdigest()
    return msgspec.json.format(msgspec.json.encode(manifest | {"checksum": checksum}))


def test_level_0_leaves_no_trace_in_a_snapshot(tmp_path: Path) -> None:
    """Its bytes are those of the version before log levels, whose manifests know no other field."""
    directory = written(tmp_path, *BASE)
    assert b"log_level" not in (directory / "manifest").read_bytes()
    manifest = snapshot.verify(directory)
    assert manifest.checksum == BEFORE_LEVELS
    names = {
        record.name
        for record in snapshot.checkpoint_records(directory / f"{manifest.name}.checkpoint")
        if isinstance(record, FeatureLevelRecord)
    }
    assert names == {"metadata.version"}


def test_a_level_is_in_manifest_rows_and_checkpoint(tmp_path: Path) -> None:
    directory = written(tmp_path, *BASE, level(LOG_LEVEL, 1))
    manifest, rows = snapshot.load(directory)
    assert manifest.log_level == 1
    assert snapshot.decode_manifest(snapshot.encode_manifest(manifest), "here") == manifest
    checkpoint = snapshot.checkpoint_records(directory / f"{manifest.name}.checkpoint")
    assert [record for record in checkpoint if isinstance(record, FeatureLevelRecord)] == [
        level("metadata.version", 25),
        level(LOG_LEVEL, 1),
    ]
    copy = Store.open(tmp_path / "copy", sync=False)
    copy.put_rows(1, rows)
    copy.flip(1, manifest.header)
    assert in_force(copy.image) == 1
    assert image_digest(copy) == manifest.digest
    copy.abandon()


LATER = [
    pytest.param({}, id="as-it-is"),
    pytest.param({"format": 9, "files": {"other": 1}}, id="another-format"),
    pytest.param({"more": [1, {"a": None}], "digest": 5}, id="fields-that-nobody-knows"),
]


@table("change", LATER)
@table("above", [LEVEL_MAX + 1, 2**15 - 1], ids=["next", "highest"])
def test_a_sound_manifest_of_a_later_level_is_no_damage(
    tmp_path: Path, above: int, change: dict[str, Any]
) -> None:
    manifest = msgspec.json.decode((written(tmp_path, *BASE) / "manifest").read_bytes())
    with pytest.raises(LevelTooHigh, match=f"there has log level {above}.*: upgrade this node"):
        snapshot.decode_manifest(signed(manifest | change | {"log_level": above}), "there")


def test_a_level_that_a_broken_byte_made_is_damage(tmp_path: Path) -> None:
    raw = (written(tmp_path, *BASE, level(LOG_LEVEL, 10)) / "manifest").read_bytes()
    broken = raw.replace(b'"log_level": 10', b'"log_level": 90')
    assert broken != raw
    with pytest.raises(CorruptSnapshot, match="checksum"):
        snapshot.decode_manifest(broken, "there")
