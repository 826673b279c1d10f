"""The relations of one audit: tables, moments, and what the checks' texts and walks make of them, when it is
read."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from fencepost.audit.checks.relation import Catalogue, Text, reads
from fencepost.audit.engine.protocol import Engine, Row

MOMENTS: Final = pa.schema([("now_ms", pa.int64()), ("settled_ms", pa.int64()), ("stopped", pa.bool_())])
"""``settled_ms``: the wall clock at which the data logs' sizes were taken. The coordinator's log was listed
after it, so what
is in the data logs up to then has its story in the coordinator's log. ``now_ms``: open transactions are
judged at it; NULL:
at the latest time in the logs. ``stopped``: no broker was writing
to the directories when they were read or copied."""


class Relations:
    """What is made so far of a catalogue, by an engine that holds the tables."""

    def __init__(self, engine: Engine, catalogue: Catalogue, show: Callable[[str], None]) -> None:
        self.engine = engine
        self._catalogue = catalogue
        self._show = show
        self._made: set[str] = set()
        self._readers = Counter(each for relation in catalogue.values() for each in relation.reads)

    def rows(self, sql: str) -> list[Row]:
        """What a SELECT gives, in this process: for few rows."""
        self._require(sql)
        return self.engine.rows(sql)

    def write(self, sql: str, folder: str) -> None:
        """What a SELECT gives, as Parquet files. Raises OSError."""
        self._require(sql)
        self.engine.write(sql, folder)

    def make(self, name: str) -> None:
        """Make a relation of the catalogue, and before it all that it reads."""
        relation = self._catalogue.get(name)
        if relation is None or name in self._made:
            return  # a table, or a name that a text gives to a part of itself
        for each in sorted(relation.reads - {name}):
            self.make(each)
        self._show(name.replace("_", " "))
        is_kept = self._readers[name] > 1
        if isinstance(relation, Text):
            self.engine.define(name, relation.sql, is_kept=is_kept and not relation.is_selection)
        else:
            self.engine.walk(name, relation.walk, relation.source, is_kept=is_kept)
        self._made.add(name)

    def _require(self, sql: str) -> None:
        for each in sorted(reads(sql)):
            self.make(each)


def moments(now_ms: int | None, settled_ms: int | None, *, is_stopped: bool = False) -> pa.Table:
    """The relation ``moments``, of one row."""
    row = {"now_ms": now_ms, "settled_ms": settled_ms, "stopped": is_stopped}
    return pa.Table.from_pylist([row], schema=MOMENTS)
