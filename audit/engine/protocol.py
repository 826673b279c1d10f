"""What the audit runs on: named relations, made out of Arrow rows, of Parquet files, of SQL texts, and of
walks.

Relation    a name that later texts read.
Texts       are in the SQL that Spark and DuckDB have in common. Names that are words of SQL stand in double
            quotes; ``unnest`` makes rows of a list. ``fencepost.audit.engine.spark`` says what it writes
            differently.
Order       NULL sorts before every value, ascending; and after, descending.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from fencepost.audit.walks.walk import Walk

Row = dict[str, Any]
Task = TypeVar("Task")
Done = TypeVar("Done")


class Stored(NamedTuple):
    """Parquet files of this machine, or of a directory that all workers share.

    ``dropped``  values of the column ``path`` whose rows in them do not count.
    """

    files: tuple[str, ...]
    dropped: tuple[str, ...] = ()


class Workers(Protocol):
    """Who reads logs."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], show: Callable[[str], None]
    ) -> list[Done]:
        """``work`` of each task, in their order, wherever there are workers: a function of a module."""


class Engine(Workers, Protocol):
    """One audit's relations. Not for two threads."""

    def progress(self) -> str:
        """How far it is with what it does now, for a terminal; "" where it does not know. For any thread."""

    def expect(self, row_count: int) -> None:
        """Say how many rows all tables have together, before any is read."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Name rows that are in memory."""

    def scan(self, name: str, schema: pa.Schema, stored: Sequence[Stored]) -> None:
        """Name the rows of Parquet files that have ``schema``; of none there is a relation without rows."""

    def load(
        self, name: str, schema: pa.Schema, read: Callable[[Task], Iterator[Any]], tasks: Sequence[Task]
    ) -> None:
        """Name the record batches that ``read``, a function of a module, gives of the tasks, on workers."""

    def define(self, name: str, sql: str, *, is_kept: bool) -> None:
        """Name what a SELECT gives: computed once if it ``is_kept``, else by each that reads it."""

    def walk(self, name: str, walk: Walk, source: str, *, is_kept: bool) -> None:
        """Name what ``walk`` makes of the relation ``source``, which has the columns of ``walk.source``.

        is_kept  as of ``define``; an engine may keep it all the same.
        """

    def rows(self, sql: str) -> list[Row]:
        """What a SELECT gives, in this process: for few rows."""

    def write(self, sql: str, folder: str) -> None:
        """What a SELECT gives as Parquet files in ``folder``, which is made. Raises OSError."""

    def close(self) -> None:
        """Forget every relation."""
