"""What groups committed, in the order in which it took effect: Kafka's rules for ``__consumer_offsets``.

In effect   a plain commit and a tombstone at once; an offset in a transaction at the COMMIT marker of its
            producer that follows it, never at an ABORT. Of two, the record that was written later wins,
            whichever took effect first. A tombstone also drops what is pending.
Break       rows between which something of the log is missing or cannot be read are not compared: the missing
            may be a marker, a commit or a group. What compaction leaves out is none of these: of a partition
            it keeps the last commit, and of a group the last members. Behind the end of one copy it may be:
            there others, which a cleaner has been through later, follow what only that copy has kept.
Memory      what is in effect, what is pending, and the last generations of each group: what a broker
            remembers.
Source      Kafka OffsetMetadataManager.replay, replayEndTransactionMarker.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from fencepost.audit.walks.walk import Walk

BREAK, MARKER, GENERATION, STATIC_MEMBER, COMMIT = range(5)
"""What a row is. Of one offset they come in this order."""

GENERATIONS_MAX: Final = 8
"""Of a group or of a partition in it, that are remembered: a transaction may end some generations later."""

ROWS_MAX: Final = 8_192  # of one batch that is given on

_PLACE: Final = [
    ("node", pa.int32()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("path", pa.string()),
    ("position", pa.int64()),
    ("offset", pa.int64()),
]
_COMMIT: Final = [
    ("timestamp_ms", pa.int64()),
    ("group_id", pa.string()),
    ("commit_topic", pa.string()),
    ("commit_partition", pa.int32()),
    ("committed_offset", pa.int64()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("topic_id", pa.string()),
    ("generation", pa.int32()),
    ("is_identified", pa.bool_()),
    ("member_id", pa.string()),
]

SOURCE: Final = pa.schema(
    [
        *_PLACE,
        ("kind", pa.int32()),
        *_COMMIT,
        ("control_type", pa.int16()),  # of a marker
        ("state", pa.string()),  # of a generation; null: a tombstone
        ("instance_id", pa.string()),  # of a static member
    ]
)

RESULT: Final = pa.schema(
    [
        *_PLACE,
        *_COMMIT,
        ("outcome", pa.string()),  # "committed", "aborted"; null: pending
        ("effect_offset", pa.int64()),  # where it took effect; null: not
        ("in_effect", pa.bool_()),
        ("group_state", pa.string()),  # of the group at this record; null: it had none
        ("group_generation", pa.int32()),
        ("marker_path", pa.string()),
        ("marker_position", pa.int64()),
        # Of what was in effect before; null: nothing.
        ("previous_offset", pa.int64()),
        ("previous_producer_id", pa.int64()),
        ("previous_generation", pa.int32()),
        ("previous_timestamp_ms", pa.int64()),
        ("previous_marker_path", pa.string()),
        ("previous_marker_position", pa.int64()),
        # "went_back", "two_owners", "stale_generation", "seek"; null: as it should be
        ("rule", pa.string()),
        ("other_member_id", pa.string()),  # of two owners the first
        ("other_offset", pa.int64()),
    ]
)

Row = dict[str, Any]
V = TypeVar("V")


@dataclass(slots=True)
class _Group:
    """The group as its last record says, and the static members of its last generations."""

    state: str | None = None
    generation: int | None = None
    instances: dict[int, dict[str, str]] = field(default_factory=dict)  # by generation, of each member id


@dataclass(slots=True)
class _Claim:
    """The first commit of a member in a generation."""

    row: Row
    is_disputed: bool = False


@dataclass(slots=True)
class _Offset:
    """One group's offset of one partition: the newest record that counts, and what is in effect."""

    newest: int = -1
    current: Row | None = None
    claims: dict[int, _Claim] = field(default_factory=dict)  # by generation


