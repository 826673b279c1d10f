"""What a folder of tables holds at one moment: the ingests that count, and the state of every log file.

One moment  documents appear one after another, and a later one may build on an earlier one. So the folder is
            listed until two listings are the same: what the first one saw has all that it builds on in the
            second.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.audit.tables.layout import GONE, INGESTS, STORED, Ingest, decode, document_name, number_of
from fencepost.audit.tables.place import Place
from fencepost.audit.tables.refused import TablesRefused

LISTINGS_MAX: Final = 100  # of one reading; every further one means that an ingest was committed meanwhile
_OLD_FORM: Final = "manifest.json"
FileState = Mapping[str, Any]
"""A row of the stored table ``files``, with ``ingest``: the one that wrote it."""


class Scanned(NamedTuple):
    """Parquet files of one table, and the log files whose rows in them do not count."""

    names: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ingests that count, by number, and what they say of log files.

    ``documents``  every ingest that is committed, those that count no longer too.
    ``files``      by path, what the last ingest said of each log file: one row, of ``holes.json`` several.
                   ``GONE`` ones too.
    ``paths``      by ingest, the log files that it says something about.
    """

    documents: Mapping[int, Ingest]
    live: Mapping[int, Ingest]
    files: Mapping[str, Sequence[FileState]]
    paths: Mapping[int, frozenset[str]]

    def dropped(self, number: int) -> frozenset[str]:
        """The log files whose rows in an ingest do not count."""
        return frozenset(path for path in self.paths[number] if self.files[path][0]["first_ingest"] > number)

    def scanned(self, table: str) -> list[Scanned]:
        """Which rows of a table count."""
        clean: list[str] = []
        found = []
        for number, ingest in self.live.items():
            names = [part.name for part in ingest.parts if part.table == table]
            dropped = self.dropped(number)
            if not dropped:
                clean += names
            elif names and dropped != self.paths[number]:
                found.append(Scanned(tuple(names), tuple(sorted(dropped))))
        return [Scanned(tuple(clean), ()), *found] if clean else found

    def present(self) -> list[FileState]:
        """The rows of ``files`` that the checks are shown, in the order of the paths."""
        return [row for _, rows in sorted(self.files.items()) for row in rows if row["stop"] != GONE]

    def dead(self) -> frozenset[int]:
        """The ingests of which nothing counts: no row, and no word about a log file."""
        last = {rows[0]["ingest"] for rows in self.files.values()}
        return frozenset(
            number
            for number in self.live
            if number not in last and self.dropped(number) == self.paths[number]
        )

    def roots(self) -> dict[str, int]:
        """Everything that was ever read, and when last."""
        found: dict[str, int] = {}
        for ingest in self.live.values():
            for root, settled_ms in ingest.roots.items():
                found[root] = max(settled_ms, found.get(root, 0))
        return found


def snapshot(place: Place) -> Snapshot:
    """What counts now; of a folder without tables nothing. Raises TablesRefused: of another version;
    OSError.
    """
    found = documents(place)
    if not found:
        _refuse_old_form(place)
    gone = {number for ingest in found.values() for number in ingest.replaces}
    live = {number: found[number] for number in sorted(found) if number not in gone}
    files: dict[str, list[FileState]] = {}
    paths: dict[int, frozenset[str]] = {}
    for number, ingest in live.items():
        rows = [row for part in ingest.parts if part.table == "files" for row in file_rows(place, part.name)]
        paths[number] = frozenset(row["path"] for row in rows)
        files |= {path: [] for path in paths[number]}
        for row in rows:
            files[row["path"]].append({**row, "ingest": number})
    return Snapshot(found, live, files, paths)


def required(place: Place) -> Snapshot:
    """As ``snapshot``. Raises TablesRefused if there are no tables."""
    found = snapshot(place)
    if not found.documents:
        raise TablesRefused(f"{place.uri}: no tables are here; `fencepost audit ingest` makes them")
    return found


def file_rows(place: Place, name: str) -> list[dict[str, Any]]:
    """The rows of a Parquet file of the stored table ``files``."""
    try:
        rows: list[dict[str, Any]] = pq.read_table(
            io.BytesIO(place.read(name)), schema=STORED["files"]
        ).to_pylist()
    except pa.ArrowException as error:
        raise TablesRefused(f"{place.uri}/{name}: {error}") from error
    return rows


def numbers(place: Place) -> tuple[dict[int, float], dict[int, float]]:
    """The numbers that have a document, and those that have a reservation; when each was written."""
    committed: dict[int, float] = {}
    reserved: dict[int, float] = {}
    for kept in place.kept(INGESTS):
        found = number_of(kept.name)
        if found is not None:
            (committed if found[1] else reserved)[found[0]] = kept.written_s
    return committed, reserved


def documents(place: Place) -> dict[int, Ingest]:
    """Every ingest that is committed, those that count no longer too. Raises TablesRefused, OSError."""
    read: dict[int, Ingest] = {}
    before: Collection[int] | None = None
    for _ in range(LISTINGS_MAX):
        listed = sorted(numbers(place)[0])
        if listed == before:
            return {number: read[number] for number in listed if number in read}
        for number in listed:
            if number not in read:
                _read(place, number, read)
        before = listed
    raise TablesRefused(f"{place.uri}: ingests are committed faster than they can be listed")


def _read(place: Place, number: int, read: dict[int, Ingest]) -> None:
    name = document_name(number)
    try:
        ingest = decode(place.read(name), f"{place.uri}/{name}")
    except FileNotFoundError:
        return  # it was replaced long ago, and is being deleted
    if ingest is not None:
        read[number] = ingest


def _refuse_old_form(place: Place) -> None:
    try:
        place.read(_OLD_FORM)
    except (FileNotFoundError, NotADirectoryError):
        return
    raise TablesRefused(f"{place.uri}: tables of version 2 or older, which kept a {_OLD_FORM}; ingest anew")
