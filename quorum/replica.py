"""One voter without sockets or timers: journal, Raft core, image, proposer, archive, snapshots.

The caller (node/driver.py) owns time and bytes. It calls ``received``, ``connected``, ``submit`` and others
as things happen, ``turn`` after them (again while there is more), and ``maintenance_tick`` on a timer.

The order inside ``turn`` is the safety argument:
  1. flush the journal        no message below depends on what a crash could take back
  2. release acks and votes   "I have it" is true now
  3. tick the Raft core       it counts this node's entries: they are on disk
  4. apply what is committed  image, archive, outcomes; then the answers leave
  5. propose what waits       entries leave before this node's own flush, which is a later turn's;
                              before the answers of step 4, too, if many requests wait
"""

import random
import uuid
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels, voters
from fencepost.controller.clocks import SeenClocks
from fencepost.controller.features import FEATURES
from fencepost.controller.replay import Applied, Superseded, apply
from fencepost.controller.view import ImageHeader, Overlay, View
from fencepost.quorum import log_levels, opened_store
from fencepost.quorum.electorate import Electorate
from fencepost.quorum.firewall import Firewall
from fencepost.quorum.image_watch import ImageWatch
from fencepost.quorum.journal import NO_OP
from fencepost.quorum.messages import Ack, Message, SnapshotAck, SnapshotBegin, SnapshotChunk
from fencepost.quorum.port import Background
from fencepost.quorum.proposer import Proposer
from fencepost.quorum.quarantine import Quarantine
from fencepost.quorum.raft_log import APPLY_S_MAX, LEADER, RaftLog
from fencepost.quorum.readmission import Readmission
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.quorum.skipped_records import warn_of_skipped
from fencepost.quorum.snapshotter import Snapshotter
from fencepost.quorum.succession import Succession
from fencepost.quorum.transport import PeerTransport, Send
from fencepost.records.batch import stamped_ms
from fencepost.records.control import ControlRecord
from fencepost.records.entry import decode_entry, decode_records
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import LogIndex, NodeId, Term
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.snapshots.store import ImageLost

TICKS_MAX: Final = 64  # per turn, when much is committed; the rest comes with the next turn
FLUSH_WAIT_S: Final = 0.5  # what is applied goes to disk so often; the journal has it before
ROWS_UNSAVED_MAX: Final = 2_000
"""Applied rows outside the store's transaction: bounds a replay's memory. Moving them takes 8 ms, a turn."""


