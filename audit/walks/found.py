"""Findings, unknowns and notes on their way out of a walk."""

from typing import Any

import pyarrow as pa

from fencepost.audit.walks.columns import FINDING, FOUND

Found = dict[str, Any]


def found(
    check: str, rule: str, detail: str, *, kind: str = FINDING, subject: str = "", **columns: Any
) -> Found:
    """A row of FOUND. ``columns``: where it is; those that are left out are null."""
    row: Found = dict.fromkeys(FOUND.names)
    row |= {"kind": kind, "check": check, "rule": rule, "subject": subject, "detail": detail, **columns}
    place = f"{row['topic'] or ''}-{'' if row['partition'] is None else row['partition']}"
    what = [
        row.get(name) for name in ("node", "offset", "end_offset", "producer_id", "transactional_id", "path")
    ]
    row["id"] = f"{kind} {check}.{rule} {place} " + " ".join(
        "-" if each is None else str(each) for each in what
    )
    return row


def producer_name(producer_id: int, epoch: int) -> str:
    """How a finding's subject names a producer."""
    return f"producer {producer_id} epoch {epoch}"


def batch_of(rows: list[Found], schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows as one batch of a walk's result; none if there are none."""
    if not rows:
        return []
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def widened(rows: pa.RecordBatch, schema: pa.Schema, **columns: Any) -> pa.RecordBatch:
    """Rows with the columns of ``schema``: those given as arrays, else their own, else null."""
    count, own = rows.num_rows, set(rows.schema.names)
    arrays = []
    for field in schema:
        if field.name in columns:
            given = columns[field.name]
            is_array = isinstance(given, (pa.Array, pa.ChunkedArray))
            arrays.append(given if is_array else pa.array(given, field.type))
        elif field.name in own:
            arrays.append(rows.column(field.name))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
