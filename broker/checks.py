"""Checks producers' batches in slices, so that no batch holds the event loop, however many records it has.

At once     what a request's budget of steps allows, if nothing of that partition is parked.
Parked      the rest: a slice of SLICE_STEPS for all of them together in one turn of the loop, one check
            after the other, so that a large one delays small ones by a slice each.
Order       outcomes of one partition come in the order in which its batches came.
Opened      compressed records that are not small are opened by threads (the codecs release the GIL), and
            batches that ``compression.type`` wants otherwise are compressed by them;
            at most SMALL_MAX small and LARGE_MAX large ones are in memory at a time, the others wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from fencepost.broker.log.validation import (
    OPENED_SMALL_BYTES_MAX,
    Budget,
    Checked,
    Checking,
    Opening,
    Recompressing,
    Wanted,
    checking,
)
from fencepost.broker.partition import Partition
from fencepost.controller.errors import ApiError
from fencepost.records.batch import Buffer
from fencepost.records.invariant import CorruptData
from fencepost.records.record_walk import Body
from fencepost.wire.stalls import Stalls

SLICE_STEPS: Final = 4096
"""Records walked over, or as much, between two turns of the loop: some 5 ms of CPU."""

SMALL_MAX: Final = 16  # of OPENED_SMALL_BYTES_MAX each
LARGE_MAX: Final = 2  # of DECOMPRESSED_BYTES_MAX each
THREADS_MAX: Final = 2

Then: TypeAlias = Callable[[Checked | ApiError], None]
"""Called with the batches as the log takes them, or with what is wrong with them."""


class Checks:
    """All checks of a broker. To be used on the event loop."""

    def __init__(self, stalls: Stalls) -> None:
        self._watch = stalls.watch("record validation")
        self._parked: dict[Partition, deque[_Check]] = {}  # the first of each is under way
        self._ready: deque[_Check] = deque()  # can go on
        self._small = _Gate(SMALL_MAX)
        self._large = _Gate(LARGE_MAX)
        self._threads: ThreadPoolExecutor | None = None
        self._is_due = False  # a slice will run

    def is_free(self, partition: Partition) -> bool:
        """Nothing of this partition is parked: what is small need not come here."""
        return partition not in self._parked

    def check(self, partition: Partition, produced: Buffer, now_ms: int, budget: Budget, then: Then) -> bool:
        """Check a producer's batches. False: they are parked, and ``then`` is called later."""
        check = _Check(partition, produced, now_ms, budget.steps, then)
        waiting = self._parked.get(partition)
        if waiting is not None:
            waiting.append(check)
            return False
        if budget.steps > 0:
            is_over = self._go_on(check)
            budget.steps = check.budget.steps
            if is_over:
                return True
        else:
            self._make_ready(check)
        self._parked[partition] = deque((check,))
        return False

    def stop(self) -> None:
        """Forget what is parked: the broker stops, and its connections are closed."""
        self._parked.clear()
        self._ready.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _slice(self) -> None:
        self._is_due = False
        with self._watch:
            budget = Budget(SLICE_STEPS)
            while self._ready and budget.steps > 0:
                check = self._ready.popleft()
                check.budget.steps = budget.steps
                is_over = self._go_on(check)
                budget.steps = check.budget.steps
                if is_over:
                    self._next(check.partition)
        self._run_soon()

    def _go_on(self, check: "_Check") -> bool:
        """As far as its budget goes. True: it is over, and its outcome was given."""
        try:
            wanted = check.advance()
        except StopIteration as ended:
            outcome: Checked | ApiError = ended.value
        except ApiError as error:
            outcome = error
        else:
            if wanted is None:
                self._make_ready(check)
            else:
                self._open(check, wanted)
            return False
        self._let_go(check)
        check.budget.steps -= 1
        check.then(outcome)
        return True

    def _next(self, partition: Partition) -> None:
        """A check of this partition is over: those behind it may begin."""
        waiting = self._parked.get(partition)
        if waiting is None:  # stopped meanwhile
            return
        waiting.popleft()
        if waiting:
            self._make_ready(waiting[0])
        else:
            del self._parked[partition]

    def _make_ready(self, check: "_Check") -> None:
        self._ready.append(check)
        self._run_soon()

    def _run_soon(self) -> None:
        if self._ready and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._slice)

    # -- compressed records ---------------------------------------------------------------------------

    def _open(self, check: "_Check", opening: Opening | Recompressing) -> None:
        """Have the records opened, or compressed anew, by a thread when there is room for them."""
        self._let_go(check)  # of the batch before it
        check.gate = self._small if opening.bytes_max <= OPENED_SMALL_BYTES_MAX else self._large
        check.gate.enter(lambda: self._open_now(check, opening))

    def _open_now(self, check: "_Check", opening: Opening | Recompressing) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="open")
        opened = asyncio.get_running_loop().run_in_executor(self._threads, _outcome, opening)
        opened.add_done_callback(lambda ended: self._opened(check, ended))

    def _opened(self, check: "_Check", ended: "asyncio.Future[Body | CorruptData]") -> None:
        if ended.cancelled() or check.partition not in self._parked:  # stopped meanwhile
            return
        check.answer = ended.result()
        self._make_ready(check)

    def _let_go(self, check: "_Check") -> None:
        """The records that were opened for it are walked over."""
        gate, check.gate = check.gate, None
        if gate is not None:
            gate.leave()


class _Check:
    """One partition's batches of one request."""

    __slots__ = ("_steps", "answer", "budget", "gate", "partition", "then")

    def __init__(self, partition: Partition, produced: Buffer, now_ms: int, steps: int, then: Then) -> None:
        self.partition = partition
        self.budget = Budget(steps)
        self.then = then
        self.gate: _Gate | None = None  # where it takes a place
        self.answer: Body | CorruptData | None = None  # to what it wanted opened
        self._steps: Checking = checking(produced, partition.log.config, now_ms, self.budget)

    def advance(self) -> Wanted:
        """Until it pauses. Raises StopIteration with the outcome, or the ApiError of a refusal."""
        answer, self.answer = self.answer, None
        if answer is None:
            return next(self._steps)
        if isinstance(answer, CorruptData):
            return self._steps.throw(answer)
        return self._steps.send(answer)


class _Gate:
    """Lets so many through at a time; the others wait in order."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, then: Callable[[], None]) -> None:
        """Call ``then`` when there is a place, perhaps at once."""
        if self._free:
            self._free -= 1
            then()
        else:
            self._waiting.append(then)

    def leave(self) -> None:
        """Free a place: the next in the queue gets it."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


def _outcome(opening: Opening | Recompressing) -> Body | CorruptData:
    """On a thread: an error goes back as a value, for it belongs to the check."""
    try:
        return opening.open()
    except CorruptData as error:
        return error
