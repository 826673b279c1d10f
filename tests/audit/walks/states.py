"""A coordinator's log, built record by record, and what its walk says of it."""

from typing import Any

from fencepost.audit.walks.story import STORY
from tests.audit.walks.feed import Row, feed

BEGAN_MS = 1_700_000_000_000
PRODUCER = 4000
PART = {"topic": "orders", "partition": 0}


class States:
    """The records of one partition of the coordinator's log."""

    def __init__(self, **columns: Any) -> None:
        self.rows: list[Row] = []
        self.columns = columns
        self.clock_ms = BEGAN_MS

    def add(
        self, state: str | None, epoch: int = 0, *, producer: int = PRODUCER, name: str = "x",
        parts: tuple[int, ...] = (0,), **columns: Any,
    ) -> Row:  # fmt: skip
        offset = len(self.rows)
        self.clock_ms += 1000
        now_ms = self.clock_ms
        row = {
            "topic": "__transaction_state", "partition": 3, "node": 1, "path": "/n1/states/0.log",
            "position": 100 * offset, "offset": offset, "leader_epoch": 5, "timestamp_ms": now_ms,
            "transactional_id": name, "forgotten": state is None, "flags": 0, "unbroken_offset": 0,
            "stopped": False,
        }  # fmt: skip
        if state is not None:
            partitions = [{"topic": "orders", "partition": each} for each in parts]
            row |= {
                "state": state, "producer_id": producer, "producer_epoch": epoch, "timeout_ms": 60_000,
                "updated_ms": now_ms, "started_ms": now_ms,
                "partitions": partitions if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else [],
            }  # fmt: skip
        self.rows.append(row | self.columns | columns)
        return self.rows[-1]

    def transaction(
        self, epoch: int = 0, outcome: str = "Commit", *, bumps: bool = False, **columns: Any
    ) -> None:
        self.add("Ongoing", epoch, **columns)
        self.add(f"Prepare{outcome}", epoch + bumps, **columns)
        self.add(f"Complete{outcome}", epoch + bumps, **columns)


def rows_of(states: States, sizes: tuple[int, ...] = (1_000_000,)) -> list[Row]:
    latest = max((row["timestamp_ms"] for row in states.rows), default=None)
    return feed(STORY, ({"log_ms": latest, "now_ms": latest, **row} for row in states.rows), sizes)


def outcomes(states: States) -> list[tuple[Any, ...]]:
    rows = [row for row in rows_of(states) if row["kind"] == "outcome"]
    names = ("outcome", "producer_id", "data_epoch", "producer_epoch", "offset", "completed_offset")
    return [tuple(row[name] for name in names) for row in sorted(rows, key=lambda row: int(row["offset"]))]
