"""What an audit leaves beside its tables: owners of ids, transactions, committed offsets, and the findings.

Layout   <tables>/products/<number>/<name>/*.parquet; the highest number counts. Written under another name
         and renamed: a reader sees all of a number or nothing. The one before is kept for who reads it. In a
         store, which renames nothing, a number counts when it has ``COMPLETE``.
"""

import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.audit.checks.rows import FINDINGS
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.report.verdict import Finding, Verdict
from fencepost.audit.tables.place import LocalPlace, Place, place_of

FOLDER: Final = "products"
COMPLETE: Final = "_SUCCESS"
KEPT: Final = 2  # the current one, and the one that a reader may still have open
_RELATIONS: Final = ("producer_id_ownership", "transaction_history", "committed_offsets")


def write(relations: Relations, verdict: Verdict, tables_dir: str) -> str:
    """Write all of them, of the findings those that the verdict lists; the number of them. Raises OSError."""
    place = place_of(tables_dir)
    if isinstance(place, LocalPlace):
        home = Path(place.path(FOLDER))
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".half-", dir=home) as half:
            made = Path(half) / "all"
            _make(relations, verdict, made)
            numbers = _numbers(each.name for each in home.iterdir())
            kept = made.rename(home / f"{_next(numbers):08d}")
        for number in numbers[: 1 - KEPT]:
            shutil.rmtree(home / f"{number:08d}", ignore_errors=True)
        return kept.name
    with tempfile.TemporaryDirectory(prefix="fencepost-audit-") as half:
        made = Path(half) / "all"
        _make(relations, verdict, made)
        return _put(place, made)


def _make(relations: Relations, verdict: Verdict, made: Path) -> None:
    findings = [each._asdict() for outcome in verdict.outcomes for each in outcome.findings]
    for name in _RELATIONS:
        relations.write(f"SELECT * FROM {name}", str(made / name))
    (made / "findings").mkdir()
    columns = pa.schema([FINDINGS.field(name) for name in Finding._fields])
    pq.write_table(pa.Table.from_pylist(findings, schema=columns), made / "findings" / "part-0.parquet")


def _put(place: Place, made: Path) -> str:
    """Into a store: whose number is not taken, and what is complete, ``put_new`` decides."""
    there = [each.name for each in place.kept(FOLDER)]
    number = _next(_numbers(name.partition("/")[0] for name in there))
    while not place.put_new(f"{FOLDER}/{number:08d}/_BEGUN", secrets.token_bytes(16)):
        number += 1
    for path in sorted(made.rglob("*.parquet")):
        file = place.create(f"{FOLDER}/{number:08d}/{path.relative_to(made).as_posix()}")
        file.write(path.read_bytes())
        place.close(file)
    place.put_new(f"{FOLDER}/{number:08d}/{COMPLETE}", b"")
    complete = _numbers(name.partition("/")[0] for name in there if name.endswith(f"/{COMPLETE}"))
    for name in there:
        if name.partition("/")[0].isdecimal() and int(name.partition("/")[0]) in complete[: 1 - KEPT]:
            place.remove(f"{FOLDER}/{name}")
    return f"{number:08d}"


def _next(numbers: list[int]) -> int:
    return max(numbers, default=0) + 1


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted({int(name) for name in names if name.isdecimal()})
