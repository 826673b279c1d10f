"""A folder of tables: Parquet files, and one manifest that says which of them count.

Layout      <folder>/manifest.json, <folder>/lock, <folder>/<table>/<commit>-<task>-<random>.parquet
Commit      new files are written and synced first; then the manifest is replaced by one ``rename``. Killed at
            any line, the folder is as it was before or as it is after: a file that the manifest does not name
            is not read, and is deleted by the next writer.
One writer  holds a lock on <folder>/lock, which the kernel gives back when it dies. Readers take none: they
            read one manifest, whose files stay for ``RETIRED_SECONDS`` after a later manifest has dropped
            them.
Small       files are merged from ``SMALL_FILES_MAX`` on, or a year of watching would be a million files.
Place       a local file system, or one that every worker has mounted at the same path.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.audit.decode.columns import TABLES, TABLES_VERSION
from fencepost.audit.tables.refused import TablesRefused

SMALL_BYTES: Final = 1024 * 1024
SMALL_FILES_MAX: Final = 32  # of one table, before they are merged
RETIRED_SECONDS: Final = 3600  # the longest that a check may take with the tables that it began with
ROW_GROUP_ROWS: Final = 262_144
_GROWING: Final = frozenset({
    "position", "base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms", "base_sequence",
    "offset", "timestamp_ms", "updated_ms", "block_first", "block_end", "committed_offset",
})  # fmt: skip
_RANDOM: Final = frozenset({"crc"})
_MANIFEST: Final = "manifest.json"
_LOCK: Final = "lock"
_OURS: Final = re.compile(r"\d{8}-\d{5}-[0-9a-f]{16}\.parquet")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file of rows, and the log files that they were read out of."""

    table: str
    name: str
    rows: int
    size: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a folder holds.

    ``files``    of the table ``files`` a row each; ``mark`` and ``is_last_sound`` say where to go on.
    ``retired``  names of files that count no longer, and when they ceased to, in seconds since 1970.
    """

    version: int = TABLES_VERSION
    commit: int = 0
    settled_ms: int | None = None
    roots: tuple[str, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    parts: tuple[TableFile, ...] = ()
    retired: Mapping[str, float] = field(default_factory=dict)


def read_manifest(folder: Path) -> Manifest:
    """Raises TablesRefused if there is none, it is of another version, or it is none of ours."""
    try:
        document = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        version = document["version"]
        if version != TABLES_VERSION:
            raise TablesRefused(
                f"{folder}: tables of version {version}, expected {TABLES_VERSION}; ingest anew"
            )
        parts = tuple(
            TableFile(each["table"], each["name"], each["rows"], each["size"], tuple(each["paths"]))
            for each in document.pop("parts")
        )
        return Manifest(
            **{**document, "roots": tuple(document["roots"]), "files": tuple(document["files"])}, parts=parts
        )
    except FileNotFoundError as error:
        raise TablesRefused(f"{folder}: no tables are here; `fencepost audit ingest` makes them") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TablesRefused(f"{folder / _MANIFEST}: {error}") from error


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[Manifest]:
    """The manifest, and the right to replace it until the end. Raises TablesRefused, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TablesRefused(f"{folder}: another ingest is at work here") from error
        manifest = read_manifest(folder) if (folder / _MANIFEST).exists() else Manifest()
        for table in TABLES:
            (folder / table).mkdir(exist_ok=True)
        yield manifest
    finally:
        os.close(descriptor)


def commit(folder: Path, manifest: Manifest, now: float) -> Manifest:
    """Make ``manifest`` what readers see, small files merged. ``now`` in seconds since 1970.

    What the last manifest named and this one does not is retired; what was retired long ago is deleted.
    """
    before = read_manifest(folder) if (folder / _MANIFEST).exists() else Manifest()
    parts = _merged(folder, manifest)
    kept = {_place(each) for each in parts}
    retired = {name: at for name, at in before.retired.items() if now - at < RETIRED_SECONDS}
    retired |= {_place(each): now for each in before.parts if _place(each) not in kept}
    manifest = replace(manifest, parts=parts, retired=retired)
    _synced(folder / _MANIFEST, json.dumps(asdict(manifest), separators=(",", ":")).encode())
    sweep(folder, manifest)
    return manifest


def sweep(folder: Path, manifest: Manifest) -> None:
    """Delete what no reader can want: what a writer that was killed has left, and what retired long ago."""
    wanted = {_place(each) for each in manifest.parts} | set(manifest.retired)
    for table in TABLES:
        for path in (folder / table).iterdir():
            if _OURS.fullmatch(path.name) and f"{table}/{path.name}" not in wanted:
                path.unlink(missing_ok=True)


