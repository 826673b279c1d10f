"""Snapshot directories: the image at one Raft index, written beside it and published by rename.

``<end offset>-<epoch>/`` of the metadata log holds
  ``<same>.checkpoint``   Kafka's checkpoint: header, features, migration, brokers, topics and their
                          settings, the latest block, footer.
  ``state``               every row of the image, exactly (the checkpoint cannot carry all of it).
  ``manifest``            JSON: cluster, log ends, Raft index and term, version, digest, SHA-256 of the two
                          and of itself.

Law        ``load(write(image)) == image``, and equal images give equal digests.
Crash      a directory without the final name (``*.part``) never existed; it is removed at start.
Refusal    a file that is missing, torn, or of another SHA-256 refuses the whole directory, by name.
Latest     the checkpoint holds the latest producer-id block with its broker and epoch, and no earlier
           one (row 730.6); Kafka's own snapshot keeps only the end.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.controller import (
    acls,
    broker_configs,
    brokers,
    features,
    levels,
    migration,
    producer_ids,
    scram,
    topics,
    voters,
)
from fencepost.controller.view import ImageHeader, View
from fencepost.records.batch import BatchRecord, encode_batch, iter_batches
from fencepost.records.control import KRaftVersion, SnapshotFooter, SnapshotHeader, encode_control
from fencepost.records.frame import decode_frame, encode_frame
from fencepost.records.invariant import CorruptData
from fencepost.records.levels import LEVEL_MAX, LevelTooHigh
from fencepost.records.named_errors import naming, why
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)
from fencepost.records.types import ImageVersion, Log, LogIndex, NodeId, Offset, Term
from fencepost.snapshots.flushes import flush, sync_path
from fencepost.snapshots.reader import Reader, digest_of
from fencepost.snapshots.reads import read_bytes
from fencepost.snapshots.rows import Row

FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 64 * 1024
KEPT: Final = 2  # snapshots kept; older ones are deleted
_ROWS_PER_CHUNK: Final = 1000
_RECORDS_PER_BATCH: Final = 1000  # of a checkpoint; Kafka's readers take batches of up to 8 MiB
_ROWS: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes, bytes]])


class CorruptSnapshot(CorruptData):
    """A snapshot that must not be used. The text names the file and what is wrong with it."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot is, and the SHA-256 and size of its files."""

    format: int
    cluster_id: str
    raft_index: LogIndex
    raft_term: Term
    version: ImageVersion
    controller_epoch: Term
    leader_id: NodeId
    log_ends: tuple[int, int, int]
    timestamp_ms: int
    digest: str
    files: dict[str, tuple[int, str]]  # name -> bytes, SHA-256
    checksum: str = ""  # SHA-256 of the manifest itself, as it reads with this left empty
    log_level: int | msgspec.UnsetType = msgspec.UNSET  # of the image; left out at level 0

    @property
    def name(self) -> str:
        """The directory's name: end offset and epoch, as Kafka names checkpoints."""
        return f"{self.log_ends[Log.METADATA]:020d}-{self.controller_epoch:010d}"

    @property
    def full_name(self) -> str:
        """The ends of all logs, the metadata log's with the epoch first: no two states have the same one.

        But for entries without a record: they move no log's end.
        """
        others = [
            f"{end:020d}" for log, end in zip(Log, self.log_ends, strict=True) if log is not Log.METADATA
        ]
        return "-".join((self.name, *others))

    @property
    def header(self) -> ImageHeader:
        """The header of the snapshot's image."""
        return ImageHeader(self.version, self.controller_epoch, self.leader_id, self.log_ends)


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's file, its own checksum filled in. Inverse: ``decode_manifest``."""
    unsigned = msgspec.json.encode(msgspec.structs.replace(manifest, checksum=""))
    checksum = hashlib.sha256(unsigned).hexdigest()
    return msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(manifest, checksum=checksum)))


def decode_manifest(raw: bytes, origin: str) -> Manifest:
    """Raises CorruptSnapshot, also if one byte is not the one that was written; LevelTooHigh."""
    _require_readable(raw, origin)
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptSnapshot(f"{origin}: not a snapshot manifest: {error}") from error
    if raw != encode_manifest(manifest):
        raise CorruptSnapshot(f"{origin}: the manifest is not as it was written: its checksum does not fit")
    expected = {"state", f"{manifest.name}.checkpoint"}
    if manifest.format != FORMAT or set(manifest.files) != expected:
        raise CorruptSnapshot(
            f"{origin}: format {manifest.format} with files {sorted(manifest.files)}; "
            f"expected format {FORMAT} with {sorted(expected)}"
        )
    return manifest


