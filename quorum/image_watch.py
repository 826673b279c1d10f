"""Whether this node's image is the one that the others have; and what it does when it is not.

Found     a majority of voters, this node not counted, has one other digest at one version; or this node's own
          checksums differ; or a committed record cannot apply to it. The first two end nothing but answers:
          its journal is sound, so it goes on acknowledging and voting. After the third it does neither, for a
          leader whose own image is at fault must not have its acknowledgement.
Until     a snapshot of a node whose last digest a majority confirmed is the image, it applies nothing, does
          not campaign, answer, or take and send snapshots. The leader is requested to send, in acks. The mark
          in the store's meta outlives a restart.
Split     where digests differ and none is a majority's, no one stops: it is logged, and an operator decides
          (``fencepost storage repair --trust NODE``).
Way       each ack has the follower's last report, and those since its ack before: a node that catches up has
          several. Entries have the last of each node, and what the follower has not got of them. Repeated in
          part on each new connection. Earlier versions have the last ones alone, or ignore both.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from fencepost.controller.replay import apply
from fencepost.controller.view import ImageHeader, Overlay
from fencepost.quorum.electorate import Electorate
from fencepost.quorum.image_marks import BAD, TRUST, Mark
from fencepost.quorum.journal import NO_OP
from fencepost.quorum.messages import (
    EARLIER_MAX,
    REPORTS_MAX,
    Ack,
    AppendEntries,
    Behind,
    Message,
    RequestVote,
    SnapshotBegin,
)
from fencepost.quorum.proposer import Proposer
from fencepost.quorum.reports import Reports
from fencepost.quorum.voter import Voter
from fencepost.records.entry import decode_entry, decode_records
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import LogIndex, NodeId
from fencepost.snapshots.digests import ChangedRows
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.wire.limited_log import LimitedLog

SPLIT_S: Final = 2.0  # from two digests that differ to the log, unless a majority agrees by then
SCRUB_ROWS: Final = 32  # at a time, 20 times a second: 0.1 ms; a million rows take 26 minutes
REMEDY: Final = "if no majority of nodes agrees, stop this one: fencepost storage repair --trust NODE"


class Snapshots(Protocol):
    """What is needed of a ``fencepost.quorum.snapshotter.Snapshotter``."""

    @property
    def installing(self) -> bool:
        """A snapshot's rows are being put."""

    def send_fresh(self, peer: NodeId, from_index: LogIndex) -> None:
        """Send a snapshot of ``from_index`` or a later one."""

    def distrust(self, version: int) -> None:
        """Set aside what was taken after ``version``."""


