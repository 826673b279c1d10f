"""What one task of an ingest does: decode the pieces of its bundle, write their rows, say how far it came."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fencepost.audit.decode.files import Files
from fencepost.audit.decode.tables import decode_file
from fencepost.audit.source.pieces import Piece, Reached
from fencepost.audit.source.remote import use
from fencepost.audit.source.sparing import Pace, PacedFiles
from fencepost.audit.source.uris import name_this_machine
from fencepost.audit.tables.parts import Made, PartWriter
from fencepost.audit.tables.place import place_of


class Bundle(NamedTuple):
    """What one task is given; all of it is pickled.

    ``properties``  Hadoop's, of the file systems that it opens.
    ``machine``     the name of this machine in paths, "" if it has none.
    ``deep``        the records of every topic are opened.
    """

    tables: str
    number: int
    task: int
    pieces: Sequence[Piece]
    properties: Mapping[str, str]
    machine: str
    pace: Pace
    deep: bool = False


class Written(NamedTuple):
    """The files of one task, and how far it came in each of its pieces.

    ``fault``  why the files could not be written; then nothing of this counts.
    """

    made: list[Made]
    reached: list[Reached]
    fault: str | None = None


def write_bundle(bundle: Bundle) -> Written:
    """Runs on a worker. A log file that cannot be read is a fault of its piece; nothing is raised."""
    use(bundle.properties)
    name_this_machine(bundle.machine)
    files = PacedFiles(bundle.pace)
    try:
        with PartWriter(place_of(bundle.tables), bundle.number, f"{bundle.task:05d}") as writer:
            reached = [_write(writer, piece, files, deep=bundle.deep) for piece in bundle.pieces]
            return Written(writer.close(), reached)
    except OSError as error:
        return Written([], [], str(error))


def _write(writer: PartWriter, piece: Piece, files: Files, *, deep: bool) -> Reached:
    file = piece.file
    end, is_last_sound = piece.start, True
    until = piece.end if file.kind == "segment" else None
    decoded = decode_file(file, piece.start, until, deep=deep, files=files)
    while True:
        try:
            table, rows = next(decoded)
        except StopIteration:
            return Reached(file.path, piece.start, end, is_last_sound)
        except OSError as error:
            return Reached(file.path, piece.start, end, False, error.strerror or str(error))
        writer.write(table, rows, file.path)
        if table == "record_batches" and rows.num_rows:
            row = rows.num_rows - 1
            end = rows.column("position")[row].as_py() + rows.column("size")[row].as_py()
            is_last_sound = rows.column("fault")[row].as_py() is None