def _require_readable(raw: bytes, origin: str) -> None:
    """Raises LevelTooHigh for a sound manifest of a later version, whatever else it holds."""
    try:
        said = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    level, unsigned = said.get("log_level"), msgspec.json.encode(said | {"checksum": ""})
    sound = hashlib.sha256(unsigned).hexdigest() == said.get("checksum")
    if sound and isinstance(level, int) and level > LEVEL_MAX:
        raise LevelTooHigh(origin, level)


def write(reader: Reader, root: Path, *, cluster_id: str, raft: tuple[LogIndex, Term], now_ms: int) -> Path:
    """Write the reader's image below ``root``; returns the published directory.

    Every file is synced, then the directory renamed into place, then ``root`` synced. One that is
    there already is kept: same end offset and epoch means the same records were applied.
    """
    header = reader.header
    manifest_of = f"{header.log_ends[Log.METADATA]:020d}-{header.controller_epoch:010d}"
    final, part = root / manifest_of, root / f"{manifest_of}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    files: dict[str, tuple[int, str]] = {}
    files["state"] = _write_file(part / "state", _state_chunks(reader.rows()))
    checkpoint = f"{manifest_of}.checkpoint"
    files[checkpoint] = _write_file(part / checkpoint, _checkpoint(reader, now_ms))
    manifest = Manifest(
        format=FORMAT,
        cluster_id=cluster_id,
        raft_index=raft[0],
        raft_term=raft[1],
        version=header.version,
        controller_epoch=header.controller_epoch,
        leader_id=header.leader_id,
        log_ends=header.log_ends,
        timestamp_ms=now_ms,
        digest=reader.digest(),
        files=files,
        log_level=levels.in_force(reader) or msgspec.UNSET,
    )
    _write_file(part / "manifest", [encode_manifest(manifest)])
    publish(part, final)
    return final


def publish(part: Path, final: Path) -> None:
    """Make a complete directory visible under its final name, durably."""
    if final.exists():
        shutil.rmtree(final)
    sync_path(part)
    os.rename(part, final)
    sync_path(final.parent)


def verify(directory: Path) -> Manifest:
    """Check every byte. Raises CorruptSnapshot naming the file."""
    manifest = read_manifest(directory)
    if not directory.name.endswith(".part") and directory.name not in (manifest.name, manifest.full_name):
        raise CorruptSnapshot(f"{directory}: the manifest is that of {manifest.name}")
    for name, (size, sha256) in manifest.files.items():
        try:
            with open(directory / name, "rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise CorruptSnapshot(f"{directory / name}: cannot be read: {why(error)}") from error
        actual = (directory / name).stat().st_size
        if (actual, found) != (size, sha256):
            raise CorruptSnapshot(
                f"{directory / name}: expected {size} bytes with SHA-256 {sha256[:16]}..., "
                f"found {actual} bytes with {found[:16]}..."
            )
    return manifest


def load(directory: Path) -> tuple[Manifest, list[Row]]:
    """Every row of a sound snapshot. Raises CorruptSnapshot."""
    manifest = verify(directory)
    rows = list(read_rows(directory / "state"))
    if digest_of(manifest.header, iter(rows)) != manifest.digest:
        raise CorruptSnapshot(f"{directory / 'state'}: the image's digest is not the manifest's")
    return manifest, rows


def read_rows(path: Path) -> Iterator[Row]:
    """Inverse of the state file's writing. Raises CorruptSnapshot."""
    raw = read_bytes(path)
    position = 0
    while position < len(raw):
        size = int.from_bytes(raw[position : position + 4], "big")
        try:
            yield from _ROWS.decode(raw[position + 4 : position + 4 + size])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptSnapshot(f"{path}: rows at byte {position} do not decode: {error}") from error
        position += 4 + size


def read_manifest(directory: Path) -> Manifest:
    """Raises CorruptSnapshot if there is none, or an unreadable one."""
    path = directory / "manifest"
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MANIFEST_BYTES_MAX)
    except OSError as error:
        raise CorruptSnapshot(f"{path}: cannot be read: {why(error)}") from error
    return decode_manifest(raw, str(path))


