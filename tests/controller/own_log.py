"""A view that lets the replay of a record reach only the tables of the record's own log.

Why   the leader replays the records of an entry in the order in which they were decided, the others log by
      log. So nothing in one log may depend on another: replay of a record that reads or writes a table of
      another log ends in two images, in some order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fencepost.controller.replay import REPLAY, REPLAY_AT
from fencepost.controller.view import ImageHeader, MutableView, Table
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import Log
from fencepost.snapshots.rows import TABLES

K = TypeVar("K")
V = TypeVar("V")

TRANSACTION_RECORDS = (TransactionStateRecord, TransactionForgotten)


class OtherLogsTable(Exception):
    """Replay reached for it."""


class OwnLog:
    """``view``, as far as ``log`` goes."""

    def __init__(self, view: MutableView, log: Log, record: object) -> None:
        self._view = view
        self._log = log
        self._record = record
        self.room = view.room

    @property
    def header(self) -> ImageHeader:
        """Of the entry: the same for every record in it, in any order, and not to be changed."""
        return self._view.header

    def get(self, table: Table[K, V], key: K) -> V | None:
        return self._view.get(self._own(table), key)

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        return self._view.items(self._own(table))

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        return self._view.scan(self._own(table), after)

    def put(self, table: Table[K, V], key: K, value: V) -> None:
        self._view.put(self._own(table), key, value)

    def delete(self, table: Table[K, V], key: K) -> None:
        self._view.delete(self._own(table), key)

    def _own(self, table: Table[K, V]) -> Table[K, V]:
        if TABLES.get(table.name) is not table:
            raise OtherLogsTable(f"{table} is not in TABLES: snapshots and digests would lack its rows")
        if table.log is not self._log:
            name = type(self._record).__name__
            raise OtherLogsTable(f"{name}, a record of {self._log.name}, reaches {table} of {table.log.name}")
        return table


def log_of(kind: type) -> Log:
    """The log in which records of this type lie."""
    if kind in REPLAY_AT:
        return Log.CONSUMER_OFFSETS
    return Log.TRANSACTION_STATE if kind in TRANSACTION_RECORDS else Log.METADATA


def guarded(log: Log, replay: Callable[..., None]) -> Callable[..., None]:
    """``replay`` of a record of ``log``, which gets only what ``OwnLog`` lets through."""
    return lambda view, record, *offset: replay(OwnLog(view, log, record), record, *offset)


@contextmanager
def guard() -> Iterator[None]:
    """Every replay is guarded meanwhile."""
    tables: tuple[dict[type, Any], ...] = (REPLAY, REPLAY_AT)
    before = [dict(table) for table in tables]
    for table in tables:
        table.update({kind: guarded(log_of(kind), replay) for kind, replay in table.items()})
    try:
        yield
    finally:
        for table, replays in zip(tables, before, strict=True):
            table.update(replays)
