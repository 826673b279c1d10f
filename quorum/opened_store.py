"""Opening a node's store: nothing is answered from bytes that are not those that were written.

Image     every row is read, and their sum held against the seal. A damaged image is forgotten, and made
          again from the newest sound snapshot here and the journal behind it, as one that was deleted.
Journal   an entry with a wrong checksum, or one that is missing, is a lost store: an acknowledgement was
          given for it, so the node must not vote with it. StoreDamaged: node/main.py joins as a new voter.
Age       so is a store that is older than its archive (older_store.py), or than its starts (store_starts.py).
Owner     a store of another directory, or one that was made anew in its place, would let this voter vote
          twice in a term: it is refused, and kept.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.quorum.archiver import ArchiveConfig, Archiver
from fencepost.quorum.image_marks import BAD, TRUST
from fencepost.quorum.journal import Journal
from fencepost.quorum.start_progress import Progress
from fencepost.quorum.store_starts import require_latest
from fencepost.records.types import LogIndex, Term
from fencepost.settings.node_identity import Identity, StoreLost
from fencepost.snapshots.reader import APPLIED, STORE
from fencepost.snapshots.store import ImageLost, Store
from fencepost.snapshots.sums import StoreDamaged, Verdict

_OWNER: Final = "directory"  # in meta: the voter id of the node whose store it is


def take(store: Store, directory: Path, identity: Identity) -> None:
    """The store is this directory's, and the newest. Raises StoreLost, StoreDamaged, OSError."""
    if not require_own(store, directory, identity):
        own(store, identity)
    require_latest(store, directory, identity)


def require_own(store: Store, directory: Path, identity: Identity) -> bool:
    """Raises StoreLost. False: it is a new store, without an owner yet."""
    found, own = store.meta_get(_OWNER), identity.voter_id.bytes
    if found != own and (identity.has_store or found is not None):
        raise StoreLost(
            f"{directory / STORE} is not the store of this directory: it was replaced. Put the right one "
            "there, or remove it: the other voters then take this node in as a new one"
        )
    return found is not None


def own(store: Store, identity: Identity) -> None:
    """From the next flush on it is this node's."""
    store.meta_put(_OWNER, identity.voter_id.bytes)


def open_store(directory: Path, *, sync: bool, log: FilteringBoundLogger) -> Store:
    """The store of a node's directory, made if there is none. Raises StoreInUse, StoreDamaged."""
    directory.mkdir(parents=True, exist_ok=True)
    store = Store.open(directory / STORE, sync=sync)
    verdict = store.verify_image()  # the seal says which rows are the image's
    if store.forget_lost_image():
        log.error("image_lost", store=str(directory / STORE))
    elif verdict is Verdict.DAMAGED:
        store.forget_image()
        if store.meta_get(TRUST) is None:
            store.meta_delete(BAD)  # it is gone, and what follows is made of the journal
        log.error("image_damaged", store=str(directory / STORE), next="made again from snapshot and journal")
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
