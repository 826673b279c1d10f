"""Log directories as a Spark data source: ``spark.read.format("fencepost_logs")``, and ``readStream`` too.

Options     ``root.0``, ``root.1``...: directories, as ``fencepost audit ingest`` takes them. ``table``:
            which of ``fencepost.audit.decode.columns`` (but ``files``), by default record_batches.
            ``maxBytesPerTrigger``: of a stream. ``failOnTruncation``: of a stream, "false" to go on behind
            the end of a log that was cut. Hadoop's ``fs.*``: of the file systems that the roots are on.
Batch       every file below the roots, in pieces. A piece that did not end where the next one begins fails
            its task, ``CutWrong``: never are rows left out or given twice.
Stream      segments only, each byte once. Its offset is a place per directory (``positions``). A torn tail
            is read when it is whole. A log that became shorter than what was read is ``LogTruncated``; with
            PySpark 4.1, which does not say how far a stream was, that is not noticed.
Ingest      does not go this way: it writes where it reads (see ``fencepost.audit.tables.ingest``). This is
            for queries of one's own, and for other sinks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.plan import READ_KINDS, list_files
from fencepost.audit.decode.tables import decode_file
from fencepost.audit.source.connect import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from fencepost.audit.source.files import ANY
from fencepost.audit.source.pieces import PIECE_BYTES, Piece, bundles, cut
from fencepost.audit.source.positions import Offset, between, furthest
from fencepost.audit.source.remote import use

NAME: Final = "fencepost_logs"
_ROOT: Final = "root."


class CutWrong(Exception):
    """A segment was cut where no batch begins: option ``pieceBytes`` above its size reads it in one piece."""


class Logs(DataSource):
    """The Spark data source ``fencepost-logs``: Kafka log segments as rows."""

    @classmethod
    def name(cls) -> str:
        """The name of the Spark data source format."""
        return NAME

    def schema(self) -> StructType:
        """Of the table. Raises ValueError for one that is not there."""
        table = self._table()
        if table not in TABLES or table == "files":
            names = ", ".join(sorted(TABLES.keys() - {"files"}))
            raise ValueError(f"option table is {table!r}, expected one of {names}")
        return from_arrow_schema(TABLES[table])

    def reader(self, schema: StructType) -> "LogsReader":
        """Of all there is now."""
        piece_bytes = int(self.options.get("pieceBytes", PIECE_BYTES))
        return LogsReader(self._table(), self._roots(), piece_bytes, self._properties())

    def streamReader(self, schema: StructType) -> "LogsStreamReader":  # noqa: N802 - Spark's name
        """Of all there is and will be."""
        limit = self.options.get("maxBytesPerTrigger")
        return LogsStreamReader(
            self._table(),
            self._roots(),
            int(self.options.get("pieceBytes", PIECE_BYTES)),
            None if limit is None else int(limit),
            properties=self._properties(),
            fail_on_truncation=self.options.get("failOnTruncation", "true").lower() != "false",
        )

    def _table(self) -> str:
        return str(self.options.get("table", "record_batches"))

    def _properties(self) -> dict[str, str]:
        return {key: value for key, value in self.options.items() if key.startswith("fs.")}

    def _roots(self) -> list[str]:
        named = sorted(
            (int(key[len(_ROOT) :]), value) for key, value in self.options.items() if key.startswith(_ROOT)
        )
        if not named:
            raise ValueError("option root.0 is missing: the directory to read")
        return [value for _, value in named]


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(Logs)


class Bundle(InputPartition):
    """Input of one task: the files that it reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = list(pieces)


class LogsReader(DataSourceReader):
    """One reading of everything below the roots."""

    def __init__(
        self, table: str, roots: Sequence[str], piece_bytes: int, properties: Mapping[str, str]
    ) -> None:
        self._properties = properties
        self._table = table
        self._roots = list(roots)
        self._piece_bytes = piece_bytes

    def partitions(self) -> Sequence[InputPartition]:
        """Raises OSError if anything below the roots cannot be read: an answer has no place to say so."""
        use(self._properties)
        files = list_files(self._roots, files=ANY)
        for file in files:
            if file.fault is not None:
                raise OSError(f"{file.path}: {file.fault}")
        found = [file for file in files if file.kind in READ_KINDS]
        pieces = [piece for file in found for piece in cut(file, 0, self._piece_bytes, ANY)]
        return [Bundle(each) for each in bundles(pieces, bytes_each=self._piece_bytes)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow record batches of the table. Raises CutWrong, OSError."""
        use(self._properties)
        for piece in partition.pieces:
            yield from _rows(self._table, piece)


class LogsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads segments as they grow."""

    def __init__(
        self,
        table: str,
        roots: Sequence[str],
        piece_bytes: int,
        bytes_max: int | None,
        *,
        properties: Mapping[str, str],
        fail_on_truncation: bool,
    ) -> None:
        self._table = table
        self._roots = list(roots)
        self._piece_bytes = piece_bytes
        self._bytes_max = bytes_max
        self._fail_on_truncation = fail_on_truncation
        self._properties = properties
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The offset at which nothing is read yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit that the option sets."""
        return ReadAllAvailable() if self._bytes_max is None else ReadMaxBytes(self._bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that this query will read."""
        self._target = self._furthest({}, None)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Offset | None = None, limit: ReadLimit | None = None
    ) -> Offset:
        """The offset up to which a batch may read; without a start (PySpark 4.1) all there is. Raises
        LogTruncated.
        """
        bytes_max = self._bytes_max if isinstance(limit, ReadMaxBytes) or self._target is not None else None
        return self._furthest(start or {}, bytes_max)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The files between two offsets: the same at each call."""
        pieces = [
            piece
            for file, first, last in between(self._segments(), start, end)
            for piece in cut(file, first, self._piece_bytes, ANY, last)
        ]
        return [Bundle(each) for each in bundles(pieces, bytes_each=self._piece_bytes)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Rows of one partition: as ``LogsReader.read``."""
        use(self._properties)
        for piece in partition.pieces:
            yield from _rows(self._table, piece)

    def _furthest(self, start: Offset, bytes_max: int | None) -> Offset:
        return furthest(
            self._segments(),
            start,
            target=self._target,
            bytes_max=bytes_max,
            fail_on_truncation=self._fail_on_truncation,
            files=ANY,
        )

    def _segments(self) -> list[Any]:
        use(self._properties)
        return [
            file for file in list_files(self._roots, files=ANY) if file.kind == "segment" and not file.fault
        ]


def _rows(table: str, piece: Piece) -> Iterator[Any]:
    file, end = piece.file, piece.start
    is_segment = file.kind == "segment"
    for name, rows in decode_file(file, piece.start, piece.end if is_segment else None, files=ANY):
        if name == table and rows.num_rows:
            yield rows
        if name == "record_batches" and rows.num_rows:
            last = rows.num_rows - 1
            end = rows.column("position")[last].as_py() + rows.column("size")[last].as_py()
    if is_segment and piece.end not in {file.size, end}:
        raise CutWrong(f"{file.path}: a batch ends at {end}, a piece at {piece.end}")
