"""One partition's log as rows: producers write and coordinators end, soundly unless a test changes it."""

from typing import Any

from fencepost.audit.walks.log import LOG
from tests.audit.walks.feed import Row, feed

TOPIC = "orders"
BEGAN_MS = 1_700_000_000_000
PRODUCER = 4000
_PLAIN, _TRANSACTIONAL, _MARKER = 0, 0x10, 0x30


class Log:
    """Appends at its end, a second after the other."""

    def __init__(self, topic: str = TOPIC, partition: int = 0, *, ours: bool = False, first: int = 0) -> None:
        self.topic, self.partition, self.ours = topic, partition, ours
        self.rows: list[Row] = []
        self.end = first
        self.version = 0
        self.clock_ms = BEGAN_MS
        self.sequences: dict[tuple[int, int], int] = {}

    def add(self, count: int, **columns: Any) -> Row:
        self.clock_ms += 1000
        row = {
            "topic": self.topic, "partition": self.partition, "node": 1,
            "path": f"/n1/{self.topic}-{self.partition}/{0:020}.log", "position": 100 * len(self.rows),
            "size": 500, "base_offset": self.end, "last_offset": self.end + count - 1,
            "max_timestamp_ms": self.clock_ms, "flags": 0, "base_sequence": -1, **columns,
        }  # fmt: skip
        self.end = row["last_offset"] + 1
        self.rows.append(row)
        return row

    def data(
        self, epoch: int = 0, *, producer: int = PRODUCER, count: int = 10, sequence: int | None = None,
        transactional: bool = True, **columns: Any,
    ) -> Row:  # fmt: skip
        begins = self.sequences.get((producer, epoch), 0) if sequence is None else sequence
        self.sequences[producer, epoch] = (begins + count) % 2**31
        attributes = _TRANSACTIONAL if transactional else _PLAIN
        return self.add(count, producer_id=producer, producer_epoch=epoch, base_sequence=begins,
                        attributes=attributes, **columns)  # fmt: skip

    def marker(
        self, epoch: int = 0, kind: int = 1, *, producer: int = PRODUCER, version: int | None = None,
        **columns: Any,
    ) -> Row:  # fmt: skip
        self.version += 1
        given = {"coordinator_epoch": 5, "size": 78, **columns}
        if self.ours:
            given["marker_version"] = self.version if version is None else version
        return self.add(
            1, producer_id=producer, producer_epoch=epoch, control_type=kind, attributes=_MARKER, **given
        )

    def transaction(
        self, epoch: int = 0, kind: int = 1, *, bumps: bool = False, producer: int = PRODUCER
    ) -> Row:
        """Data, and its marker; ``bumps``: as clients of transactions V2 have it."""
        self.data(epoch, producer=producer)
        return self.marker(epoch + bumps, kind, producer=producer)

    def lose(self, row: Row) -> None:
        """The row is gone; the next one has a hole in front of it."""
        at = self.rows.index(row)
        del self.rows[at]
        self.rows[at]["flags"] |= 1

    def squeeze_out(self, row: Row) -> None:
        """The row is gone, and those behind it have moved up."""
        at = self.rows.index(row)
        count = row["last_offset"] - row["base_offset"] + 1
        del self.rows[at]
        for each in self.rows[at:]:
            each["base_offset"] -= count
            each["last_offset"] -= count

    def swap(self, first: Row, second: Row) -> None:
        """Two rows of one length change places, offsets and positions stay."""
        for name in (set(first) | set(second)) - {"base_offset", "last_offset", "position"}:
            first[name], second[name] = second.get(name), first.get(name)


def walked(log: Log, sizes: tuple[int, ...] = (1_000_000,)) -> list[Row]:
    return feed(LOG, log.rows, sizes)


def turns(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == "turn"]
