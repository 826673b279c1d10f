"""How a simulated process opens its directory, as node/main.py does, and what a failed start leaves."""

import os
import random
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from fencepost.node.driver import Driver
from fencepost.quorum.journal import Journal
from fencepost.quorum.replica import Replica
from fencepost.records.invariant import CorruptData
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from fencepost.settings.node_clock import NodeClock
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.snapshots.store import STORE_FAILURES
from fencepost.snapshots.sums import StoreDamaged
from tests.simulation.agenda import Agenda
from tests.simulation.bad_disk import BadDisk
from tests.simulation.clocks import reading
from tests.simulation.config import DISK_FREE_MIN, replica_config_of
from tests.simulation.invariants import require
from tests.simulation.ledger import Ledger
from tests.simulation.lost_writes import Earlier
from tests.simulation.saved_changes import condemn_saved_changes


class Starting:
    """A process's directory, and what it is opened with."""

    node_id: NodeId
    directory: Path
    directory_id: uuid.UUID
    initial_voters: Mapping[NodeId, uuid.UUID] | None
    earlier: Earlier
    is_damaged = False  # its store is not what it wrote; it may come to be without its memory
    is_flipped = False  # nothing else happened to its store since its last flush
    is_earlier = False  # its store is one that it had before, and its archive says so
    flushed: tuple[uuid.UUID, int, int | None, int] | None = None
    """Directory, term, vote and the journal's last index at its last flush."""
    files_damaged = False  # files beside its store are not what it wrote
    is_torn = False  # its archive may have lost its end since: without the journal no start makes it again
    wall: NodeClock  # of this life
    log_level_max: int = LEVEL_MAX  # which software runs: another one from the next start on
    log_level_formatted: int = 0
    migrating = False  # its cluster was made for the upgrade from ZooKeeper
    skew_ms = 0
    clock_rate = 1.0
    keeps_earlier = False  # copies of its store are made whatever the weather is
    disk: BadDisk
    replica: Replica | None = None  # the driver's
    _level = 0  # as it could be read last
    _agenda: Agenda
    _ledger: Ledger
    _log: FilteringBoundLogger
    _rng: random.Random
    _trace: Callable[[str], None]
    _voter_ids: frozenset[NodeId]

    def clock(self) -> float:
        """Its monotonic clock, in seconds."""
        return self._agenda.now * self.clock_rate

    def bound(self) -> Mapping[NodeId, uuid.UUID]:
        """For the handshake; nothing where the image is found changed: a turn of its own ends it."""
        with suppress(RowsChanged, *STORE_FAILURES), self.disk.sound():
            return self.replica.electorate.bound() if self.replica is not None else {}
        return {}

    @property
    def log_level(self) -> int:
        """For the handshake: what a peer must be able to read."""
        with suppress(CorruptData, RowsChanged, *STORE_FAILURES), self.disk.sound():  # a peer looks
            self._level = 0 if self.replica is None else self.replica.log_level
        return self._level

    def _with_its_store(self) -> Driver:
        """As node/main.py does: without a store that is damaged it is a new voter."""
        driver = self._its_driver()
        if self.is_flipped:
            self._require_memory(driver.replica.journal)
        require(not self.is_earlier or self.files_damaged, "an earlier store is believed", node=self.node_id)
        if self.is_damaged and driver.replica.watch.is_bad:  # what it said of an image before is back
            self._ledger.changed.add(self.node_id)
        self.is_damaged = self.is_flipped = self.is_earlier = self.is_torn = False
        self.note_flush(driver.replica.journal)
        condemn_saved_changes(self._ledger, driver.replica)
        return driver

    def _is_meant(self, error: BaseException) -> bool:
        """Its disk raised it, or took back what was to be flushed; or bytes of its store changed."""
        was_lost = isinstance(error, RowsChanged) and self.disk.failure is not None
        return self.disk.caused(error) or was_lost or self.node_id in self._ledger.changed

    def note_flush(self, journal: Journal) -> None:
        """Term, vote and entries are on the disk."""
        term, vote = journal.getCurrentTerm(), journal.getVotedForNodeId()
        self.flushed = (self.directory_id, term, vote, journal.last_index)

    def _require_memory(self, journal: Journal) -> None:
        """Damage takes no vote and no acknowledgement back.

        It costs the whole store, or a later term is believed. The leader may count the entries that the node
        acknowledged: without them it must not come back as the voter that it was.
        """
        if self.flushed is None or self.flushed[0] != self.directory_id:
            return
        _, term, vote, end = self.flushed
        require(
            journal.last_index >= end,
            "acknowledged entries are forgotten",
            node=self.node_id,
            was=end,
            found=journal.last_index,
        )
        found = (journal.getCurrentTerm(), journal.getVotedForNodeId())
        is_kept = found[0] > term or (found[0] == term and vote in (None, found[1]))
        require(is_kept, "a vote is forgotten", node=self.node_id, was=(term, vote), found=found)

    def _its_driver(self) -> Driver:
        try:
            return self._made_driver()
        except StoreDamaged as error:
            self._trace(f"{self.node_id} loses its store: {error}")
            was_changed = self.is_damaged or self.files_damaged or self.node_id in self._ledger.changed
            require(was_changed, "a sound store is taken for a damaged one", node=self.node_id, why=error)
            self._ledger.count("stores_lost")
            self.files_damaged = self.files_damaged or self.is_torn
            shutil.rmtree(self.directory / "store")
            self.is_earlier = False
            self.earlier.forget()
            self.directory_id, self.initial_voters = uuid.UUID(int=self._rng.getrandbits(128)), None
            return self._made_driver()

    def _made_driver(self) -> Driver:
        self.wall = NodeClock(self.directory, self._log, read=lambda: reading(self._agenda, self.skew_ms))
        return Driver(
            replica_config_of(
                node_id=self.node_id,
                directory_id=self.directory_id,
                voter_ids=self._voter_ids,
                initial_voters=self.initial_voters,
                log_level_max=self.log_level_max,
                log_level_formatted=self.log_level_formatted,
                directory=self.directory,
            ),
            disk_free_bytes_min=DISK_FREE_MIN,
            migrating=self.migrating,
            clock=self.clock,
            wall_ms=self.wall.now_ms,
            rng=self._rng,
            log=self._log,
        )


def release(directory: Path, disk: BadDisk) -> None:
    """Close what a start that failed left open, as the end of its process does.

    Its numbers stay taken: a file object that is still there closes its own later, and would close another's.
    """
    for environment in disk.environments:
        environment.close()
    disk.environments.clear()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        try:
            is_ours = directory in descriptor.readlink().parents
        except OSError:
            continue  # of the listing itself
        if is_ours:
            os.dup2(nothing, int(descriptor.name), inheritable=False)
    os.close(nothing)
