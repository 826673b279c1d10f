"""What one task of an ingest does: decode the pieces of its bundle, write their rows, say how far it came."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fencepost.audit.decode.tables import decode_file
from fencepost.audit.source.files import ANY
from fencepost.audit.source.pieces import Piece, Reached
from fencepost.audit.tables.store import PartWriter, TableFile


class Written(NamedTuple):
    """The files of one task, and how far it came in each of its pieces.

    ``fault``  why the files could not be written; then nothing of this counts.
    """

    parts: list[TableFile]
    reached: list[Reached]
    fault: str | None = None


class Bundle(NamedTuple):
    """What one task is given: pieces, and the names that its files begin with."""

    folder: str
    commit: int
    task: int
    pieces: Sequence[Piece]


def write_bundle(bundle: Bundle) -> Written:
    """Runs on a worker. A log file that cannot be read is a fault of its piece; nothing is raised."""
    try:
        with PartWriter(Path(bundle.folder), bundle.commit, bundle.task) as writer:
            reached = [_write(writer, piece) for piece in bundle.pieces]
            return Written(writer.close(), reached)
    except OSError as error:
        return Written([], [], str(error))


def _write(writer: PartWriter, piece: Piece) -> Reached:
    file = piece.file
    end, is_last_sound = piece.start, True
    decoded = decode_file(file, piece.start, piece.end if file.kind == "segment" else None, files=ANY)
    while True:
        try:
            table, rows = next(decoded)
        except StopIteration:
            return Reached(file.path, piece.start, end, is_last_sound)
        except OSError as error:
            return Reached(file.path, piece.start, end, False, error.strerror or str(error))
        writer.write(table, rows, file.path)
        if table == "record_batches" and rows.num_rows:
            last = rows.num_rows - 1
            end = rows.column("position")[last].as_py() + rows.column("size")[last].as_py()
            is_last_sound = rows.column("fault")[last].as_py() is None
