"""Turns of one log's producers on their way out of the walk, and what is open at each of their markers.

Turn        what a producer left from one marker to the next: a row of kind "turn" of LOG_RESULT.
Stable      at a marker the last stable offset is the first offset of what is open then, or what follows.
Next        an abort beside which nothing is open waits for the next transaction of another producer: up to
            there an index may say that all is stable.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from fencepost.audit.walks.columns import LOG_RESULT
from fencepost.audit.walks.producer import Producer

WAITING_MAX: Final = 1000
"""Turns that wait for the next transaction of another producer: as many as a follower may append at once."""

_ABORT: Final = 0
_NO_DATA: Final = (None, None, None, 0, None, None, None)
_COLUMNS: Final = (
    "producer_id", "producer_epoch", "offset", "at_ms", "node", "path", "position", "marker_offset",
    "control_type", "coordinator_epoch", "marker_version", "data_epoch", "data_offset", "data_last",
    "batches", "plain_offset", "data_ms", "written_ms", "since_offset", "flags", "stable_offset",
    "late_offset", "next_open_offset",
)  # fmt: skip


class Turns:
    """Those of one log that were not taken yet, and the transactions that are open."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # first offset by producer, in the order of the log
        self._rows: list[tuple[Any, ...]] = []
        self._waiting: list[tuple[Any, ...]] = []

    def opens(self, producer_id: int, offset: int) -> None:
        """Transactional data of a producer at this offset."""
        if self._waiting and producer_id not in self._open:
            self.next_opens(offset, producer_id)
        self._open.setdefault(producer_id, offset)

    def next_opens(self, offset: int | None, producer_id: int = -1) -> None:
        """A transaction begins; None: one may have, unseen. Of its own producer no marker waits for it."""
        kept = []
        for row in self._waiting:
            if row[0] == producer_id:
                kept.append(row)
            else:
                self._rows.append((*row, offset))
        self._waiting = kept

    def ended(
        self, producer: Producer, marker: tuple[Any, ...], place: tuple[Any, ...], flags: int, *, stale: bool
    ) -> None:
        """A marker ends the producer's turn; a stale one ends nothing.

        marker    its epoch, offset, time, outcome, coordinator epoch and version.
        """
        epoch, base, time_ms, kind, coordinator_epoch, version = marker
        if not stale:
            self._open.pop(producer.id, None)
        row = (
            producer.id, epoch, base, time_ms, *place, base, kind, coordinator_epoch, version,
            *(_NO_DATA if stale else producer.turn), producer.marker_offset, flags,
            next(iter(self._open.values()), base + 1), None if stale else producer.late,
        )  # fmt: skip
        if kind == _ABORT and not stale and not self._open and len(self._waiting) < WAITING_MAX:
            self._waiting.append(row)
        else:
            self._rows.append((*row, None))

    def left_open(self, producer: Producer, flags: int) -> None:
        """The log ends, and no marker has ended the producer's turn."""
        self._rows.append((
            producer.id, producer.data_epoch, producer.first_data, producer.data_ms, *producer.place,
            None, None, None, None, *producer.turn, producer.marker_offset, flags, None, producer.late, None,
        ))  # fmt: skip

    def taken(self, topic: str, partition: int) -> list[pa.RecordBatch]:
        """Those since the last call, as rows."""
        rows, self._rows = self._rows, []
        if not rows:
            return []
        named = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
        return [_rows_of(topic, partition, named, len(rows))]


def _rows_of(topic: str, partition: int, named: Mapping[str, Any], count: int) -> pa.RecordBatch:
    same = {"kind": "turn", "topic": topic, "partition": partition}
    arrays = []
    for field in LOG_RESULT:
        if field.name in same:
            arrays.append(pa.array([same[field.name]] * count, field.type))
        elif field.name in named:
            arrays.append(pa.array(named[field.name], field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=LOG_RESULT)
