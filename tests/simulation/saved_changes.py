"""A row that changed in a process's memory, and that was written from there: outside of what is promised.

Such a row has a sound checksum, so a start takes the image as it is, unless a digest found it before. What
the image must be is known to the simulation alone: it replays the committed log. An operator's word then
stands for what no program can see: the image is a bad one, and a peer's snapshot takes its place. Counted.

Apart      only rows that changed in memory since the image was a good one may differ. Any other row that
           does is found by I3, as everywhere.
Sent       a snapshot of such an image has the row, too, and who installs it.
"""

from typing import Any

from fencepost.controller.replay import apply
from fencepost.controller.view import DELETED, EmptyView, Overlay
from fencepost.quorum.replica import Replica
from fencepost.records.entry import decode_records
from tests.simulation.ledger import Ledger, RowAt

OUTSIDE = "outside: a changed row was written"


def condemn_saved_changes(ledger: Ledger, replica: Replica) -> None:
    """At a start."""
    _condemn(ledger, replica, ledger.changed_rows.get(replica.config.node_id, set()))


def condemn_sent_changes(ledger: Ledger, replica: Replica) -> bool:
    """When a snapshot became the image, perhaps of a node that had written changed rows. True if it had."""
    return _condemn(ledger, replica, ledger.changed_ever)


def _condemn(ledger: Ledger, replica: Replica, changed: set[RowAt]) -> bool:
    """Nothing, where the image is the one that it must be, or differs in another row, too."""
    if not changed or replica.watch.is_bad:
        return False
    image = replica.store.image
    meant = _meant(ledger, image.header.version)
    if meant is None:
        return False
    found = {(name, key): value for name, key, value in image.encoded_rows()}
    differing = {at for at in found.keys() | meant.keys() if found.get(at) != meant.get(at)}
    if not differing or not differing <= changed:
        return False
    ledger.count(OUTSIDE)
    replica.watch.differs(f"{OUTSIDE}: {sorted(differing)}")
    return True


def _meant(ledger: Ledger, version: int) -> dict[RowAt, bytes] | None:
    """The rows at a version, by the committed log; None: not all of it was seen."""
    image = Overlay(EmptyView())
    for _, seen in sorted(ledger.entries.items()):
        if image.header.version >= version:
            break
        if seen.entry is not None:
            apply(image, seen.entry, decode_records(seen.entry))
    return _encoded(image.rows) if image.header.version == version else None


def _encoded(rows: dict[Any, dict[Any, Any]]) -> dict[RowAt, bytes]:
    return {
        (table.name, table.encode_key(key)): table.encode_value(value)
        for table, written in rows.items()
        for key, value in written.items()
        if value is not DELETED
    }