def listed(root: Path) -> list[Path]:
    """Published snapshots, newest first. Sound or not: ``verify`` tells."""
    if not root.is_dir():
        return []
    return sorted((p for p in root.iterdir() if p.is_dir() and "." not in p.name), reverse=True)


def tidy(root: Path, kept: int = KEPT) -> None:
    """Remove all but the newest ``kept``."""
    for old in listed(root)[kept:]:
        shutil.rmtree(old)


def sweep(root: Path) -> None:
    """Remove what a crash left unfinished. Only at start: later they are work in progress."""
    for part in root.glob("*.part") if root.is_dir() else ():
        shutil.rmtree(part)


def set_aside(directory: Path) -> Path:
    """Rename a refused snapshot so that nothing uses it and its bytes stay for inspection."""
    aside = directory.with_name(f"{directory.name}.refused")
    if aside.exists():
        shutil.rmtree(aside)
    os.rename(directory, aside)
    return aside


def checkpoint_records(path: Path) -> Iterator[MetadataRecord]:
    """The metadata records of a checkpoint file. Raises CorruptData."""
    for batch in iter_batches(read_bytes(path)):
        if batch.is_control:
            continue
        for record in batch.records:
            yield decode_frame(record.value or b"")


def _write_file(path: Path, chunks: Iterable[bytes]) -> tuple[int, str]:
    hasher = hashlib.sha256()
    size = 0
    with naming(path), open(path, "xb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            hasher.update(chunk)
            size += len(chunk)
        stream.flush()
        flush(stream.fileno(), path)
    return size, hasher.hexdigest()


def _state_chunks(rows: Iterator[Row]) -> Iterator[bytes]:
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_PER_CHUNK:
            yield _state_chunk(waiting)
            waiting = []
    if waiting:
        yield _state_chunk(waiting)


def _state_chunk(rows: list[Row]) -> bytes:
    encoded = msgspec.msgpack.encode(rows)
    return len(encoded).to_bytes(4, "big") + encoded


def _checkpoint(view: View, now_ms: int) -> Iterator[bytes]:
    """Kafka's checkpoint, offsets from 0: header, data and footer batches (docs/kafka-notes.md G3)."""
    epoch = view.header.controller_epoch
    bound = voters.bindings(view)
    opening = [encode_control(SnapshotHeader(last_contained_log_timestamp=now_ms))]
    if bound:
        opening.append(encode_control(KRaftVersion(k_raft_version=voters.KRAFT_VERSION)))
        opening.append(encode_control(voters.voters_record(bound)))
    keyed = [BatchRecord(*pair) for pair in opening]
    offset = Offset(0)
    yield encode_batch(keyed, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch, control=True)
    offset = Offset(offset + len(keyed))
    records = _image_records(view)
    while frames := [BatchRecord(None, encode_frame(each)) for each in islice(records, _RECORDS_PER_BATCH)]:
        yield encode_batch(frames, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch)
        offset = Offset(offset + len(frames))
    footer = [BatchRecord(*encode_control(SnapshotFooter()))]
    yield encode_batch(footer, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch, control=True)


def _image_records(view: View) -> Iterator[MetadataRecord]:
    """The image as records: metadata.version first, the migration, brokers, topics, the block."""
    levels = dict(view.items(features.FEATURES))
    for name in sorted(levels, key=lambda each: (each != features.METADATA_VERSION, each)):
        yield FeatureLevelRecord(name=name, feature_level=levels[name].level)
    state = migration.state_record(view)
    if state is not None:
        yield state
    for _, broker in view.items(brokers.BROKERS):
        yield RegisterBrokerRecord(
            broker_id=broker.broker_id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.epoch,
            end_points=tuple(
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in broker.endpoints
            ),
            features=tuple(
                BrokerFeature(
                    name=f.name,
                    min_supported_version=f.min_supported_version,
                    max_supported_version=f.max_supported_version,
                )
                for f in broker.features
            ),
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=(broker.directory_id,),
        )
    yield from topics.records_of(view)
    yield from broker_configs.records_of(view)
    yield from acls.records_of(view)
    yield from scram.records_of(view)
    block = producer_ids.latest(view)
    if block.end > 0:
        yield AllocateProducerIdsRecord(
            broker_id=block.broker_id, broker_epoch=block.broker_epoch, producer_id_end=block.end
        )
