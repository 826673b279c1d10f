"""A cluster of real voters under virtual time, from a seed.

Goal      find orders of events in which an invariant of docs/design.md 10 does not hold.
Method    real Replicas (real pysyncobj, real LMDB, real archive and snapshots) on a simulated network with
          simulated processes; faults by the weather; clients that never learn everything. Every invariant
          after every event. Then ``heal``: the faults end, everything is started, and progress is demanded.
Replay    the same seed gives the same events, byte for byte (``digest``): pytest tests/simulation -k seed-17
Limits    of snapshots, batches and slices are made small (``SMALL``), so that a few hundred entries meet
          every boundary that millions meet in life.
"""

import hashlib
import random
import shutil
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import fencepost.controller.transactions.expiry
import fencepost.quorum.draft
import fencepost.quorum.image_watch
import fencepost.quorum.journal
import fencepost.quorum.proposer
import fencepost.quorum.replica
import fencepost.quorum.snapshot_receiver
import fencepost.quorum.snapshotter
import fencepost.snapshots.archive
import fencepost.snapshots.digests
import fencepost.snapshots.image
import fencepost.snapshots.row_ranges
import fencepost.snapshots.snapshot
import tests.simulation.config
from fencepost.quorum.port import Decide
from fencepost.quorum.raft_log import use_clock
from fencepost.records.types import BrokerId, NodeId
from fencepost.snapshots.image import image_digest
from tests.simulation.agenda import Agenda
from tests.simulation.archives import archive_has_nothing_else, archive_is_the_log, committed_batches
from tests.simulation.clients import Client
from tests.simulation.clocks import Clocks
from tests.simulation.config import DISK_FREE_MIN
from tests.simulation.disk_calls import DiskCalls, Node
from tests.simulation.faults import Faults
from tests.simulation.invariants import INVARIANTS, Invariant, Violation, require
from tests.simulation.ledger import Attempt, Ledger
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.weather import Weather

CHUNK_WAIT_S: Final = 1.0
SMALL: Final[tuple[tuple[ModuleType, str, int, int], ...]] = (  # each at least and at most, by the seed
    (fencepost.quorum.snapshotter, "TAIL_ENTRIES", 8, 20),
    (fencepost.quorum.snapshotter, "CHUNK_BYTES_MAX", 300, 1_500),
    (fencepost.quorum.snapshot_receiver, "ROWS_PER_SLICE", 1, 3),
    (fencepost.quorum.draft, "DECISIONS_MAX", 1, 6),
    (fencepost.quorum.journal, "SLICE_MAX", 2, 9),
    (fencepost.snapshots.digests, "DIGEST_EVERY", 1, 6),
    (fencepost.snapshots.digests, "ROWS_MAX", 1, 40),
    (fencepost.quorum.image_watch, "SCRUB_ROWS", 1, 4),
)
MORE_LIMITS: Final[tuple[tuple[ModuleType, str, int, int], ...]] = (
    (fencepost.quorum.replica, "TICKS_MAX", 1, 64),
    (fencepost.quorum.replica, "ROWS_UNSAVED_MAX", 1, 100),
    (fencepost.quorum.journal, "COMPACTED_MAX", 1, 40),
    (fencepost.quorum.snapshotter, "TAIL_BYTES", 100, 20_000),
    (fencepost.quorum.snapshot_receiver, "FLUSHED_TOGETHER", 100, 2_000),
    (fencepost.quorum.proposer, "PENDING_MAX", 3, 40),
    (fencepost.snapshots.archive, "BUFFERED_BYTES_MAX", 50, 5_000),
    (fencepost.snapshots.row_ranges, "RANGE_ROWS", 1, 24),
    (fencepost.snapshots.row_ranges, "RANGE_ROWS_MAX", 1, 24),
    (fencepost.snapshots.row_ranges, "RANGE_BYTES_MAX", 1, 16_384),
    (fencepost.snapshots.image, "CACHED_ROWS_MAX", 2, 200),
    (fencepost.snapshots.snapshot, "_ROWS_PER_CHUNK", 1, 50),
    (fencepost.snapshots.snapshot, "_RECORDS_PER_BATCH", 1, 50),
    (fencepost.controller.transactions.expiry, "TIMEOUTS_MAX", 1, 10),
    (fencepost.controller.transactions.expiry, "EXPIRED_MAX", 1, 10),
    (tests.simulation.config, "SNAPSHOT_ENTRIES", 15, 120),
    (tests.simulation.config, "SEGMENT_BYTES", 600, 20_000),
)
TRACE_MAX: Final = 80  # lines shown with a failure
DECIDE_AGAIN_S: Final = 0.5
HEAL_S: Final = 30.0  # patience: far more than elections, transfers and readmissions take


class Failed(AssertionError):
    """A simulation failed. Says the seed, how to replay it, and what happened last."""


