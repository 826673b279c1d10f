"""Rows on their way into Parquet files, and out of one into another."""

import contextlib
import io
import secrets
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.audit.tables.layout import STORED, Part, part_folder
from fencepost.audit.tables.place import Place

ROW_GROUP_ROWS: Final = 262_144
_GROWING: Final = frozenset({
    "position", "base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms", "base_sequence",
    "offset", "timestamp_ms", "updated_ms", "block_first", "block_end", "committed_offset",
})  # fmt: skip
_RANDOM: Final = frozenset({"crc"})


class Made(NamedTuple):
    """A Parquet file, and the log files that its rows were read out of."""

    part: Part
    paths: tuple[str, ...]


class PartWriter:
    """Rows of the tables on their way into the files of one ingest, a file for each table that has rows.

    At the end of its ``with`` what was not closed is given up: no document names it, and who writes next
    deletes it.
    """

    def __init__(self, place: Place, number: int, task: str) -> None:
        self._place = place
        self._number = number
        self._task = task
        self._open: dict[str, _Part] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._open.values():
            part.give_up()

    def write(self, table: str, rows: Any, path: str | None = None) -> None:
        """Add a record batch that was read out of ``path``. Raises OSError."""
        if rows.num_rows:
            if table not in self._open:
                name = f"{part_folder(table, self._number)}/{self._task}-{secrets.token_hex(8)}.parquet"
                self._open[table] = _Part(self._place, table, name)
            self._open[table].write(rows, path)

    def close(self) -> list[Made]:
        """The files, durably. Raises OSError."""
        return [part.close() for part in self._open.values()]


class _Part:
    """One Parquet file that is being written."""

    def __init__(self, place: Place, table: str, name: str) -> None:
        self._place = place
        self._table = table
        self._name = name
        self._file = place.create(name)
        self._writer = pq.ParquetWriter(self._file, STORED[table], **_encodings(table))
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
        with contextlib.suppress(OSError, ValueError):
            self._file.close()

    def close(self) -> Made:
        self._flush()
        self._writer.close()
        size = self._place.close(self._file)
        return Made(Part(self._table, self._name, self._rows, size), tuple(self._paths))

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=ROW_GROUP_ROWS)
            self._waiting, self._waiting_rows = [], 0


def stored_rows(place: Place, part: Part, dropped: Collection[str]) -> Iterator[Any]:
    """The rows of a Parquet file less those of the log files ``dropped``, as record batches. Raises
    OSError.
    """
    without = pa.array(sorted(dropped), pa.string())
    with pq.ParquetFile(io.BytesIO(place.read(part.name))) as source:
        for rows in source.iter_batches(batch_size=ROW_GROUP_ROWS):
            yield rows.filter(pc.invert(pc.is_in(rows.column("path"), without))) if dropped else rows


def _encodings(table: str) -> dict[str, Any]:
    """Differences of what grows, dictionaries of what repeats: a quarter of the bytes, in less time."""
    names = STORED[table].names
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in names if name not in _GROWING | _RANDOM],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in names if name in _GROWING},
    }
