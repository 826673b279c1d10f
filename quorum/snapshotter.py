"""Snapshots of a running node: taken in the background, compaction after them, sent to the far behind.

Taking      flush; a reader transaction on another thread writes the directory and syncs the archive;
            then the journal is compacted, up to what snapshot *and* archive have on disk, less a tail
            that saves laggards from a snapshot.
Sending     one file after the other, one chunk at a time, the next when the last is acknowledged, so a
            slow follower slows no other node. The follower verifies every byte before it uses any.
Installing  rows fill the next generation in slices; one transaction flips it (quorum/replica.py).
Refusal     a snapshot with a wrong byte is named in the log, set aside, and another one is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.quorum.messages import CHUNK_BYTES_MAX, SnapshotAck, SnapshotBegin, SnapshotChunk
from fencepost.quorum.port import Background
from fencepost.quorum.snapshot_receiver import Receiver
from fencepost.quorum.voter import Voter
from fencepost.records.types import LogIndex, NodeId
from fencepost.snapshots import snapshot
from fencepost.snapshots.flushes import NotFlushed
from fencepost.snapshots.reads import read_bytes
from fencepost.snapshots.snapshot import CorruptSnapshot, Manifest
from fencepost.snapshots.sums import SealBroken, require_sealed
from fencepost.wire.limited_log import LimitedLog

TAIL_ENTRIES: Final = 10_000  # kept behind the snapshot for followers that are a little behind
TAIL_BYTES: Final = 4 * 1024 * 1024
AGAIN_S: Final = 60.0  # after a snapshot that could not be written: a full disk is full for a while
WANTED_AGAIN_S: Final = 5.0  # the same, where a follower cannot go on without it
CHUNK_WAIT_S: Final = 5.0  # a transfer without an answer for so long is started anew


@dataclass(slots=True)
class Transfer:
    """A snapshot on its way to one follower."""

    manifest: Manifest
    directory: Path
    files: list[str]
    since_s: float


class Snapshotter:
    """Takes, compacts, sends, receives. On the node's thread, except for the writing itself."""

    def __init__(self, voter: Voter, background: Background, clock: Callable[[], float]) -> None:
        self._voter = voter
        self._background = background
        self._clock = clock
        self._log = voter.log
        self.root = voter.config.directory / "snapshots"
        self._taking = False
        self._failed_at_s = float("-inf")  # the last one that could not be written
        self._wanted = False
        self._waiting: list[Callable[[Path | BaseException], None]] = []
        self._compact_to = LogIndex(0)  # the journal is cut up to here, a slice per maintenance tick
        self._last_index = LogIndex(0)  # raft index of the newest sound snapshot here
        self._transfers: dict[NodeId, Transfer] = {}
        self._needed: dict[tuple[NodeId, str], tuple[LogIndex, float]] = {}  # journal after it, until when
        self._refusals = LimitedLog(voter.log, clock)
        self._receiver = Receiver(voter, self.root, self._refusals)

    def recover(self) -> None:
        """At start: tidy up, refuse what is corrupt, install what is newer than the image."""
        snapshot.sweep(self.root)
        snapshot.tidy(self.root)
        for directory in snapshot.listed(self.root):
            try:
                manifest = snapshot.verify(directory)
            except CorruptSnapshot as error:
                self.refuse(directory, str(error))
                continue
            if manifest.cluster_id != self._voter.config.cluster_id:
                self.refuse(directory, f"it belongs to cluster {manifest.cluster_id}")
                continue
            if manifest.raft_index > self._voter.applied[0]:
                if manifest.raft_index < self._voter.journal.first_index:
                    return  # the journal would go with it, and what this node acknowledged
                self._log.info("snapshot_loaded", snapshot=directory.name, raft_index=manifest.raft_index)
                self._receiver.install(directory)
                self._receiver.finish()
            self._last_index = max(self._last_index, manifest.raft_index)
            return

    def refuse(self, directory: Path, reason: str) -> None:
        """Name a snapshot that must not be used, and get it out of the way."""
        self._log.error("snapshot_refused", snapshot=str(directory), reason=reason)
        if directory.exists():
            snapshot.set_aside(directory)

    # -- taking -----------------------------------------------------------------------------------

    def maintenance_tick(self) -> None:
        """Take a snapshot when enough was applied since the last; move an installation on."""
        self._receiver.maintenance_tick()
        self._refusals.flush()
        voter = self._voter
        self._compact()
        entries = voter.applied[0] - self._last_index
        due = entries >= voter.config.snapshot_entries or (
            voter.journal.bytes >= voter.config.snapshot_bytes and entries > TAIL_ENTRIES
        )
        since_failure_s = self._clock() - self._failed_at_s
        due = due and since_failure_s >= AGAIN_S
        wanted = self._wanted and (bool(self._waiting) or since_failure_s >= WANTED_AGAIN_S)
        may_take = not self._taking and not self._receiver.installing and not voter.watch.is_bad
        if (due or wanted) and may_take:
            self._take()

    def take(self, reply: Callable[[Path | BaseException], None]) -> None:
        """Take a snapshot now; ``reply`` gets its directory, or why there is none."""
        self._waiting.append(reply)
        self._wanted = True

    def _take(self) -> None:
        self._taking, self._wanted = True, False
        voter = self._voter
        voter.archiver.write()
        voter.flush()
        index, header = voter.applied[0], voter.image.header
        now_ms = voter.now_ms()

        def work() -> Path:
            voter.archiver.sync()
            with voter.store.reader() as reader:
                require_sealed(reader)
                return snapshot.write(
                    reader,
                    self.root,
                    cluster_id=voter.config.cluster_id,
                    raft=reader.applied(),
                    now_ms=now_ms,
                )

        def done(result: Path | BaseException) -> None:
            self._taking = False
            waiting, self._waiting = self._waiting, []
            if isinstance(result, SealBroken):
                voter.watch.differs(str(result))
            elif isinstance(result, Path) and voter.watch.is_bad:
                voter.watch.distrust_snapshots()  # its rows may be bad ones
            elif isinstance(result, Path):
                voter.archiver.synced(index, header)
                self._taken(result)
            elif isinstance(result, NotFlushed) and voter.archiver.root in Path(result.filename).parents:
                raise result  # of the archive; a later flush that does not fail would prove nothing
            else:
                self._failed_at_s = self._clock()
                self._log.error("snapshot_failed", reason=str(result), again_after_s=AGAIN_S)
            for reply in waiting:
                reply(result)

        self._background(work, done)

    def _taken(self, directory: Path) -> None:
        manifest = snapshot.read_manifest(directory)
        self._last_index = max(self._last_index, manifest.raft_index)
        in_use = {transfer.directory for transfer in self._transfers.values()}
        if not in_use:
            snapshot.tidy(self.root)
        self._compact_to = self._compaction_target(manifest.raft_index)
        self._compact()
        self._log.info(
            "snapshot_taken",
            snapshot=directory.name,
            raft_index=manifest.raft_index,
            journal_from=max(self._allowed(), self._voter.journal.first_index),
        )

    def _compact(self) -> None:
        """Cut one slice off the journal."""
        target = self._allowed()
        if target > self._voter.journal.first_index:
            self._voter.journal.compact(target)

    def _allowed(self) -> LogIndex:
        """How far compaction may go now: not over what a follower needs next that is sent a snapshot."""
        now = self._clock()
        self._needed = {of: needed for of, needed in self._needed.items() if now < needed[1]}
        return min([self._compact_to, *(index for index, _ in self._needed.values())])

    def _needed_until(self) -> float:
        """Of a follower that answers now. One that installs is asked after CHUNK_WAIT_S, and answers."""
        return self._clock() + 2 * CHUNK_WAIT_S

    def _compaction_target(self, snapshot_index: LogIndex) -> LogIndex:
        """Where the journal may begin: at the snapshot, less a tail bounded in entries and bytes."""
        journal = self._voter.journal
        target = min(snapshot_index, self._voter.archiver.marked_index)
        if journal.bytes <= TAIL_BYTES:
            target = min(target, LogIndex(journal.last_index - TAIL_ENTRIES))
        return target

    # -- sending ----------------------------------------------------------------------------------

    def send_to(self, peer: NodeId) -> None:
        """The log before our journal is gone for ``peer``: begin a transfer, unless one moves."""
        transfer = self._transfers.get(peer)
        if transfer is not None and self._clock() - transfer.since_s < CHUNK_WAIT_S:
            return
        directory = next(iter(snapshot.listed(self.root)), None)
        if directory is None:
            self._wanted = True
            return
        try:
            manifest = snapshot.verify(directory)
        except CorruptSnapshot as error:
            self.refuse(directory, str(error))
            self._wanted = True
            return
        if manifest.raft_index < self._voter.journal.first_index:
            self._wanted = True  # too old to be followed by our journal
            return
        self._transfers[peer] = Transfer(manifest, directory, sorted(manifest.files), self._clock())
        self._needed[peer, manifest.name] = (manifest.raft_index, self._needed_until())
        raw = read_bytes(directory / "manifest")
        self._log.info("snapshot_sending", to=peer, snapshot=directory.name)
        self._voter.answer(peer, SnapshotBegin(self._voter.raft.term, manifest.name, raw))

    def send_fresh(self, peer: NodeId, from_index: LogIndex) -> None:
        """Send ``peer`` a snapshot of ``from_index`` or later. If there is none it is taken: call again."""
        if self._last_index < from_index:
            self._wanted = not self._taking
        else:
            self.send_to(peer)

    def distrust(self, version: int) -> None:
        """The image is bad, and was sound at ``version``: snapshots taken since are not to be used."""
        self._transfers.clear()
        self._needed.clear()
        self._last_index = LogIndex(0)
        for directory in snapshot.listed(self.root):
            try:
                manifest = snapshot.read_manifest(directory)
            except CorruptSnapshot as error:
                self.refuse(directory, str(error))
                continue
            if manifest.version > version:
                self.refuse(directory, "this node's image was bad when it was taken")
            else:
                self._last_index = max(self._last_index, manifest.raft_index)

    @property
    def installing(self) -> bool:
        """A snapshot's rows are being put."""
        return self._receiver.installing

    def peer_gone(self, peer: NodeId) -> None:
        """The connection closed: a transfer starts anew when it is back."""
        self._transfers.pop(peer, None)

    def stop_sending(self) -> None:
        """This node no longer leads."""
        self._transfers.clear()
        self._needed.clear()

    def received(self, peer: NodeId, message: SnapshotBegin | SnapshotChunk | SnapshotAck) -> None:
        """A frame of a transfer, of either side."""
        if isinstance(message, SnapshotAck):
            self._acked(peer, message)
        elif message.term == self._voter.raft.term and not self._voter.raft.is_leader:
            self._receiver.received(peer, message)

    def _acked(self, peer: NodeId, ack: SnapshotAck) -> None:
        if ack.term != self._voter.raft.term:
            return
        needed = self._needed.get((peer, ack.name))
        if needed is not None:
            self._needed[peer, ack.name] = (needed[0], self._needed_until())
        transfer = self._transfers.get(peer)
        if ack.installed:
            if self._transfers.pop(peer, None) is not None:
                self._log.info("snapshot_sent", to=peer, snapshot=ack.name)
        elif transfer is None or transfer.manifest.name != ack.name:
            return  # of an earlier transfer: it is still being installed, so another one has to wait
        elif ack.refused:
            self._refusals.error("snapshot_refused", by=peer, snapshot=ack.name, reason=ack.refused)
            del self._transfers[peer]
        else:
            transfer.since_s = self._clock()
            self._send_chunk(peer, transfer, ack)

    def _send_chunk(self, peer: NodeId, transfer: Transfer, ack: SnapshotAck) -> None:
        file, position = ack.file or transfer.files[0], ack.position
        if file not in transfer.files:
            del self._transfers[peer]
            return
        if position >= transfer.manifest.files[file][0]:
            following = transfer.files.index(file) + 1
            if following == len(transfer.files):
                return  # everything is there; the follower verifies and installs
            file, position = transfer.files[following], 0
        try:
            with open(transfer.directory / file, "rb") as stream:
                stream.seek(position)
                payload = stream.read(CHUNK_BYTES_MAX)
        except OSError as error:
            self._log.error("snapshot_unreadable", snapshot=str(transfer.directory / file), error=str(error))
            del self._transfers[peer]
            return
        if not payload:  # a later snapshot took its name and is shorter: the follower requests that one
            self._log.info("snapshot_replaced", snapshot=str(transfer.directory), to=peer)
            del self._transfers[peer]
            return
        chunk = SnapshotChunk(self._voter.raft.term, transfer.manifest.name, file, position, payload)
        self._voter.answer(peer, chunk)
