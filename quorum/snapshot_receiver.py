"""The follower's side of a snapshot transfer: collect, verify every byte, install in slices.

Nothing of a transfer is used before the whole directory is verified, flushed and published by rename, so
a crash at any point leaves either no snapshot (``*.part``, removed at start) or a sound one, which the
next start installs if it is newer than the image.
"""

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Final

from fencepost.quorum.messages import REFUSED_MAX, Ack, SnapshotAck, SnapshotBegin, SnapshotChunk
from fencepost.quorum.voter import Voter
from fencepost.records.named_errors import naming
from fencepost.records.types import NodeId
from fencepost.snapshots import snapshot
from fencepost.snapshots.flushes import flush, write_flushed
from fencepost.snapshots.rows import Row
from fencepost.snapshots.scrub import Scrub
from fencepost.snapshots.snapshot import CorruptSnapshot, Manifest
from fencepost.snapshots.sums import StoreDamaged
from fencepost.wire.limited_log import LimitedLog

SNAPSHOT_BYTES_MAX: Final = 1 << 36  # a manifest that claims more is refused
ROWS_PER_SLICE: Final = 1000
FLUSHED_TOGETHER: Final = 8 * 1024 * 1024  # bytes of a file: its end has little left to wait for


class Receiver:
    """At most one transfer and one installation at a time."""

    def __init__(self, voter: Voter, root: Path, refusals: LimitedLog) -> None:
        self._voter = voter
        self._log = voter.log
        self._refusals = refusals
        self._root = root
        self._manifest: Manifest | None = None
        self._from: NodeId | None = None
        self._sizes: dict[str, int] = {}
        self._slices: Iterator[list[Row]] | None = None
        self._installing: Manifest | None = None
        self._filled = Scrub()  # of the rows of that installation
        self._cleared = False
        self._generation = 0

    @property
    def installing(self) -> bool:
        """Rows are being filled into the next generation."""
        return self._installing is not None

    def received(self, peer: NodeId, message: SnapshotBegin | SnapshotChunk) -> None:
        """A frame from the leader of this term."""
        try:
            if isinstance(message, SnapshotBegin):
                self._begin(peer, message)
            else:
                self._chunk(peer, message)
        except CorruptSnapshot as error:
            self._refuse(peer, message.name, str(error))

    def _begin(self, peer: NodeId, message: SnapshotBegin) -> None:
        if self._installing is not None:
            self._answer(peer, name=self._installing.name)  # the sender waits: its chunks will be needed
            return
        manifest = snapshot.decode_manifest(message.manifest, f"snapshot {message.name} of node {peer}")
        if manifest.cluster_id != self._voter.config.cluster_id or manifest.name != message.name:
            raise CorruptSnapshot(f"snapshot {message.name} of cluster {manifest.cluster_id}")
        if sum(size for size, _ in manifest.files.values()) > SNAPSHOT_BYTES_MAX:
            raise CorruptSnapshot(f"snapshot {message.name} claims more than {SNAPSHOT_BYTES_MAX} bytes")
        if not self._voter.watch.lacks(manifest.raft_index):
            self._answer(peer, installed=True, name=manifest.name)
            return
        self._drop_parts()
        part = self._part(manifest)
        part.mkdir(parents=True)
        write_flushed(part / "manifest", message.manifest)
        self._manifest, self._from, self._sizes = manifest, peer, dict.fromkeys(manifest.files, 0)
        self._log.info("snapshot_receiving", of=peer, snapshot=manifest.name)
        self._answer(peer, name=manifest.name)

    def _chunk(self, peer: NodeId, message: SnapshotChunk) -> None:
        manifest = self._manifest
        if manifest is None or self._from != peer or message.name != manifest.name:
            return
        expected = self._sizes.get(message.file)
        if expected is None or message.position != expected:
            return  # a duplicate, or one after a lost one: the leader starts anew
        size = manifest.files[message.file][0]
        if expected + len(message.payload) > size:
            raise CorruptSnapshot(f"{message.file} of {message.name} is longer than its {size} bytes")
        path = self._part(manifest) / message.file
        with naming(path), open(path, "ab") as stream:
            stream.write(message.payload)
            stream.flush()
            written = expected + len(message.payload)
            if written == size or written // FLUSHED_TOGETHER > expected // FLUSHED_TOGETHER:
                flush(stream.fileno(), path)
        self._sizes[message.file] = written
        if all(self._sizes[name] == size for name, (size, _) in manifest.files.items()):
            self._complete(manifest)
        else:
            self._answer(peer, name=manifest.name, file=message.file, position=self._sizes[message.file])

    def _complete(self, manifest: Manifest) -> None:
        part = self._part(manifest)
        final = self._root / manifest.name
        self._manifest = None
        snapshot.verify(part)
        snapshot.publish(part, final)
        self.install(final)

    def _refuse(self, peer: NodeId, name: str, reason: str) -> None:
        self._refusals.error("snapshot_refused", of=peer, snapshot=name, reason=reason)
        self._manifest = None
        self._drop_parts()
        self._answer(peer, name=name, refused=reason[:REFUSED_MAX])

    def _drop_parts(self) -> None:
        """What was received of an earlier transfer is of no use to another."""
        for part in self._root.glob("*.received.part"):
            rmtree(part)

    def _part(self, manifest: Manifest) -> Path:
        return self._root / f"{manifest.name}.received.part"  # our own of that name may be under way

    def _answer(
        self,
        peer: NodeId,
        *,
        name: str,
        file: str = "",
        position: int = 0,
        refused: str = "",
        installed: bool = False,
    ) -> None:
        term = self._voter.raft.term
        self._voter.answer(peer, SnapshotAck(term, name, file, position, refused, installed))

    # -- installing ---------------------------------------------------------------------------------

    def install(self, directory: Path) -> None:
        """Begin to fill the next generation with a sound snapshot. Raises CorruptSnapshot."""
        manifest, rows = snapshot.load(directory)
        self._installing = manifest
        self._generation = self._voter.store.fresh_generation()
        self._filled = Scrub()
        self._cleared = False  # what is there now goes when this is there
        self._slices = (rows[at : at + ROWS_PER_SLICE] for at in range(0, len(rows), ROWS_PER_SLICE))

    def finish(self) -> None:
        """Install everything at once (at start, before anything runs)."""
        while self.installing:
            self.maintenance_tick()

    def maintenance_tick(self) -> None:
        """One slice: put rows, then read them again, and at the end flip; or clear what earlier images left.

        Raises StoreDamaged if they are not there: a page of the store changed while it was open. Its next
        start reads all of them.
        """
        store = self._voter.store
        manifest = self._installing
        if manifest is None or self._slices is None:
            self._cleared = self._cleared or store.clear_others(ROWS_PER_SLICE)
            return
        rows = next(self._slices, None)
        if rows is not None:
            store.put_rows(self._generation, rows)
            return
        are_there = store.are_filled_rows_there(self._generation, self._filled, ROWS_PER_SLICE)
        if are_there is None:
            return
        if not are_there:
            raise StoreDamaged(f"rows of snapshot {manifest.name} are not found where they were put")
        self._installing = self._slices = None
        if self._voter.watch.lacks(manifest.raft_index):
            self._voter.installed(manifest.raft_index, manifest.raft_term, manifest.header, self._generation)
            self._log.info(
                "snapshot_installed",
                snapshot=manifest.name,
                raft_index=manifest.raft_index,
                version=manifest.version,
            )
        leader = self._voter.raft.leader_id
        if leader is not None and leader != self._voter.config.node_id:
            self._answer(leader, name=manifest.name, installed=True)
            matched = self._voter.applied[0]
            self._voter.answer(leader, Ack(self._voter.raft.term, matched + 1, reset=False, success=True))
