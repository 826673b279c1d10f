"""A batch that does not belong there, put into a log in one of three ways."""

from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.types import Offset, Term
from tests.audit.faults.fault import NoPlace
from tests.audit.faults.tree import Entry, Log

RENUMBERED: Final = "renumbered"  # what follows moves on: the offsets are as if it had always been there
OVERLAPPING: Final = "overlapping"  # what follows keeps its offsets
APPENDED: Final = "appended"  # at the end of the log
WAYS: Final = (RENUMBERED, OVERLAPPING, APPENDED)


def insert(log: Log, place: Entry, raw: bytes, way: str) -> Entry:
    """Put ``raw`` after ``place``, stamped for it. Raises NoPlace: nothing follows it."""
    entries = log.entries
    if way == APPENDED:
        place = entries[-1]
    elif place is entries[-1]:
        raise NoPlace
    header = place.header
    epoch = log.last_epoch if way == APPENDED else header.leader_epoch
    entry = Entry(stamp(raw, Offset(header.end), Term(epoch)))
    log.insert_after(place, entry)
    if way == RENUMBERED:
        log.shift_after(entry, entry.header.end - entry.header.base_offset)
    return entry


def take_out(log: Log, entry: Entry, *, renumber: bool) -> tuple[Entry, ...]:
    """Remove a batch; returns what was before and after it."""
    beside = tuple(each for each in log.neighbours(entry) if each is not entry)
    header = entry.header
    if renumber:
        log.shift_after(entry, header.base_offset - header.end)
    log.remove(entry)
    return beside
