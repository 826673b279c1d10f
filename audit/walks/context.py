"""What is known of one partition while its producers are judged, and what could not be decided there."""

from dataclasses import dataclass, field
from typing import Final

from fencepost.audit.walks.align import Row
from fencepost.audit.walks.columns import UNKNOWN
from fencepost.audit.walks.found import Found, found

NO_COORDINATOR: Final = "there is no log of a transaction coordinator"
NOT_KEPT: Final = "the coordinator's log of that time is not kept"
OPAQUE: Final = "bytes that cannot be read may be the marker"
ORDER: Final = "the logs were copied from running brokers, and which of them first is not known"
DELETED: Final = "that part of the partition's log is not kept"
ELECTION: Final = (
    "an unclean election, or one that no log tells of any more, or a topic of that name that was deleted"
    " may have taken the marker along"
)
NOT_READ: Final = "the partition's log is not among what was read"


@dataclass(slots=True)
class Context:
    """The partition: its row of rank 0, and what its producers add up to."""

    row: Row
    decided: dict[int, int] = field(
        default_factory=dict
    )  # by coordinator's partition, the latest with a marker
    seen_through: dict[int, int] = field(
        default_factory=dict
    )  # by coordinator's partition, the last marker here whose transaction its log completes
    late: list[tuple[Found, int, int]] = field(default_factory=list)  # finding if decided after that offset
    unknown: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # rule, why: count, first offset
    found: list[Found] = field(default_factory=list)

    def undecided(self, rule: str, why: str, offset: int | None) -> None:
        """One more of what cannot be decided."""
        entry = self.unknown.setdefault((rule, why), [0, -1])
        entry[0] += 1
        if offset is not None and (entry[1] < 0 or offset < entry[1]):
            entry[1] = offset

    def pair(self, outcome: Row, turn: Row | None) -> None:
        """What an outcome and its turn say of the coordinator's log."""
        partition = outcome["coordinator_partition"]
        self.decided[partition] = max(self.decided.get(partition, -1), outcome["offset"])
        if turn is not None and outcome["completed_offset"] is not None:
            self.saw_through(partition, turn["marker_offset"])

    def saw_through(self, partition: int, marker_offset: int | None) -> None:
        """The coordinator's log completes the transaction of this marker: it tells of all markers before."""
        last = max(self.seen_through.get(partition, -1), -1 if marker_offset is None else marker_offset)
        self.seen_through[partition] = last

    def is_covered(self, row: Found) -> bool:
        """Whether no end that its coordinator's log lost explains the finding.

        Of the markers of one coordinator partition, in the order of the log, each was decided before the ones
        that follow were completed.
        """
        partition, offset = row["coordinator_partition"], row["offset"]
        return partition is not None and offset is not None and offset < self.seen_through.get(partition, -1)

    @property
    def kept_from(self) -> int:
        """Markers are kept from this offset on."""
        return int((self.row["unbroken_offset"] if self.row["compacted"] else self.row["offset"]) or 0)


def unknown_rows(context: Context) -> list[Found]:
    """One row for each reason why something could not be decided."""
    where = {name: context.row[name] for name in ("topic", "partition")}
    rows: list[Found] = []
    for (rule, why), (count, first) in sorted(context.unknown.items()):
        check = {"orphan": "hanging", "zombie": "fencing"}.get(rule, "markers")
        rows.append(
            found(check, rule, f"{count} transactions: {why}", kind=UNKNOWN, subject=f"{count} transactions",
                  offset=first if first >= 0 else None, **where)
        )  # fmt: skip
    return rows
