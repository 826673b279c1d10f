"""What was read of the files that were found, and what was not: from the table ``files``."""

from typing import Final

from fencepost.audit.engine.protocol import Row
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.report.verdict import NOT_READ_MAX, Files, NotRead
from fencepost.audit.source.files import ANY

_CUT: Final = "FROM files WHERE stop IN ('torn', 'truncated', 'unreadable')"


def files_of(relations: Relations) -> Files:
    """Counts of what was read, and the files that were not read to their end."""
    (sums,) = relations.rows(
        "SELECT count(*) AS files_read, CAST(coalesce(sum(valid_end), 0) AS BIGINT) AS byte_count FROM files"
        " WHERE kind IN ('segment', 'checkpoint', 'zookeeper-export') AND stop <> 'unreadable'"
    )
    rows = relations.rows(f"SELECT * {_CUT} ORDER BY path LIMIT {NOT_READ_MAX + 1}")
    omitted = 0
    if len(rows) > NOT_READ_MAX:
        omitted = int(relations.rows(f"SELECT count(*) AS many {_CUT}")[0]["many"]) - NOT_READ_MAX
    not_read = tuple(
        NotRead(row["path"], row["valid_end"] or 0, _reason(row))
        for row in rows[:NOT_READ_MAX]
        if not _has_grown(row)
    )
    return Files(read=sums["files_read"], byte_count=sums["byte_count"], not_read=not_read, omitted=omitted)


def disbelieved(relations: Relations) -> tuple[NotRead, ...]:
    """Bytes within files that were not believed, at most ``NOT_READ_MAX``: where no check reports them."""
    rows = relations.rows(
        "SELECT path, position, reason FROM record_batches WHERE fault IS NOT NULL"
        f" UNION ALL SELECT path, position, reason FROM record_faults LIMIT {NOT_READ_MAX}"
    )
    return tuple(sorted(NotRead(row["path"], row["position"], row["reason"] or "") for row in rows))


def _reason(row: Row) -> str:
    reason: str = row["reason"] or ""
    return f"{row['stop']}: {reason}" if reason else str(row["stop"])


def _has_grown(row: Row) -> bool:
    """Whether it was being written to when it was read: its last batch is not torn, it was not whole yet."""
    if row["stop"] != "torn" or not row["last_of_partition"]:
        return False
    try:
        return ANY.entry(row["path"]).size > int(row["size"])
    except OSError:
        return False