class ImageWatch:
    """See the module. One of a replica."""

    snapshots: Snapshots  # they need each other

    def __init__(
        self,
        voter: Voter,
        proposer: Proposer,
        electorate: Electorate,
        clock: Callable[[], float],
    ) -> None:
        config, store, log = voter.config, voter.store, voter.log
        self._node_id = config.node_id
        self._voter = voter
        self._store = store
        self._raft = voter.raft
        self._proposer = proposer
        self._electorate = electorate
        self._log = log
        self._limited = LimitedLog(log, clock)
        self._reports = Reports(config.node_id, config.voter_ids)
        self._clock = clock
        self._split: tuple[int, float] | None = None  # a version at which no majority agrees, and since when
        self._sent: dict[NodeId, int] = {}  # to each peer, so many of what was heard
        self._heard = 0
        self._last_heard: deque[tuple[int, int, bytes]] = deque(maxlen=REPORTS_MAX)
        self._said: dict[NodeId, int] = {}  # to each peer, the version of this node's last report
        self._sound_at = 0  # the last version at which a majority had this node's digest
        self._changed = ChangedRows()
        self._changed.begin(store.image.header.version)
        raw, trusted = store.meta_get(BAD), store.meta_get(TRUST)
        self._mark = None if raw is None else msgspec.msgpack.decode(raw, type=Mark)
        self._trusted = None if trusted is None else NodeId(msgspec.msgpack.decode(trusted, type=int))
        self.must_stop = False  # the image was found bad, and the leader's duties are not ended yet
        if self._mark is not None and not self._mark.may_ack and self._applies_now():
            self._mark = None
            store.meta_delete(BAD)
        voter.raft.is_frozen = self.is_bad
        if self._mark is not None:
            log.error("image_bad", reason=self._mark.reason, trusted=self._trusted, next=REMEDY)

    @property
    def is_bad(self) -> bool:
        """Nothing is applied or answered until a snapshot takes the image's place."""
        return self._mark is not None

    def lacks(self, index: LogIndex) -> bool:
        """A snapshot of ``index`` is newer than the image, or takes the place of a bad one."""
        return index >= self._wanted_from() if self.is_bad else index > self._voter.applied[0]

    # -- this node's image --------------------------------------------------------------------------

    def applying(self, written: Overlay) -> None:
        """An entry's rows, before they are in the image."""
        self._changed.note(written)

    def has_applied(self) -> None:
        """An entry is in the image: report its digest if its version has one."""
        try:
            digest = self._changed.take(self._store.image)
        except RowsChanged as error:
            self.differs(str(error))
            return
        if digest is not None:
            self._heard_of(self._node_id, self._store.image.header.version, digest)

    def cannot_apply(self, error: Exception) -> None:
        """A committed record does not apply: this image is at fault, or the leader's. The process ends.

        A row that changed on this node's disk is another matter: ``differs``.
        """
        if isinstance(error, RowsChanged):
            self.differs(str(error))
            return
        version = self._store.image.header.version
        self._put_mark(Mark(f"a committed record does not apply: {error}", version + 1, may_ack=False))
        self._voter.flush()
        raise error

    def _applies_now(self) -> bool:
        """The record that did not apply does so, by this version: a bug was fixed."""
        found = self._voter.journal.entry_at(self._voter.applied[0] + 1)
        if found is None or found[0][:1] == NO_OP:
            return False
        entry = decode_entry(found[0][1:])
        try:
            apply(Overlay(self._store.image), entry, decode_records(entry))
        except InvariantViolation:
            return False
        return True

    def differs(self, reason: str) -> None:
        """The image is not what this node wrote, by its own checksums. Raises CorruptData if it is alone."""
        if not self._voter.config.voter_ids - {self._node_id}:
            raise CorruptData(f"{reason}; a start makes the image again, of snapshot and journal")
        self._condemn(Mark(reason, 0, may_ack=True))

    def installed(self, header: ImageHeader) -> None:
        """A snapshot is the image now."""
        self._changed.begin(header.version)
        if self._mark is None:
            return
        self._log.warning("image_restored", version=header.version, was=self._mark.reason)
        self._mark, self._trusted, self.must_stop = None, None, False
        self._raft.is_frozen = False
        for name in (BAD, TRUST):
            self._store.meta_delete(name)

    def stop_answering(self) -> None:
        """End what a leader does, without draining: see ``must_stop``. The journal is flushed next."""
        self.must_stop = False
        self._proposer.give_up()
        self._raft.resign(0.0)
        self.distrust_snapshots()

    def distrust_snapshots(self) -> None:
        """Set the snapshots aside that may have been taken of a bad image."""
        self.snapshots.distrust(self._sound_at)

    def _condemn(self, mark: Mark) -> None:
        if self.is_bad:
            return
        self.must_stop = self._raft.is_frozen = True
        self._reports.forget(self._node_id)
        self._put_mark(mark)
        self._log.error(
            "image_bad",
            reason=mark.reason,
            version=self._store.image.header.version,
            sound_at=self._sound_at,
            next=f"does not answer until a snapshot of a confirmed node is installed; {REMEDY}",
        )

    def _put_mark(self, mark: Mark) -> None:
        self._mark = mark
        self._store.meta_put(BAD, msgspec.msgpack.encode(mark))

    # -- the others ---------------------------------------------------------------------------------

    def heard(self, peer: NodeId, message: Message) -> Message | None:
        """What a peer says of images; None if this node must not follow the message now."""
        if isinstance(message, Ack):
            report = message.report
            is_new = report is not None and (message.earlier or self._reports.is_new(peer, *report))
            if report is not None and is_new and self._electorate.counts(peer):
                for each in (*message.earlier, report):
                    self._heard_of(peer, *each)
            if message.wants_from is not None and self._raft.is_leader and not self.is_bad:
                self.snapshots.send_fresh(peer, LogIndex(message.wants_from))
        elif isinstance(message, AppendEntries):
            for node, version, digest in message.reports:
                if node != self._node_id:
                    self._heard_of(NodeId(node), version, digest)
        return message if self._mark is None else self._followed(peer, message, self._mark)

    def on_ack(self, peer: NodeId, ack: Ack) -> Ack:
        """Implements ``transport.Said``."""
        report = self._reports.last(self._node_id)
        wants_from = self._wanted_from() if self.is_bad and self._may_give(peer) else None
        if report is None and wants_from is None:
            return ack
        earlier = self._earlier(peer, report) if report is not None else []
        return msgspec.structs.replace(ack, report=report, wants_from=wants_from, earlier=earlier)

    def _earlier(self, peer: NodeId, last: tuple[int, bytes]) -> list[tuple[int, bytes]]:
        """Reports of this node before the last one that were in no ack to the peer."""
        said = self._said.get(peer, -1)
        if said == last[0]:
            return []
        self._said[peer] = last[0]
        return self._reports.newer(self._node_id, said, EARLIER_MAX + 1)[:-1]

    def on_entries(self, peer: NodeId, entries: AppendEntries) -> AppendEntries:
        """Implements ``transport.Said``. Repeated with each message without entries: one may be lost."""
        sent = self._sent.get(peer, 0)
        if not self._heard or (entries.entries and sent == self._heard):
            return entries
        self._sent[peer] = self._heard
        newest = self._reports.newest()
        unsent = [*self._last_heard][sent - self._heard :] if sent < self._heard else []
        left = [each for each in unsent if each not in newest]
        return msgspec.structs.replace(entries, reports=[*left, *newest][-REPORTS_MAX:])

    def connected(self, peer: NodeId) -> None:
        """Implements ``transport.Said``. The peer may be another process, too."""
        self._sent.pop(peer, None)
        self._said.pop(peer, None)

    def forget(self, peer: NodeId) -> None:
        """It has another directory than before."""
        self._reports.forget(peer)

    def _heard_of(self, node: NodeId, version: int, digest: bytes) -> None:
        if not self._reports.add(node, version, digest):
            return
        self._heard += 1
        self._last_heard.append((node, version, digest))
        own = self._reports.at(version).get(self._node_id)
        if own is None:
            return
        if self._reports.majority_at(version) == own:
            self._sound_at = max(self._sound_at, version)
        if self._reports.refutes(version):
            self._condemn(Mark(f"a majority has another digest at version {version}", version, may_ack=True))
        elif self._reports.is_split(version):
            self._split = self._split or (version, self._clock())
        else:
            others = [each for each, digest in self._reports.at(version).items() if digest != own]
            if others:
                self._limited.error("image_of_peer_differs", version=version, nodes=others)

    def maintain(self) -> None:
        """Every few milliseconds: scrub; say what stays split, for a third report may be on its way."""
        self._limited.flush()
        if not self.is_bad and self._store.ranges.changed:
            self.differs(self._store.ranges.changed)
        if not self.is_bad and not self._store.scrub_rows(SCRUB_ROWS):
            self.differs("its rows do not have the checksum that they were written with")
        if self._split is None or self._clock() - self._split[1] < SPLIT_S:
            return
        (version, _), self._split = self._split, None
        if self._reports.is_split(version):
            digests = {str(each): digest.hex() for each, digest in self._reports.at(version).items()}
            self._limited.error("images_differ", version=version, digests=digests, next=REMEDY)

    def _followed(self, peer: NodeId, message: Message, mark: Mark) -> Message | None:
        """A message as a node with a bad image takes it."""
        if isinstance(message, SnapshotBegin):
            return message if self._may_give(peer) else None
        if mark.may_ack:
            return message
        if isinstance(message, RequestVote):
            return None
        return Behind(message.term, 0) if isinstance(message, AppendEntries) else message

    def _may_give(self, peer: NodeId) -> bool:
        """Its snapshot may take the bad image's place."""
        if self._mark is None or self.snapshots.installing or peer != self._raft.leader_id:
            return False
        if self._trusted is not None:
            return peer == self._trusted
        confirmed_at = self._reports.confirmed(peer)
        return confirmed_at is not None and confirmed_at >= self._mark.version

    def _wanted_from(self) -> LogIndex:
        refused = self._mark is not None and not self._mark.may_ack
        return LogIndex(self._voter.applied[0] + (1 if refused else 0))
