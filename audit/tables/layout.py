"""The form of a folder of tables: names of files, the document of an ingest, the columns that are stored.

    _ingests/00000007.json      ingest 7 is committed: its document, written last, and only if it was absent
    _ingests/00000007.writing   ingest 7 is being written: its number is taken
    TABLE/ingest=7/*.parquet    its rows; a file counts if the document names it

Merged      an ingest whose document another one ``replaces`` counts no longer: its rows are in that one, or
            dead.
Superseded  a row counts if its ``ingest`` is not below ``first_ingest`` of its log file, in the row that the
            last ingest wrote about that file into the table ``files``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.audit.decode.columns import TABLES, TABLES_VERSION
from fencepost.audit.tables.refused import TablesRefused

INGESTS: Final = "_ingests"
_NAME: Final = re.compile(r"(\d{8,})\.(json|writing)")
_FOLDER: Final = re.compile(r"(\w+)/ingest=(\d+)/[^/]+\.parquet")
GONE: Final = "gone"

STORED: Final[dict[str, pa.Schema]] = {
    **TABLES,
    "files": pa.schema(
        [
            *TABLES["files"],
            ("first_ingest", pa.int64()),  # rows of this log file in earlier ingests do not count
            ("is_last_sound", pa.bool_()),  # the last batch that was read has no fault
            ("is_opened", pa.bool_()),  # the records of every batch that was read were opened
            (
                "mark",
                pa.string(),
            ),  # of the first and the last bytes that were read: another one, another file
        ]
    ),
}
"""Every table as it is stored: ``files`` says more than the checks are shown, and has rows of files that are
``GONE``.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file of rows of one table; ``name`` is relative to the folder of tables."""

    table: str
    name: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The document of an ingest.

    ``roots``     what was read, and for each the clock just before: markers that are younger are not judged.
    ``replaces``  numbers of ingests that count no longer.
    ``writer``    which process wrote it, for people.
    """

    ingest: int
    committed_ms: int
    writer: str
    roots: Mapping[str, int]
    replaces: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    version: int = TABLES_VERSION


def document_name(number: int) -> str:
    """The file that commits an ingest."""
    return f"{INGESTS}/{number:08d}.json"


def reservation_name(number: int) -> str:
    """The file that takes an ingest's number."""
    return f"{INGESTS}/{number:08d}.writing"


def number_of(name: str) -> tuple[int, bool] | None:
    """Of a file in ``INGESTS``: its ingest, and whether it is the document; None: it is none of ours."""
    matched = _NAME.fullmatch(name)
    return (int(matched[1]), matched[2] == "json") if matched else None


def part_folder(table: str, number: int) -> str:
    """Where rows of a table go."""
    return f"{table}/ingest={number}"


def ingest_of_part(name: str) -> int | None:
    """Of a file in the folder of tables its ingest; None: it is no table's, or none of ours."""
    matched = _FOLDER.fullmatch(name)
    return int(matched[2]) if matched and matched[1] in STORED else None


def encode(ingest: Ingest) -> bytes:
    """One line of JSON."""
    return json.dumps({**asdict(ingest), "roots": dict(ingest.roots)}, separators=(",", ":")).encode() + b"\n"


def decode(content: bytes, where: str) -> Ingest | None:
    """The inverse of ``encode``. None: it was not written to its end. Raises TablesRefused."""
    if not content.endswith(b"\n"):
        return None
    try:
        document: dict[str, Any] = json.loads(content)
        version = document["version"]
        if version != TABLES_VERSION:
            raise TablesRefused(
                f"{where}: tables of version {version}, expected {TABLES_VERSION}; ingest anew"
            )
        parts = tuple(
            Part(each["table"], each["name"], each["rows"], each["size"]) for each in document.pop("parts")
        )
        return Ingest(**{**document, "replaces": tuple(document["replaces"])}, parts=parts)
    except (ValueError, KeyError, TypeError) as error:
        raise TablesRefused(f"{where} is no document of an ingest: {error}") from error
