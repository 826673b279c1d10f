"""A store that is older than what its own node wrote: its disk lost flushes, or a copy was put in its place.

Trace       the archive gets a batch only after the journal on disk had its entry. So an archive that ends
            behind everything that image and journal can have given it was written by a later store. What that
            one voted and acknowledged is forgotten: the store is a lost one.
Exceptions  a store that is new beside an old archive (a voter that joined again) notes where the archive
            ended then, until it is past that. Every new store does: one that did is not new any more. A
            hole's end says nothing: it is named before its snapshot is on disk.
Outside     of what can be seen: an older store beside an archive that is as old.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import REGULAR, Journal
from fencepost.records.batch import batch_header
from fencepost.records.entry import decode_entry
from fencepost.records.types import LOGS, Log, LogIndex, Offset
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import StoreDamaged

MARK: Final = "archive.mark"  # in meta: where the archives are on disk, see archiver.py
AHEAD: Final = "archive.ahead"  # in meta: where the archive of each log ended when the store was made


class Meta(Protocol):
    """A store's named values."""

    def meta_get(self, name: str, /) -> bytes | None:
        """The value stored under a name, or None."""

    def meta_put(self, name: str, value: bytes, /) -> None:
        """Set it; durable at the next flush."""


Mark = tuple[int, ImageHeader]


def read_mark(meta: Meta) -> Mark:
    """Up to where the archives are on disk; the log's begin of a store that never said."""
    raw = meta.meta_get(MARK)
    return (1, ImageHeader()) if raw is None else msgspec.msgpack.decode(raw, type=Mark)


def is_new(meta: Meta, journal: Journal) -> bool:
    """Nothing can be refilled from it: it was made beside archives that are not its own, or with them."""
    return meta.meta_get(MARK) is None and journal.last_index <= 1


def note_archives(meta: Meta, ends: Mapping[Log, Offset]) -> None:
    """The store is new, and what the archives have is not its own. ``ends``: of their last batches."""
    meta.meta_put(AHEAD, msgspec.msgpack.encode({int(log): end for log, end in ends.items()}))


def is_noted(meta: Meta) -> bool:
    """The store was opened before: without its entries it is as its disk had it first."""
    return meta.meta_get(AHEAD) is not None


def require_own_age(store: Store, ends: Mapping[Log, Offset], journal: Journal, applied: LogIndex) -> None:
    """``ends``: of the last batches of the archives; ``applied``: the image's place. Raises StoreDamaged."""
    mark, header = read_mark(store), store.image.header
    index, known = mark if header.version < mark[1].version else (applied, header)
    require_not_older(store, ends, journal, (LogIndex(index), known))
    if mark[0] < journal.first_index:  # the journal is never compacted past it
        raise StoreDamaged(
            f"{MARK} is Raft index {mark[0]}, older than the journal, which begins at {journal.first_index}"
        )


def require_not_older(
    meta: Meta,
    ends: Mapping[Log, Offset],
    journal: Journal,
    image: tuple[LogIndex, ImageHeader],
) -> None:
    """``image``: a place up to which the ends of all logs are known. Raises StoreDamaged."""
    index, header = image
    if all(end <= header.log_end(log) for log, end in ends.items()):
        return
    raw = meta.meta_get(AHEAD)
    noted = {} if raw is None else msgspec.msgpack.decode(raw, type=dict[int, int])
    possible = {log: int(header.log_end(log)) for log in LOGS}
    for at in range(max(index + 1, journal.first_index), journal.last_index + 1):
        entry = journal.entry_at(at)
        if entry is not None and entry[0][:1] == REGULAR:
            for log, batch in decode_entry(entry[0][1:]).batches:
                batch_of = batch_header(batch)
                possible[log] += batch_of.end - batch_of.base_offset
    for log, end in ends.items():
        if end > max(possible[log], noted.get(int(log), 0)):
            raise StoreDamaged(
                f"the store is older than its archive: {log.directory} has batches up to offset {end}, image "
                f"and journal reach offset {possible[log]} at most"
            )


def last_end(archive: Archive) -> Offset:
    """Where the last batch of an archive ends."""
    holes = archive.holes()
    return holes[-1].first if holes and holes[-1].end == archive.end else archive.end
