"""What happened to one transactional id, by its coordinator's records: one line per event.

Pure: rows in, sentences out. A row says how the id stands since; what happened is what the row before did not
say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fencepost.audit.report.scale import duration
from fencepost.audit.report.text import moment, plural
from fencepost.records.printable import printable

EVENTS_MAX: Final = 10_000  # rows of one id that are shown, the newest: a page stays readable
WRITTEN_MAX: Final = 1_000  # partitions, per producer epoch

_ENDED: Final = {"CompleteCommit": "committed", "CompleteAbort": "aborted"}


class Fenced(NamedTuple):
    """A pair that was taken from a producer."""

    at_ms: int
    cause: str
    producer_id: int
    producer_epoch: int
    by: str


class StateRow(NamedTuple):
    """A record of one transactional id. ``state`` None: a tombstone, of which what follows is void."""

    path: str
    position: int
    offset: int
    at_ms: int
    state: str | None
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    started_ms: int = -1
    timed_out: bool = False
    partitions: tuple[str, ...] = ()
    fences: tuple[Fenced, ...] = ()
    is_regressed: bool = False


class Event(NamedTuple):
    """Something that happened, with the record that says so."""

    at_ms: int
    what: str
    producer_id: int
    producer_epoch: int
    state: str | None
    partitions: tuple[str, ...]
    offset: int
    path: str
    position: int


class Written(NamedTuple):
    """What one producer epoch left on one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    records: int
    commits: int
    aborts: int
    first_offset: int
    last_offset: int
    first_ms: int
    last_ms: int


def events(rows: Sequence[StateRow]) -> Iterator[Event]:
    """What happened, of an id's rows in the order of their offsets; the past of the first is not there."""
    before: StateRow | None = None
    for row in rows:
        for what in _happened(before, row):
            yield Event(
                row.at_ms,
                what,
                row.producer_id,
                row.producer_epoch,
                row.state,
                row.partitions,
                row.offset,
                row.path,
                row.position,
            )
        before = row


def _happened(before: StateRow | None, row: StateRow) -> Iterator[str]:
    if row.is_regressed:
        yield "against all that came before: this pair had been left"
    if row.state is None:
        yield "forgotten: the coordinator knows nothing of the id any more"
        return
    known = before if before is not None and before.state is not None else None
    for fence in row.fences:
        if known is None or fence not in known.fences:
            by = f" ({fence.by})" if fence.by else ""
            yield f"producer {fence.producer_id} epoch {fence.producer_epoch} fenced by {fence.cause}{by}"
    if known is None or known.producer_id != row.producer_id:
        timeout = duration(row.timeout_ms)
        yield f"producer {row.producer_id} epoch {row.producer_epoch} is its producer; timeout {timeout}"
    elif known.producer_epoch != row.producer_epoch:
        yield f"epoch {known.producer_epoch} of producer {row.producer_id} became {row.producer_epoch}"
    yield from _moved(known, row)


def _moved(before: StateRow | None, row: StateRow) -> Iterator[str]:
    """What the row's state says of its transaction."""
    if row.state == "Ongoing":
        is_new = before is None or before.state != "Ongoing" or before.started_ms != row.started_ms
        there = () if is_new or before is None else before.partitions
        added = [each for each in row.partitions if each not in there]
        word = "transaction began" if is_new else "partitions added"
        yield f"{word}: {', '.join(added) or 'no partition yet'}"
    elif row.state in ("PrepareCommit", "PrepareAbort"):
        word = "commit" if row.state == "PrepareCommit" else "abort"
        why = ", its timeout is over" if row.timed_out and word == "abort" else ""
        yield f"{word} decided{why}: markers go to {', '.join(row.partitions) or 'no partition'}"
    elif row.state in _ENDED and (before is None or before.state != row.state or before.at_ms != row.at_ms):
        took = ""
        if row.started_ms >= 0:
            took = f", {duration(max(0, row.at_ms - row.started_ms))} after it began"
        yield f"transaction {_ENDED[row.state]}{took}"
    elif row.state not in (*_ENDED, "Empty", "Ongoing"):
        yield f"in state {row.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Of one transactional id. ``omitted``: older rows that are not shown."""

    transactional_id: str
    events: tuple[Event, ...]
    written: tuple[Written, ...]
    omitted: int = 0
    is_partial: bool = False  # something could not be read: what is missing may be there

    @property
    def exit_status(self) -> int:
        """0 something is known; else 3 if not everything could be read, 1 if it was."""
        return 0 if self.events else 3 if self.is_partial else 1

    def document(self) -> dict[str, Any]:
        """The same as a JSON document."""
        return {
            "transactional_id": self.transactional_id,
            "events": [each._asdict() for each in self.events],
            "omitted": self.omitted,
            "written": [each._asdict() for each in self.written],
            "partial": self.is_partial,
        }

    def lines(self) -> Iterator[str]:
        """As text: when, what; then what is on the partitions."""
        name = printable(self.transactional_id)
        if not self.events:
            yield f"{name}: these logs know nothing of it"
            return
        yield name
        if self.omitted:
            yield f"  ... {plural(self.omitted, 'older record')}"
        for each in self.events:
            yield f"  {moment(each.at_ms)}  {printable(each.what)}"
        yield from written_lines(self.written)


def written_lines(written: Sequence[Written]) -> Iterator[str]:
    """What producers left on partitions, one line each."""
    if written:
        yield "On the partitions:"
    for each in written:
        counts = [plural(each.records, "record")]
        counts += [plural(each.commits, "commit")] if each.commits else []
        counts += [plural(each.aborts, "abort")] if each.aborts else []
        yield (
            f"  {printable(each.topic)}-{each.partition}  "
            f"producer {each.producer_id} epoch {each.producer_epoch}: {', '.join(counts)}; "
            f"offsets {each.first_offset} to {each.last_offset}, "
            f"{moment(each.first_ms)} to {moment(each.last_ms)}"
        )


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch. Raises ValueError, with a sentence."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text} is no time: write 2026-11-21T06:00:00Z, or milliseconds") from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)
