"""Plays entries to a leader, a follower and a node that starts again, and compares their images.

The leader replays records on its overlay in the order in which they were decided. A follower replays them log
by log, from the bytes of the entry. A restarted node does that again, from an image that was saved at any
entry before.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import Applied, apply, replay_record
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.quorum.draft import Draft
from fencepost.quorum.port import Decide, Request
from fencepost.records.batch import decode_batch, stamp
from fencepost.records.entry import Entry, decode_entry, decode_records, encode_entry, placed
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import ImageVersion, NodeId, ProposalNumber, Term
from fencepost.snapshots.rows import TABLES

NOW_MS = 1_763_600_000_000
EPOCH = Term(3)


class Images:
    """The three. ``refused`` counts decisions that were refused, for whatever reason; they write nothing.

    ``violations``   what went wrong in those whose records could not be replayed.
    """

    def __init__(self, *records: Any) -> None:
        self.leader, self.follower, self.restarted = (_begun(records) for _ in range(3))
        self.log: list[bytes] = []
        self.refused = 0
        self.violations: list[Exception] = []

    def play(self, decisions: Sequence[Decide[Any]], *, saved: bool) -> None:
        """One entry. ``saved``: the node that starts again has it in the image that it starts with."""
        before = self.leader.header
        draft = Draft(self.leader, lambda _request, error: self.violations.append(error))
        requests = [Request(decide, lambda _outcome, _throttle_ms: None) for decide in decisions]
        for request in requests:
            assert draft.take(request, NOW_MS + len(self.log))
        self.refused += sum(isinstance(request.outcome, Exception) for request in requests)
        self.log.append(encode_entry(_entry(before, draft)))
        entry = decode_entry(self.log[-1])
        draft.overlay.header = before
        assert isinstance(apply(draft.overlay, entry, draft.logged(), replayed=True), Applied)
        draft.overlay.write_to(self.leader)
        for view in (self.follower, self.restarted) if saved else (self.follower,):
            assert isinstance(apply(view, entry, decode_records(entry)), Applied)
        assert image(self.follower) == image(self.leader)
        assert _ends_in_archive(entry, before) == self.leader.header.log_ends

    def start_again(self) -> None:
        """The whole log is read once more: what the image has already is superseded."""
        for raw in self.log:
            entry = decode_entry(raw)
            apply(self.restarted, entry, decode_records(entry))
        assert image(self.restarted) == image(self.leader)


def image(view: Overlay) -> dict[str, Any]:
    """Every row of every table, and the header."""
    found: dict[str, Any] = {name: list(view.items(table)) for name, table in TABLES.items()}
    return found | {"header": view.header}


def _begun(records: Sequence[Any]) -> Overlay:
    """An image at the level at which everything may be written, behind some history in each log."""
    view = Overlay(EmptyView())
    view.header = ImageHeader(ImageVersion(9), EPOCH, NodeId(1), (100, 200, 300))
    for record in (FeatureLevelRecord(name=LOG_LEVEL, feature_level=LEVEL_MAX), *records):
        replay_record(view, record)
    return view


def _entry(at: ImageHeader, draft: Draft) -> Entry:
    return Entry(at.version, at.controller_epoch, NodeId(1), ProposalNumber(1), draft.batches(NOW_MS))


def _ends_in_archive(entry: Entry, before: ImageHeader) -> tuple[int, ...]:
    """Where the logs end once the batches are stamped, which must follow each other without a gap."""
    ends = list(before.log_ends)
    for log, base_offset, raw in placed(entry, before.log_ends):
        batch, _ = decode_batch(stamp(raw, base_offset, EPOCH))
        assert batch.base_offset == ends[log], "no gap, no overlap"
        ends[log] = batch.end
    return tuple(ends)