class Simulation:
    """Use as ``with Simulation(seed, ...) as sim``: meanwhile limits and the clock are its own."""

    process_type: type[Process] = Process
    client_type: type[Client] = Client
    watches_calls = False  # of files and tables, whatever the weather is
    all_limits = False  # those of MORE_LIMITS are random, too
    look_again_s = 0.5  # between two looks at whether what is waited for is there

    def __init__(
        self,
        seed: int,
        node_count: int = 3,
        weather: Weather | None = None,
        *,
        clients: int = 3,
        initial_voters: bool = True,
        invariants: Sequence[Invariant] = INVARIANTS,
        root: Path | None = None,
    ) -> None:
        self.seed = seed
        self.weather = weather or Weather()
        self.invariants = list(invariants)
        self.rng = random.Random(f"simulation {seed}")
        self.agenda = Agenda()
        self.clocks = Clocks(self.agenda)
        self.ledger = Ledger()
        self.trace: deque[str] = deque(maxlen=TRACE_MAX)
        self._hash = hashlib.sha256()
        self._numbers = 0
        memory = Path("/dev/shm")
        self.root = root or Path(tempfile.mkdtemp(prefix="storm-", dir=memory if memory.is_dir() else None))
        self._until_closed = ExitStack()
        self._until_closed.enter_context(_limits(random.Random(f"limits {seed}"), self.all_limits))
        use_clock(self.clocks.now, self.rng)
        ids = [NodeId(n) for n in range(1, node_count + 1)]
        directories = {node: self.new_uuid() for node in ids}
        self.processes: dict[NodeId, Process] = {
            node: self.process_type(
                node,
                self.root,
                self.agenda,
                self.clocks,
                self.rng,
                self.ledger,
                voter_ids=frozenset(ids),
                initial_voters=directories if initial_voters else None,
                directory_id=directories[node],
                on_active=self._activated,
                on_ended=self._ended,
                trace=self.said,
            )
            for node in ids
        }
        if self.weather.bad_calls or self.weather.lost_names or self.watches_calls:
            nodes = {each.directory: Node(each.disk, each.names) for each in self.processes.values()}
            self._until_closed.enter_context(DiskCalls(nodes).replaced())
        self.network = Network(self.agenda, self.rng, self.weather, self.processes)
        self.faults = Faults(self)
        for process in self.processes.values():
            process.network = self.network
            if self.weather.drift:
                process.clock_rate = self.rng.uniform(1 - self.weather.drift, 1 + self.weather.drift)
            process.skew_ms = self.rng.randint(-self.weather.skew_ms, self.weather.skew_ms)
            self.agenda.after(self.rng.uniform(0.0, 0.3), process.start)
        self.clients = [
            self.client_type(
                BrokerId(100 + n),
                self.agenda,
                self.rng,
                self.ledger,
                self.processes,
                self._number,
                width=1 + n % 3,
            )
            for n in range(clients)
        ]

        for client in self.clients:
            client.lost_answers = self.weather.lost_answers

    # -- running ----------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let so much virtual time pass, faults on."""
        self._guarded(self._run_until, self.agenda.now + seconds)

    def heal(self) -> None:
        """End every fault: network, processes, directories. What waits is delivered."""
        self.said("heal")
        self.faults.end()
        self.weather = self.weather.calmed()
        self.network.weather = self.weather
        for client in self.clients:
            client.lost_answers = 0.0
        for process in self.processes.values():
            process.free_bytes = 2 * DISK_FREE_MIN
            while process.up and process.stopped:
                process.go_on(process.life)
            self._guarded(process.start)

    def restart_changed(self) -> None:
        """Of what changed in memory and was not looked at again, a start is the end."""
        for process in self.processes.values():
            if process.node_id in self.ledger.changed and process.replica is not None:
                if not process.replica.watch.is_bad:
                    process.kill()
                    process.start()

    def demand_progress(self) -> None:
        """Without faults: every client succeeds again, all images become one, every voter counts."""
        self._guarded(self._demand_progress)

    def close(self) -> None:
        """Kill everything and remove its files."""
        for process in self.processes.values():
            process.network = None
            process.kill()
        self._until_closed.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guarded(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:
            told = "\n  ".join(self.trace)
            raise Failed(
                f"seed {self.seed}, event {self.agenda.done}, {self.agenda.now:.4f} s: "
                f"{type(error).__name__}: {error}\n"
                f"replay: pytest tests/simulation -k seed-{self.seed}\n  {told}"
            ) from error

    def _run_until(self, deadline: float) -> None:
        agenda = self.agenda
        while agenda.next_at <= deadline:
            agenda.step()
            if self.ledger.news:
                self._judge()
        agenda.now = deadline

    def _wait(self) -> None:
        self._run_until(self.agenda.now + self.look_again_s)

    def _judge(self) -> None:
        ledger = self.ledger
        ledger.absorb()
        for invariant in self.invariants:
            invariant(ledger, ledger.news)
        for seen in ledger.news.seen:
            self._hash.update(
                f"{self.agenda.now} {seen.node} {seen.index} {seen.term} {seen.digest}\n".encode()
            )
        for attempt in ledger.news.told:
            self._hash.update(f"{self.agenda.now} {attempt.number} {attempt.outcome}\n".encode())
        for fact in ledger.news.facts:
            self._hash.update(f"{self.agenda.now} {fact}\n".encode())
        ledger.turn_page()

    @property
    def digest(self) -> str:
        """Of everything applied and answered, with its times: the same for the same seed."""
        return self._hash.hexdigest()

    def said(self, line: str) -> None:
        """A line for the trace."""
        self.trace.append(f"{self.agenda.now:.4f} {line}")

    # -- liveness ---------------------------------------------------------------------------------

    def _demand_progress(self) -> None:
        before = [client.successes for client in self.clients]
        began = self.agenda.now
        deadline = began + HEAL_S
        while self.agenda.now < deadline:
            self._wait()
            served = all(client.successes > was + 3 for client, was in zip(self.clients, before, strict=True))
            if served and self._settled() and not self._unanswered(began):
                break
        else:
            waiting = self._unanswered(began)
            raise Violation(
                f"no progress in {HEAL_S} s after the faults ended: {self._standing()}; {waiting}"
            )
        self._everything_acknowledged_is_there()

    def _unanswered(self, before_s: float) -> list[Attempt]:
        """Requests that a process took before then, in the life that it still leads, and has not answered."""
        lives = {process.node_id: process.life for process in self.processes.values() if process.up}
        return [
            attempt
            for attempt in self.ledger.attempts
            if attempt.outcome == "waiting"
            and attempt.taken_s < before_s
            and lives.get(attempt.node) == attempt.life
        ]

    def _settled(self) -> bool:
        """One active leader, everybody counts, nobody is far behind or has a stale image."""
        replicas = [process.replica for process in self.processes.values()]
        active = [r for r in replicas if r is not None and r.proposer.active]
        if len(active) != 1:
            return False
        leader = active[0]
        return all(
            r is not None
            and r.electorate.may_vote
            and not r.watch.is_bad
            and leader.electorate.counts(r.config.node_id)
            and leader.applied[0] - r.applied[0] < 20
            for r in replicas
        )

    def _standing(self) -> str:
        standing = []
        for process in self.processes.values():
            r = process.replica
            if r is not None:
                role = ("follower", "candidate", "leader")[r.raft.role]
                standing.append(
                    f"node {process.node_id}: {role} term {r.raft.term} active {r.proposer.active} votes "
                    f"{r.electorate.may_vote} log {r.journal.first_index}..{r.journal.last_index} commit "
                    f"{r.raft.commit_index} applied {r.applied[0]} connected {sorted(r.connected_peers)}"
                )
        return "; ".join(standing) + f"; successes {[client.successes for client in self.clients]}"

    def _everything_acknowledged_is_there(self) -> None:
        """I2 at the end: on every replica, by its own image; equal versions mean equal images (I3).

        And in every archive the batches that were committed (tests/simulation/archives.py).
        """
        committed = committed_batches(self.ledger)
        for process in self.processes.values():
            replica = process.replica
            require(replica is not None, "a process is down after healing", node=process.node_id)
            if replica is None:
                continue
            version, digest = replica.image.header.version, image_digest(replica.store)
            require(self.ledger.digests[version] == digest, "I3: at the end", node=process.node_id)
            compare = archive_has_nothing_else if process.files_damaged else archive_is_the_log
            for log, archive in replica.archiver.archives.items():
                compare(archive, committed[log], process.node_id)
        for attempt in self.ledger.granted:
            require(attempt.mark in self.ledger.marks, "I2: an acknowledged block is gone", attempt=attempt)

    # -- what the cluster does by itself ----------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def new_uuid(self) -> uuid.UUID:
        """One that no one has had."""
        return uuid.UUID(int=self.rng.getrandbits(128))

    def _ended(self, process: Process) -> None:
        """It died in the middle of a turn, or stopped cleanly."""
        self.faults.restart_later(process)

    def _activated(self, process: Process, now_ms: int) -> None:
        """A process decides from now on."""

    def _decide(self, process: Process, decide: Decide[None]) -> None:
        """A leader's own decision; where it is refused, as by a full disk, again while that one leads."""

        def replied(answer: object, _ms: int) -> None:
            if answer is not None:
                self.agenda.after(DECIDE_AGAIN_S, again)

        def again() -> None:
            if process.replica is not None and process.replica.proposer.active:
                process.run(self._decide, process, decide)

        process.submit(decide, replied)


@contextmanager
def _limits(rng: random.Random, all_limits: bool) -> Iterator[None]:
    bounds = (*SMALL, *MORE_LIMITS) if all_limits else SMALL
    chosen = [(module, name, rng.randint(least, most)) for module, name, least, most in bounds]
    values = [*chosen, (fencepost.quorum.snapshotter, "CHUNK_WAIT_S", CHUNK_WAIT_S)]
    before = [(module, name, getattr(module, name)) for module, name, _ in values]
    for module, name, value in values:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
