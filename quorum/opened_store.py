"""Opening a node's store: nothing is answered from bytes that are not those that were written.

Image     every row is read, and their sum held against the seal. A damaged image is forgotten, and made
          again from the newest sound snapshot here and the journal behind it, as one that was deleted.
Journal   an entry with a wrong checksum, or one that is missing, is a lost store: an acknowledgement was
          given for it, so the node must not vote with it. StoreDamaged: node/main.py joins as a new voter.
Age       so is a store that is older than its archive (older_store.py).
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.quorum.archiver import ArchiveConfig, Archiver
from fencepost.quorum.image_marks import BAD, TRUST
from fencepost.quorum.journal import Journal
from fencepost.quorum.start_progress import Progress
from fencepost.records.types import LogIndex, Term
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.store import ImageLost, Store
from fencepost.snapshots.sums import StoreDamaged, Verdict


def open_store(directory: Path, *, sync: bool, log: FilteringBoundLogger) -> Store:
    """The store of a node's directory, made if there is none. Raises StoreInUse."""
    directory.mkdir(parents=True, exist_ok=True)
    store = Store.open(directory / "store", sync=sync)
    verdict = store.verify_image()  # the seal says which rows are the image's
    if store.forget_lost_image():
        log.error("image_lost", store=str(directory / "store"))
    elif verdict is Verdict.DAMAGED:
        store.forget_image()
        if store.meta_get(TRUST) is None:
            store.meta_delete(BAD)  # it is gone, and what follows is made of the journal
        log.error(
            "image_damaged", store=str(directory / "store"), next="made again from snapshot and journal"
        )
    return store


def open_journal(store: Store, clock: Callable[[], float], log: FilteringBoundLogger) -> Journal:
    """The journal of a store. Raises StoreDamaged; the store is closed then, and as it was."""
    entries: int = store.txn.stat(store.journal_db)["entries"]
    try:
        journal = Journal(store, Progress("journal_reading", entries, clock, log).at)
    except StoreDamaged:
        store.abandon()
        raise
    if store.mended:
        log.warning(
            "store_mended",
            values=", ".join(sorted(store.mended)),
            reason="they are not as they were written; what they were is in the store twice",
            next="nothing: they are written again",
        )
    return journal


def archiver(
    config: ArchiveConfig, store: Store, journal: Journal, applied: LogIndex, log: FilteringBoundLogger
) -> Archiver:
    """The archives beside a store. Raises StoreDamaged if it is older than they are; it is closed then."""
    try:
        return Archiver(config, store, journal, applied, log)
    except StoreDamaged:
        store.abandon()
        raise


def saved_position(store: Store) -> tuple[LogIndex, Term] | None:
    """The last applied entry that the image on disk has; None before it was written for the first time."""
    raw = store.meta_get(APPLIED)
    return None if raw is None else msgspec.msgpack.decode(raw, type=tuple[LogIndex, Term])


def require_image(directory: Path, applied: LogIndex, journal: Journal) -> None:
    """What follows the image is in the journal. Raises ImageLost."""
    first = journal.first_index
    if applied + 1 < first:
        raise ImageLost(
            f"{directory}: the image ends at Raft index {applied}, the journal begins at {first}, and no "
            "sound snapshot lies between: format this node anew, and its peers send everything"
        )