class Replica:
    """See the module. ``on_active`` and ``on_deposed`` tell the owner when this node decides."""

    def __init__(
        self,
        config: ReplicaConfig,
        *,
        send: Send,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        background: Background,
        rng: random.Random,
        on_active: Callable[[int], None] = lambda _now_ms: None,
        on_deposed: Callable[[], None] = lambda: None,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self.config = config
        self.log = log or structlog.get_logger()
        self._clock = clock
        self._wall_ms = wall_ms
        self._flushed_s = clock()
        self.store = opened_store.open_store(config.directory, sync=config.sync, log=self.log)
        log_levels.require(self.config, self.log_level)
        self.journal = opened_store.open_journal(self.store, clock, self.log)
        self._saved = opened_store.saved_position(self.store)  # None: no image was written yet
        self._applied = self._saved or (LogIndex(1), Term(0))
        self._seen_clocks = SeenClocks()
        self.archiver = opened_store.archiver(config, self.store, self.journal, self._applied[0], self.log)
        self.electorate = Electorate(config, self.store, self.journal, lambda: self._applied[0])
        self.peers = sorted(config.voter_ids - {config.node_id})
        self._transport = PeerTransport(send)
        self.raft = self._made_raft()
        self.firewall = self._transport.firewall = Firewall(self.raft, self.journal, self.electorate)
        self.connected_peers: set[NodeId] = set()
        self.proposer = Proposer(
            config.node_id,
            self.raft,
            self.store,
            clock=clock,
            wall_ms=wall_ms,
            leader_change=self._leader_change,
            on_active=self._on_active,
            on_deposed=on_deposed,
            log=self.log,
        )
        self.succession = Succession(
            self.peers, self.raft, self.proposer, self.electorate, self.connected_peers, clock, self.log
        )
        self._activated = on_active
        self.watch = self._transport.said = ImageWatch(self, self.proposer, self.electorate, clock)
        self.quarantine = Quarantine(clock, self.proposer.now_ms)
        self.snapshotter = self.watch.snapshots = Snapshotter(self, background, clock)
        self._transport.on_behind = self.snapshotter.send_to
        self._recover()
        self._named_levels: dict[NodeId, int] = {}  # by each peer's last Hello
        self._readmission = Readmission(
            self.peers, self.proposer, self.electorate, self.firewall, self.raft,
            self.connected_peers, self._named_levels, self.log,
        )  # fmt: skip
        self.caught_up_s: dict[NodeId, float] = {}  # leader: when each follower last had the whole log
        self._answers_deferred = False  # until the entry that the last turn proposed has left
        self._save_is_due = False  # more than ROWS_UNSAVED_MAX rows are unsaved
        self._rest_is_left = False  # the last turn had no time for its last steps

    def _recover(self) -> None:
        """Raises ImageLost, everything closed."""
        self.snapshotter.recover()
        try:
            opened_store.require_image(self.config.directory, self._applied[0], self.journal)
        except ImageLost:
            self.archiver.close()
            self.store.abandon()
            raise

    def _made_raft(self) -> RaftLog:
        return RaftLog(
            self.config.node_id, self.peers, self.journal, self._transport,
            applied_index=self._applied[0],
            election_s=self.config.election_s, heartbeat_s=self.config.heartbeat_s,
            on_committed=self._on_committed, on_role=self._on_role,
        )  # fmt: skip

    # -- what happens -----------------------------------------------------------------------------

    def received(self, peer: NodeId, message: Message) -> bool:
        """A frame of an authenticated peer, decoded. Returns whether a turn is due for it.

        None is for an ack that commits nothing: the slower follower's, or that of a heartbeat.
        """
        followed = self.watch.heard(peer, message)
        if isinstance(followed, SnapshotBegin | SnapshotChunk | SnapshotAck):
            self.snapshotter.received(peer, followed)
            return True
        if followed is not None:
            self._transport.received(peer, followed)
        settled = self.raft.commit_index == self.journal.last_index
        return not (isinstance(message, Ack) and settled and self.raft.is_leader) or self.watch.must_stop

    def met(
        self, peer: NodeId, directory: uuid.UUID, bound: Mapping[NodeId, uuid.UUID], log_level_max: int
    ) -> None:
        """A peer authenticated: its directory, the voters' directories as it knows them, what it reads."""
        self._named_levels[peer] = log_level_max
        if self.electorate.directories.get(peer, directory) != directory:
            # It was wiped, so it has nothing of what it ever acknowledged.
            self.raft.forget(peer)
            self.watch.forget(peer)
            self.firewall.learner_match.pop(peer, None)
            self.snapshotter.peer_gone(peer)
        self.firewall.connected_anew(peer)
        self.electorate.met(peer, directory, dict(bound))

    def connected(self, peer: NodeId, may_elect: bool = False) -> None:
        """Frames can be sent to ``peer``. ``may_elect``: the last one begins a new cluster's election."""
        self.connected_peers.add(peer)
        self._transport.connected(peer)
        if may_elect and len(self.connected_peers) == len(self.peers):
            self.raft.campaign_by_rank(None)

    def disconnected(self, peer: NodeId) -> None:
        """Frames can no longer be sent to ``peer``."""
        self.connected_peers.discard(peer)
        self._transport.disconnected(peer)
        self.snapshotter.peer_gone(peer)

    def lost(self, peer: NodeId) -> None:
        """The connection on which ``peer`` sends has closed: it died, or was cut off."""
        self.raft.campaign_by_rank(peer)

    # -- the turn ---------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Do everything that is due. Returns True if there is more: run another turn soon."""
        proposer = self.proposer
        if self.watch.must_stop and self._ends_leading():
            return True
        if self._save_is_due:
            self._save()
            return True
        if self._answers_deferred:
            self._answers_deferred = False
            if proposer.answer():
                return True
        if self.journal.must_flush:
            self.journal.flush()
        self._transport.release()
        until_s = self._clock() + APPLY_S_MAX
        for _ in range(TICKS_MAX):
            self.raft.tick(may_vote=self._may_vote)
            if not self.raft.behind_commit or self.journal.must_flush or self._clock() > until_s:
                break
        if self._ends_leading():
            return True
        if self._clock() > until_s and self._leaves_rest():
            self._answers_deferred = proposer.answers_due
            return True
        self._answers_deferred = proposer.answers_due and proposer.has_batch
        if not self._answers_deferred:
            proposer.answer()
            if self._clock() > until_s and self._leaves_rest():
                return True
        self._rest_is_left = False
        proposer.pump()
        self.archiver.write()
        return self.journal.must_flush or self.raft.behind_commit or proposer.answers_due or self._save_is_due

    def _ends_leading(self) -> bool:
        """Resign if that is due. True: the image is bad, and what was about to be answered is unknown."""
        if self.watch.must_stop or (self.watch.is_bad and self.raft.is_leader):
            self._answers_deferred = False
            self.watch.stop_answering()
            self.journal.flush()
            return True
        if self.proposer.must_resign:
            self.proposer.must_resign = False
            self.raft.resign()
        return False

    def _leaves_rest(self) -> bool:
        """The turn has no time left: what follows is the next one's, whatever that one's first steps take."""
        if self._rest_is_left:
            return False
        self._rest_is_left = True
        return True

    def maintenance_tick(self) -> None:
        """Periodic work: expiry of requests, snapshots, readmission, applied state to disk."""
        now = self._clock()
        self.proposer.expire()
        self.succession.maintain()
        if now - self._flushed_s > FLUSH_WAIT_S and (self.store.dirty or self._applied != self._saved):
            self.flush()
        if self.raft.is_leader:
            for peer in self.peers:
                if self.raft.match_index(peer) == self.journal.last_index:
                    self.caught_up_s[peer] = now
            self._readmission.maintain()
        self.snapshotter.maintenance_tick()
        self.watch.maintain()

    def flush(self) -> None:
        """Journal, image, applied and commit index to disk, in one transaction."""
        self._save()
        self.journal.flush()
        self._flushed_s = self._clock()

    def _save(self) -> None:
        """Image, applied and commit index into the store's transaction: the next flush commits them."""
        if self._applied != self._saved:
            self.store.meta_put(APPLIED, msgspec.msgpack.encode(self._applied))
            self._saved = self._applied
        self.journal.save_commit_index()
        self.store.image.save()
        self._save_is_due = False

    def _may_vote(self) -> bool:
        return not self.watch.is_bad and self.electorate.may_vote

    # -- committed entries ------------------------------------------------------------------------

    @property
    def applied(self) -> tuple[LogIndex, Term]:
        """Raft index and term of the image."""
        return self._applied

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; of the leadership's clock while this node decides."""
        return self.proposer.now_ms() if self.proposer.active else self._wall_ms()

    def wall_of(self, clock_s: float | None) -> int:
        """A reading of this node's clock, as ``now_ms``; -1 for None."""
        return -1 if clock_s is None else self.now_ms() - int((self._clock() - clock_s) * 1000)

    def slowest_ms(self) -> int | None:
        """The time by the slowest clock that this node has seen lead: see controller/clocks.py."""
        return self._seen_clocks.slowest_ms(int(self._clock() * 1000))

    @property
    def image(self) -> View:
        """The image, as of the applied index."""
        return self.store.image

    def _on_committed(self, index: LogIndex, term: Term, command: bytes) -> bool:
        before, self._applied = self._applied, (index, term)
        if command[:1] == NO_OP:
            if self.raft.is_leader and term == self.raft.term:
                self.proposer.own_no_op_applied()
            return False
        entry = decode_entry(command[1:])
        decided = self.proposer.decided(entry)
        batches, overlay = decided or (decode_records(entry), Overlay(self.store.image))
        if batches and term == self.raft.term:
            self._seen_clocks.observe(term, stamped_ms(entry.batches[0][1]), int(self._clock() * 1000))
        overlay.header = self.store.image.header
        try:
            outcome = apply(overlay, entry, batches, replayed=decided is not None)
        except (InvariantViolation, RowsChanged) as error:
            self._applied = before
            self.watch.cannot_apply(error)
            return True
        if isinstance(outcome, Applied):
            if decided is None:
                warn_of_skipped(batches, self.log)
            may_raise_level = overlay.has_written(FEATURES)
            self.watch.applying(overlay)
            overlay.write_to(self.store.image)
            self.watch.has_applied()
            self.archiver.applied(entry, outcome.before, self.store.image.header)
            if may_raise_level:
                log_levels.require(self.config, levels.in_force(self.store.image))
        elif isinstance(outcome, Superseded):
            self.log.info("entry_superseded", index=index, proposer=entry.proposer, version=outcome.version)
        self.proposer.applied(entry, outcome)
        self._save_is_due = self.store.image.rows_unsaved > ROWS_UNSAVED_MAX
        return False

    # -- roles ------------------------------------------------------------------------------------

    def _on_role(self, before: int, now: int) -> None:
        self.log.info("role_changed", role=("follower", "candidate", "leader")[now], term=self.raft.term)
        if before == LEADER:
            self.caught_up_s.clear()
            self.firewall.learner_match.clear()
            self.snapshotter.stop_sending()
            self.proposer.deposed()

    def _on_active(self, now_ms: int) -> None:
        self.quarantine.begin()
        self._activated(now_ms)

    def _leader_change(self, view: View) -> tuple[ControlRecord, ...]:
        level = levels.of_leader(view, self.log_level_formatted)
        return voters.decide_leader_change(view, self.config.node_id, self.electorate.bound(), level)

    # -- log levels -------------------------------------------------------------------------------

    @property
    def highest_levels(self) -> dict[NodeId, int]:
        """The highest log level that this node and each connected peer reads."""
        named = {peer: self._named_levels.get(peer, 0) for peer in self.connected_peers}
        return {self.config.node_id: self.config.log_level_max, **named}

    @property
    def log_level_formatted(self) -> int:
        """At which a new cluster is born."""
        return log_levels.formatted(self.config, self.highest_levels)

    @property
    def log_level(self) -> int:
        """What this node and each of its peers must be able to read."""
        return log_levels.needed(self.config, self.store.image)

    # -- snapshots --------------------------------------------------------------------------------

    def installed(self, index: LogIndex, term: Term, header: ImageHeader, generation: int) -> None:
        """A snapshot's rows are in ``generation``: make it the image, the journal's and archive's start."""
        self.store.flip(generation, header)
        log_levels.require(self.config, self.log_level)
        self.journal.reset(index, term)
        self._applied = (index, term)
        self.raft.installed(index, term)
        self.watch.installed(header)
        self.archiver.jumped(index, header)
        self.flush()
        self.proposer.skipped()

    def answer(self, peer: NodeId, message: Message) -> None:
        """Send once the journal is flushed, in order with acks."""
        self._transport.answer(peer, message)

    # -- the end ----------------------------------------------------------------------------------

    def hand_over(self) -> bool:
        """See Succession.leave."""
        return self.succession.leave()

    def close(self) -> None:
        """Everything to disk, and closed."""
        self.flush()
        self.archiver.close()
        self.store.close()
