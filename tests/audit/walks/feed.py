"""Rows given to walks as an engine gives them: sorted, in batches of any sizes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fencepost.audit.walks.walk import Walk

Row = dict[str, Any]


def feed(walk: Walk, rows: Iterable[Mapping[str, Any]], sizes: Sequence[int] = (1_000_000,)) -> list[Row]:
    """What the walk makes of rows, which are sorted for it and cut into batches of ``sizes`` in turn.

    Columns that the walk does not read are left out; those that a row lacks are null.
    """
    names = [*walk.keys, *walk.order]
    given = sorted(rows, key=lambda row: [_rank(row.get(name)) for name in names])
    table = pa.Table.from_pylist(
        [{name: row.get(name) for name in walk.source.names} for row in given], schema=walk.source
    )
    results = []
    for batch in walk.run(_cut(table, sizes)):
        assert batch.schema.equals(walk.result), (batch.schema, walk.result)
        results += batch.to_pylist()
    return results


def _rank(value: Any) -> tuple[bool, Any]:
    return (value is not None, value.encode() if isinstance(value, str) else value)


def _cut(table: pa.Table, sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    (rows,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    start, turn = 0, 0
    while start < rows.num_rows:
        size = max(sizes[turn % len(sizes)], 1)
        yield rows.slice(start, size)
        start, turn = start + size, turn + 1


def said(rows: Iterable[Row]) -> list[str]:
    """``check.rule`` of what was found, sorted; "?" in front of what is unknown, "note " of a note."""
    marks = {"finding": "", "unknown": "?", "note": "note "}
    return sorted(f"{marks[row['kind']]}{row['check']}.{row['rule']}" for row in rows if row["kind"] in marks)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """What was found by its id, after the other rows as they came."""
    given = list(rows)
    found = sorted((row for row in given if row["id"] is not None), key=lambda row: str(row["id"]))
    return [*(row for row in given if row["id"] is None), *found]