def without(folder: Path, parts: Sequence[TableFile], paths: Collection[str], commit: int) -> list[TableFile]:
    """The parts less every row that was read out of ``paths``: those that have such rows are written anew."""
    gone = set(paths)
    kept = []
    for part in parts:
        if gone.isdisjoint(part.paths):
            kept.append(part)
        elif not gone.issuperset(part.paths):
            kept += _rewritten(folder, part.table, [part], gone, commit)
    return kept


class PartWriter:
    """Rows of the tables on their way into Parquet files, a file for each table that has rows.

    At the end of its ``with`` what was not closed is given up, and deleted by who writes next.
    """

    def __init__(self, folder: Path, commit: int, task: int) -> None:
        self._folder = folder
        self._stem = f"{commit:08d}-{task:05d}"
        self._open: dict[str, _Part] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._open.values():
            part.give_up()

    def write(self, table: str, rows: Any, path: str) -> None:
        """Add a record batch that was read out of ``path``. Raises OSError."""
        if rows.num_rows:
            if table not in self._open:
                name = f"{self._stem}-{secrets.token_hex(8)}.parquet"
                self._open[table] = _Part(self._folder / table / name, table)
            self._open[table].write(rows, path)

    def close(self) -> list[TableFile]:
        """The files, synced. Raises OSError."""
        return [part.close() for part in self._open.values()]


class _Part:
    """One Parquet file that is being written."""

    def __init__(self, path: Path, table: str) -> None:
        self._table = table
        self._path = path
        self._file = open(path, "xb")  # noqa: SIM115 - closed by close()
        self._writer = pq.ParquetWriter(self._file, TABLES[table], **_encodings(table))
        self._waiting: list[Any] = []
        self._waiting_rows = 0
        self._rows = 0
        self._paths: dict[str, None] = {}

    def write(self, rows: Any, path: str | None) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._rows += rows.num_rows
        if path is not None:
            self._paths[path] = None
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush()

    def give_up(self) -> None:
        """Close what is open; after ``close`` nothing is."""
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def close(self, paths: Collection[str] = ()) -> TableFile:
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        return TableFile(self._table, self._path.name, self._rows, size, (*self._paths, *paths))

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=ROW_GROUP_ROWS)
            self._waiting, self._waiting_rows = [], 0


def _encodings(table: str) -> dict[str, Any]:
    """Differences of what grows, dictionaries of what repeats: a quarter of the bytes, in less time."""
    names = TABLES[table].names
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in names if name not in _GROWING | _RANDOM],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in names if name in _GROWING},
    }


def _merged(folder: Path, manifest: Manifest) -> tuple[TableFile, ...]:
    kept: list[TableFile] = []
    for table in TABLES:
        parts = [each for each in manifest.parts if each.table == table]
        small = [each for each in parts if each.size < SMALL_BYTES]
        if len(small) > SMALL_FILES_MAX:
            parts = [each for each in parts if each.size >= SMALL_BYTES]
            parts += _rewritten(folder, table, small, (), manifest.commit)
        kept += parts
    return tuple(kept)


def _rewritten(
    folder: Path, table: str, parts: Sequence[TableFile], gone: Collection[str], commit: int
) -> list[TableFile]:
    """One file of the rows of ``parts`` less those of the paths ``gone``; none if no row is left."""
    dropped = pa.array(sorted(gone), pa.string())
    written = _Part(folder / table / f"{commit:08d}-{99_999}-{secrets.token_hex(8)}.parquet", table)
    try:
        for part in parts:
            with pq.ParquetFile(folder / table / part.name) as source:
                for rows in source.iter_batches(batch_size=ROW_GROUP_ROWS):
                    written.write(rows.filter(pc.invert(pc.is_in(rows.column("path"), dropped))), None)
        paths = {path for part in parts for path in part.paths if path not in gone}
        merged = written.close(sorted(paths))
    finally:
        written.give_up()
    return [merged] if merged.rows else []


def _place(part: TableFile) -> str:
    return f"{part.table}/{part.name}"


def _synced(path: Path, content: bytes) -> None:
    """``path`` holds ``content``, all of it or what it held before, also after a loss of power."""
    half = path.with_suffix(".half")
    with open(half, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    for table in TABLES:
        _sync_folder(path.parent / table)  # the names that the manifest is about to mean
    half.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