class _Log:
    """One partition of ``__consumer_offsets``."""

    def __init__(self) -> None:
        self._pending: dict[int, list[Row]] = {}  # by producer id
        self._groups: dict[str, _Group] = {}
        self._offsets: dict[tuple[str, str, int], _Offset] = {}

    def take(self, row: Row) -> Iterator[Row]:
        """The commits whose outcome this row decides."""
        kind = row["kind"]
        if kind == BREAK:
            yield from self.end()
        elif kind == MARKER:
            yield from self._ended(row)
        elif kind == GENERATION:
            group = self._group(row)
            group.state, group.generation = row["state"], row["generation"]
        elif kind == STATIC_MEMBER:
            _newest(self._group(row).instances, row["generation"], dict[str, str]())[row["member_id"]] = row[
                "instance_id"
            ]
        else:
            yield from self._committed(row)

    def end(self) -> Iterator[Row]:
        """Of what is pending no one knows the outcome; what comes is compared with nothing before it."""
        for rows in self._pending.values():
            yield from rows
        self._pending.clear()
        self._groups.clear()
        self._offsets.clear()

    def _group(self, row: Row) -> _Group:
        return self._groups.setdefault(row["group_id"], _Group())

    def _committed(self, row: Row) -> Iterator[Row]:
        group = self._group(row)
        row |= {"in_effect": False, "group_state": group.state, "group_generation": group.generation}
        if row["is_identified"] and group.generation is not None and row["generation"] != group.generation:
            row["rule"] = "stale_generation"
        if row["producer_id"] >= 0 and row["committed_offset"] is not None:
            self._pending.setdefault(row["producer_id"], []).append(row)
            return
        row |= {"outcome": "committed", "effect_offset": row["offset"]}
        self._put(row, is_last=True)
        yield row

    def _ended(self, marker: Row) -> Iterator[Row]:
        rows = self._pending.pop(marker["producer_id"], [])
        is_commit = marker["control_type"] == 1
        last = {_key(row): row["offset"] for row in rows}
        for row in rows:
            row |= {"marker_path": marker["path"], "marker_position": marker["position"]}
            row["outcome"] = "committed" if is_commit else "aborted"
            if is_commit:
                row["effect_offset"] = marker["offset"]
                self._put(row, is_last=last[_key(row)] == row["offset"])
            yield row

    def _put(self, row: Row, *, is_last: bool) -> None:
        """``is_last``: of those that take effect at one marker."""
        place = self._offsets.setdefault(_key(row), _Offset())
        before = place.current
        if before is not None:
            row |= {
                "previous_offset": before["committed_offset"],
                "previous_producer_id": before["producer_id"],
                "previous_generation": before["group_generation"],
                "previous_timestamp_ms": before["timestamp_ms"],
                "previous_marker_path": before.get("marker_path"),
                "previous_marker_position": before.get("marker_position"),
            }
        if is_last and row["offset"] > place.newest:
            row["in_effect"] = True
            place.current = row
        place.newest = max(place.newest, row["offset"])
        if row.get("rule") is None and before is not None and row["in_effect"]:
            row["rule"] = _compared(row, before)
        self._claim(place, row)

    def _claim(self, place: _Offset, row: Row) -> None:
        """Two members, in one generation: the one whose record is the later is the second owner."""
        if not row["is_identified"] or row["member_id"] is None:
            return
        claim = _newest(place.claims, row["generation"], _Claim(row))
        first, second = sorted((claim.row, row), key=lambda each: int(each["offset"]))
        claim.row = first
        if claim.is_disputed or first["member_id"] == second["member_id"] or self._replaced(first, second):
            return
        if second.get("rule") == "stale_generation":
            return
        claim.is_disputed = True
        # The row that is about to be given on tells of it, whichever of the two it is.
        row |= {
            "rule": "two_owners",
            "other_member_id": claim.row["member_id"],
            "other_offset": first["offset"],
        }
        if second is not row:
            row |= {"other_member_id": second["member_id"], "other_offset": second["offset"]}

    def _replaced(self, first: Row, second: Row) -> bool:
        """A static member and its successor have one instance id in that generation."""
        instances = self._group(first).instances.get(first["generation"], {})
        mine = instances.get(first["member_id"])
        return mine is not None and mine == instances.get(second["member_id"])


def _compared(row: Row, before: Row) -> str | None:
    """Whether an offset that took effect is below the one that was in effect."""
    committed, previous = row["committed_offset"], before["committed_offset"]
    if committed is None or committed < 0 or previous is None or committed >= previous:
        return None
    if None not in (row["topic_id"], before["topic_id"]) and row["topic_id"] != before["topic_id"]:
        return None
    if row["group_state"] is None or row["group_state"] == "Empty":
        return None
    generations = (row["group_generation"], before["group_generation"])
    in_transactions = row["producer_id"] >= 0 and before["producer_id"] >= 0
    is_next = None not in generations and generations[0] > generations[1]
    return "went_back" if in_transactions and is_next else "seek"


def _key(row: Row) -> tuple[str, str, int]:
    return row["group_id"], row["commit_topic"], row["commit_partition"]


def _newest(by_generation: dict[int, V], generation: int, new: V) -> V:
    """The entry of a generation, ``new`` if there is none; of the others the highest are kept."""
    found = by_generation.setdefault(generation, new)
    while len(by_generation) > GENERATIONS_MAX:
        del by_generation[min(by_generation)]
    return found


def commits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of rows of SOURCE those of RESULT, one per commit and tombstone."""
    waiting: list[Row] = []
    for row in _decided(batches):
        waiting.append(row)
        if len(waiting) >= ROWS_MAX:
            yield pa.RecordBatch.from_pylist(waiting, schema=RESULT)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=RESULT)


def _decided(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    log, of = _Log(), None
    for rows in batches:
        for row in rows.to_pylist():
            if (row["topic"], row["partition"]) != of:
                yield from log.end()
                log, of = _Log(), (row["topic"], row["partition"])
            yield from log.take(row)
    yield from log.end()


COMMITS: Final = Walk(
    name="commits",
    keys=("topic", "partition"),
    order=("offset", "kind", "path", "position"),
    source=SOURCE,
    result=RESULT,
    run=commits,
)
