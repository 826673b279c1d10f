"""Transactional producers: librdkafka's requests, errors and patience (V1), and what differs with V2.

A *producer* is a transactional id; its *instances* are the programs that use it: usually one, sometimes one
that died and whose requests still arrive, sometimes two that do not know of each other. An instance takes its
steps one after another: InitProducerId, then transactions: AddPartitionsToTxn before the first batch of each
partition, Produce, EndTxn. One of V2 sends no AddPartitionsToTxn, and EndTxn gives it the next pair. An
instance repeats what is not answered; its second request goes by another connection.

Known hole  of the protocol: a delayed EndTxn of V1 ends a *later* transaction of the same epoch (KIP-890
            closes it for V2). A client's EndTxn that is still under way when its next transaction begins is
            therefore taken off the network, unless ``keep_late_ends`` (test_late_requests.py). V2's is not.
            A delayed AddPartitionsToTxn of V1 begins a later transaction of the same epoch, too; when that
            one times out, a repeated EndTxn of the first is told so. ``keep_late_adds`` False takes it off.
"""

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
)
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from fencepost.records.types import NodeId
from tests.simulation.broker import TOPIC
from tests.simulation.coordinator import Coordinator, Request
from tests.simulation.facts import (
    Acknowledged,
    Asked,
    Ended,
    Given,
    Identified,
    Pair,
    Place,
    Purpose,
    Refused,
)
from tests.simulation.partition import Batch
from tests.simulation.producer_world import World

PATIENCE_S: Final = (0.2, 1.5)
PAUSE_S: Final = (0.0005, 0.012)
RESTART_S: Final = (0.01, 0.6)
NAP_S: Final = 6.0
TIMEOUT_MS: Final = (800, 2_500)
SWITCHES: Final = (
    0.1  # a client learns of another transaction.version, and uses it from its next transaction on
)
PRODUCE_TRIES_MAX: Final = 6  # then it aborts, and asks for another epoch

RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
RECOVERABLE: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID})
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
NO_PAIR: Final[Pair] = (NO_PRODUCER_ID, NO_EPOCH)
ABORTABLE: Final = frozenset(  # of a Produce (docs/kafka-notes.md E3, conf)
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class ToCoordinator(NamedTuple):
    """A step: ask the coordinator."""

    request: Request


class ToBroker(NamedTuple):
    """A step: send a batch."""

    batch: Batch


class Wait(NamedTuple):
    """A step: let time pass."""

    seconds: float


Step = ToCoordinator | ToBroker | Wait
Steps = Generator[Step, Any, Any]
SILENCE: Final = object()  # no answer within patience


class Fatal(Exception):
    """The instance can do no more: somebody else has its id, or it is lost."""


class Recover(Exception):
    """The transaction is gone, the instance goes on with a new epoch."""


class Producer:
    """One transactional id, and whoever uses it. At least one instance lives or is about to."""

    def __init__(self, transactional_id: str, world: World) -> None:
        self.transactional_id = transactional_id
        self.commits = 0
        self.instances: list[Instance] = []
        self.begun: dict[Pair, Purpose] = {}  # the last transaction that was begun with each pair
        self._world = world
        world.agenda.after(world.rng.uniform(0.1, 1.0), self.start)

    def start(self) -> None:
        """Another instance begins."""
        instance = Instance(self, self._world)
        self.instances.append(instance)
        instance.go_on(None)

    def ended(self, instance: "Instance") -> None:
        """It is fenced, dead, or done."""
        self.instances.remove(instance)
        if not self.instances and not (self._world.closing and instance.is_done):
            self._world.agenda.after(self._world.rng.uniform(*RESTART_S), self._restart)

    def _restart(self) -> None:
        if not self.instances:
            self.start()


class Instance:
    """One life of a producer."""

    def __init__(self, producer: Producer, world: World) -> None:
        self._producer = producer
        self._world = world
        self._rng = world.rng
        self._id = producer.transactional_id
        self._timeout_ms = self._rng.randint(*TIMEOUT_MS)
        share = world.post.weather.transactions_v2
        self._is_v2 = bool(share) and self._rng.random() < share  # no draw where there are none
        self._switches = SWITCHES if share else 0.0
        keeps = world.post.weather.keeps
        self._keeps = bool(keeps) and self._rng.random() < keeps
        self._is_two_phase = self._keeps and self._rng.random() < 0.5
        self._pair: Pair = NO_PAIR
        self._sequences: dict[Place, int] = {}
        self._purpose = Purpose(self._id, 0)
        self._is_ending = False
        self._lives = True
        self.is_done = False  # what is open with two-phase commit ends with the next instance only
        self._leader: NodeId | None = None
        self._steps: Steps = self._live()

    # -- steps ------------------------------------------------------------------------------------

    def go_on(self, answer: Any) -> None:
        """Take the next step, or die, or have somebody start another instance beside this one."""
        world = self._world
        if not self._lives:
            return
        if self._rng.random() < world.post.weather.client_dies:
            world.ledger.count("producers died")
            self._end()
            return
        if self._rng.random() < world.post.weather.second_instance:
            world.ledger.count("second instances")
            world.agenda.after(self._rng.uniform(*RESTART_S), self._producer.start)
        try:
            step = self._steps.send(answer)
        except (StopIteration, Fatal) as end:
            self.is_done = isinstance(end, StopIteration)
            self._end()
            return
        if isinstance(step, Wait):
            world.agenda.after(step.seconds, self.go_on, None)
        else:
            self._send(step)

    def _end(self) -> None:
        self._lives = False
        self._producer.ended(self)

    def _send(self, step: ToCoordinator | ToBroker) -> None:
        """Once; the answer, or SILENCE, is the step's outcome."""
        world, waiting, purpose = self._world, [True], self._purpose

        def told(answer: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                self.go_on(answer)

        def answered(answer: Any) -> None:
            if isinstance(answer, InitProducerIdAnswer):
                pair = (answer.producer_id, answer.producer_epoch)
                world.ledger.fact(Identified(self._id, pair, answer.ongoing_producer_id))
            if isinstance(step, ToCoordinator):
                self._note(step.request, answer, is_awaited=waiting[0])
                share = world.post.weather.lost_outcomes
                if share and not isinstance(step.request, AddPartitionsToTxn) and self._rng.random() < share:
                    return
            world.post.carry(lambda: told(answer))

        def arrive() -> None:
            if isinstance(step, ToBroker):
                world.brokers[step.batch.place].produce(step.batch, answered)
                return
            is_late = isinstance(step.request, EndTxn) and self._purpose != purpose and not self._is_v2
            if is_late and not world.keep_late_ends:
                world.ledger.count("late ends taken off the network")
                return
            is_over = self._purpose != purpose or self._is_ending
            if isinstance(step.request, AddPartitionsToTxn) and is_over and not world.keep_late_adds:
                world.ledger.count("late additions taken off the network")
                return
            self._voter().ask(step.request, answered)

        world.agenda.after(self._rng.uniform(*PATIENCE_S), told, SILENCE)
        world.post.carry(arrive)

    def _note(self, request: Request, answer: Any, *, is_awaited: bool) -> None:
        """What the coordinator says of a pair, when it says so."""
        world = self._world
        if isinstance(answer, EndTxnAnswer):
            world.ledger.fact(Given(self._id, (answer.producer_id, answer.producer_epoch)))
        code = _code(answer) if hasattr(answer, "results") else getattr(answer, "code", ErrorCode.NONE)
        is_newest = self._pair != NO_PAIR and _pair_of(request) == self._pair
        if code in FENCED and self._lives and is_awaited and is_newest:
            world.ledger.fact(Refused(self._id, self._pair))

    def _voter(self) -> Coordinator:
        if self._leader is None:
            self._leader = self._rng.choice(sorted(self._world.voters))
        return self._world.voters[self._leader]

    # -- one life ---------------------------------------------------------------------------------

    def _live(self) -> Steps:
        try:
            yield from self._identify()
        except Recover:
            yield from self._identify()
        while not self._world.closing:
            try:
                yield from self._switch()
                yield from self._transaction()
            except Recover:
                self._world.ledger.count("recoveries")
                yield from self._identify()
            if self._rng.random() < self._world.post.weather.naps:
                yield Wait(NAP_S)
            yield from self._pause()

    def _switch(self) -> Steps:
        """Between V1 and V2, now and then. To V2 with another epoch: a partition may wait for V1's marker."""
        if self._switches and self._rng.random() < self._switches:
            self._is_v2 = not self._is_v2
            if self._is_v2:
                yield from self._identify()

    def _identify(self) -> Steps:
        """InitProducerId: with the pair if there is one (KIP-360)."""
        keeps = self._keeps and self._pair[1] == NO_EPOCH
        version = 6 if keeps else 4
        request = InitProducerId(
            self._id,
            self._timeout_ms,
            *self._pair,
            6 if self._is_two_phase else version,
            enables_two_phase=self._is_two_phase,
            keeps_prepared=keeps,
        )
        answer = yield from self._coordinate(request)
        if not isinstance(answer, InitProducerIdAnswer):
            self._world.ledger.count(f"InitProducerId {answer.code.name}")
            raise Fatal
        self._pair = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}
        if answer.ongoing_producer_epoch != NO_EPOCH:
            yield from self._end_kept((answer.ongoing_producer_id, answer.ongoing_producer_epoch))

    def _end_kept(self, ongoing: Pair) -> Steps:
        """Commit or abort what an instance before this one left open, perhaps without a batch."""
        self._world.ledger.count("transactions kept")
        nothing = Purpose(self._id, self._world.numbers())
        self._purpose = self._producer.begun.get(ongoing, nothing)
        yield from self._pause()
        yield from self._end_transaction(self._rng.random() < 0.5)

    def _transaction(self) -> Steps:
        world, rng = self._world, self._rng
        self._purpose, self._is_ending = Purpose(self._id, world.numbers()), False
        self._producer.begun[self._pair] = self._purpose
        places = rng.sample(sorted(world.brokers), rng.randint(1, min(3, len(world.brokers))))
        must_abort = must_bump = False
        for place in places:
            if not self._is_v2:
                yield from self._add(place)
            yield from self._pause()
            for _ in range(rng.randint(1, 2)):
                code = yield from self._produce(place)
                if code != ErrorCode.NONE:
                    must_abort = must_bump = True
                    break
            if must_abort:
                break
        committed = not must_abort and rng.random() < 0.75
        yield from self._pause()
        yield from self._end_transaction(committed)
        if must_bump and not self._is_v2:
            raise Recover

    def _add(self, place: Place) -> Steps:
        asked = AddPartitions(self._id, *self._pair, (TopicPartitions(TOPIC, (place,)),))
        answer = yield from self._coordinate(AddPartitionsToTxn((asked,)))
        code = answer.code if isinstance(answer, ApiError) else _code(answer)
        if code in RECOVERABLE:
            raise Recover
        if code != ErrorCode.NONE:
            self._world.ledger.count(f"AddPartitionsToTxn {code.name}")
            raise Fatal

    def _produce(self, place: Place) -> Steps:
        """One batch, again and again until its fate is known or patience ends."""
        sequence = self._sequences.get(place, 0)
        batch = Batch(place, self._pair, sequence, self._purpose, self._world.numbers(), self._is_v2)
        for _ in range(PRODUCE_TRIES_MAX):
            code = yield ToBroker(batch)
            if code is SILENCE or code in RETRIED:
                yield Wait(self._rng.uniform(*PAUSE_S))
                continue
            if code == ErrorCode.NONE:
                self._sequences[place] = sequence + 1
                self._world.ledger.fact(Acknowledged(place, self._purpose, batch.number))
            elif code not in ABORTABLE:
                self._world.ledger.count(f"Produce {code.name}")
                raise Fatal
            return code
        return ErrorCode.REQUEST_TIMED_OUT

    def _end_transaction(self, committed: bool) -> Steps:
        world = self._world
        self._is_ending = True
        world.ledger.fact(Asked(self._purpose, committed))
        request = EndTxn(self._id, *self._pair, committed, bumps_epoch=self._is_v2)
        answer = yield from self._coordinate(request)
        if answer is None or isinstance(answer, EndTxnAnswer):
            if answer is not None:
                world.ledger.count("pairs of transactions V2")
                self._pair, self._sequences = (answer.producer_id, answer.producer_epoch), {}
            world.ledger.fact(Ended(self._purpose, committed))
            self._producer.commits += committed
        elif answer.code in RECOVERABLE:
            world.ledger.fact(Ended(self._purpose, False))
            raise Recover
        else:
            world.ledger.count(f"EndTxn {answer.code.name}")
            raise Fatal

    def _coordinate(self, request: Request) -> Steps:
        """Until somebody who knows answers."""
        while True:
            answer = yield ToCoordinator(request)
            if answer is SILENCE:
                self._leader = None
            elif isinstance(answer, ApiError) and answer.code in RETRIED:
                if answer.code == ErrorCode.NOT_COORDINATOR:
                    self._leader = None
            elif not _is_concurrent(answer):
                return answer
            yield Wait(self._rng.uniform(*PAUSE_S))

    def _pause(self) -> Steps:
        dawdles = self._rng.random() < self._world.post.weather.dawdles
        yield Wait(self._timeout_ms / 1000 + 0.5 if dawdles else self._rng.uniform(*PAUSE_S))


def _code(answer: Any) -> ErrorCode:
    ((_, result),) = answer.results
    if isinstance(result, AddPartitionsAnswer):
        return result.errors[0][1][0][1]
    return ErrorCode(result)


def _pair_of(request: Request) -> Pair:
    if isinstance(request, AddPartitionsToTxn):
        (request_,) = request.transactions
        return request_.producer_id, request_.producer_epoch
    return request.producer_id, request.producer_epoch


def _is_concurrent(answer: Any) -> bool:
    """51 for each partition."""
    return hasattr(answer, "results") and _code(answer) in RETRIED
