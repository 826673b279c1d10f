"""Load of right and wrong pairs: producers that keep the rules, and attackers that present any pair.

Producers   commit and abort transactions of their own ids, one record in each of two partitions. What EndTxn
            acknowledged is remembered. One that is fenced begins anew; one whose partitions know a higher
            epoch of its producer id takes another transactional id.
Attackers   send InitProducerId, AddPartitionsToTxn, EndTxn, Produce and WriteTxnMarkers with pairs of any id:
            0, 32765 to 32767, retired, invented, of other ids. Of their own ids they use the current pair,
            too, and leave transactions open, which time out. Of a producer's id they never use one that may
            be current: by the protocol, what names the pair may end the transaction.
"""

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.harness.nodes import Nodes
from tests.processes import txn_requests as requests
from tests.processes.leaps import leap
from tests.processes.raw_client import RawClient
from tests.processes.txn_requests import NONE, Pair

Address = tuple[str, int]
EDGES: Final = (0, 1, 32764, 32765, 32766, 32767)
AGAIN: Final = frozenset((14, 15, 51))  # loading, no coordinator, transaction still ending
MOVED: Final = frozenset((6, 16, 41))  # another node leads
FENCED: Final = frozenset((47, 90))
STALE_MAX: Final = 3  # refusals by partitions, one after the other, until a producer takes another id
PRODUCER_TIMEOUT_MS: Final = 6_000
ATTACKER_TIMEOUTS_MS: Final = (300, 1000, 2000)


class World:
    """What all threads share: where to send, which pairs were answered, what was acknowledged."""

    def __init__(self, topic: str, leaders: list[Address], brokers: list[Address], first: int) -> None:
        self.topic = topic
        self.leaders = leaders  # of each partition
        self.brokers = brokers
        self.coordinator = first  # index of the broker that answered last
        self.lock = threading.Lock()
        self.given: dict[str, list[Pair]] = defaultdict(list)
        self.accepted: list[tuple[str, str, Pair]] = []
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.sent: Counter[str] = Counter()
        self.codes: Counter[tuple[str, int]] = Counter()
        self.stop = threading.Event()
        self.failures: list[BaseException] = []

    def give(self, of: str, pair: Pair) -> None:
        with self.lock:
            self.given[of].append(pair)

    def accept(self, what: str, of: str, pair: Pair) -> None:
        with self.lock:
            self.accepted.append((what, of, pair))


class Sender:
    """Connections of one thread: to the coordinator, wherever it is, and to partition leaders."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._clients: dict[Address, RawClient] = {}

    def to(self, address: Address, request: Any) -> Any:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = RawClient(address)
        return client.call(request)

    def to_coordinator(self, request: Any, code_of: Callable[[Any], int]) -> Any:
        """The answer of whoever coordinates; asks the next node where this one does not."""
        while True:
            at = self.world.coordinator
            answer = self.to(self.world.brokers[at], request)
            if code_of(answer) not in MOVED:
                return answer
            self.world.coordinator = (at + 1) % len(self.world.brokers)
            self.world.stop.wait(0.02)

    def close(self) -> None:
        for client in self._clients.values():
            client.__exit__()


def code_of(answer: Any) -> int:
    return int(answer.error_code)


def code_added(answer: Any) -> int:
    codes = requests.added(answer)
    return max(codes, key=lambda code: (code in MOVED, code != 0)) if codes else 0


class Producer:
    """Keeps the rules. ``run`` until the world stops."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.generation = world, number, 0
        self.rng = random.Random(f"producer-{number}")
        self.sender = Sender(world)
        self.transactions = 0

    @property
    def id(self) -> str:
        return f"producer-{self.number}-{self.generation}"

    def run(self) -> None:
        while not self.world.stop.is_set():
            self.life()
            self.generation += 1

    def life(self) -> None:
        """Of one transactional id, until partitions refuse its producer id for good."""
        stale = 0
        pair = NONE
        while not self.world.stop.is_set() and stale < STALE_MAX:
            if pair == NONE:
                request = requests.init(self.id, timeout_ms=PRODUCER_TIMEOUT_MS)
                answer = self.sender.to_coordinator(request, code_of)
                if code_of(answer) != 0:
                    self.pause(code_of(answer))
                    continue
                pair = int(answer.producer_id), int(answer.producer_epoch)
                self.sequences: Counter[int] = Counter()
                self.world.give(self.id, pair)
            outcome = self.transact(pair)
            stale = 0 if outcome == "ended" else stale + (outcome == "stale")
            pair = pair if outcome == "ended" else NONE

    def pause(self, code: int) -> None:
        self.world.codes["producer", code] += 1
        self.world.stop.wait(0.01)

    def transact(self, pair: Pair) -> str:
        """``ended``, or why the pair is of no use any more: ``fenced``, or ``stale`` on a partition."""
        world, indexes = self.world, self.rng.sample(range(len(self.world.leaders)), 2)
        self.transactions += 1
        values = {index: f"{self.id}:{pair[1]}:{self.transactions}:{index}" for index in indexes}
        while code := code_added(
            self.sender.to_coordinator(requests.add(self.id, pair, world.topic, indexes), code_added)
        ):
            self.pause(code)
            if code not in AGAIN:
                return "fenced"
        for index, value in values.items():
            sequence = self.sequences[index]
            request = requests.write(self.id, pair, world.topic, index, sequence, value)
            while code := requests.written(self.sender.to(world.leaders[index], request)):
                self.pause(code)
                if code not in {19, 51}:
                    return "stale"
            self.sequences[index] += 1
        committed = self.rng.random() < 0.8
        while code := code_of(self.sender.to_coordinator(requests.end(self.id, pair, committed), code_of)):
            self.pause(code)
            if code not in AGAIN:
                return "fenced"
        with world.lock:
            (world.committed if committed else world.aborted).update(values.values())
        return "ended"


class Attacker:
    """Presents any pair. ``step`` is one request."""

    def __init__(self, world: World, number: int, own: list[str], victims: Callable[[], list[str]]) -> None:
        self.world, self.own, self.victims = world, own, victims
        self.rng = random.Random(f"attacker-{number}")
        self.sender = Sender(world)
        self.number = number

    def run(self, count: int) -> None:
        for _ in range(count):
            if self.world.failures:
                return
            self.step()

    def step(self) -> None:
        rng = self.rng
        victims = self.victims()
        own = not victims or rng.random() < 0.6
        of = rng.choice(self.own if own else victims)
        pair = self.pair(of, own)
        (what,) = rng.choices((self.init, self.add, self.end, self.produce, self.marker), (3, 4, 3, 3, 2))
        self.world.sent[what.__name__] += 1
        what(of, pair, own)

    def pair(self, of: str, own: bool) -> Pair:
        """Any, of its own ids; of a producer's none that is or may soon be current."""
        rng = self.rng
        with self.world.lock:
            given = list(self.world.given[of][-20:])
            others = [pair for each in self.own if each != of for pair in self.world.given[each][-3:]]
        newest = given[-1] if given else (rng.randrange(3000), 0)
        retired = given if own else given[:-1]
        far = max(newest[1] + 100, rng.choice(EDGES)) if not own else rng.choice(EDGES)
        choices = [
            rng.choice(retired or [(newest[0], 32767)]),
            (newest[0], min(far, 32767)),
            (rng.randrange(3000), rng.choice(EDGES)) if own else (newest[0], 32767),
            rng.choice(others or [(0, 32767)]),
        ]
        if own:
            choices += [newest] * 5 + [(newest[0], min(newest[1] + 1, 32767)), (newest[0], 32767)]
        return rng.choice(choices)

    def init(self, of: str, pair: Pair, own: bool) -> None:
        version = self.rng.choice((0, 1, 2, 3, 4, 5))
        if version < 3 or self.rng.random() < 0.2:
            pair = NONE
            if not own and self.rng.random() > 0.02:
                return  # a producer that is fenced all the time commits nothing
        timeout_ms = self.rng.choice(ATTACKER_TIMEOUTS_MS) if own else PRODUCER_TIMEOUT_MS
        request = requests.init(of, pair, timeout_ms=timeout_ms, version=version)
        answer = self.sender.to_coordinator(request, code_of)
        self.world.codes["init", code_of(answer)] += 1
        if code_of(answer) == 0:
            if pair != NONE:
                self.world.accept("init", of, pair)
            got = int(answer.producer_id), int(answer.producer_epoch)
            if own:
                self.world.give(of, got)
            else:
                with self.world.lock:  # never the newest of a producer's: it does not hold it
                    self.world.given[of].insert(0, got)

    def add(self, of: str, pair: Pair, own: bool) -> None:
        indexes = self.rng.sample(range(len(self.world.leaders)), self.rng.randint(1, 3))
        request = requests.add(of, pair, self.world.topic, indexes, version=self.rng.randrange(4))
        code = code_added(self.sender.to_coordinator(request, code_added))
        self.world.codes["add", code] += 1
        if code == 0:
            self.world.accept("add", of, pair)

    def end(self, of: str, pair: Pair, own: bool) -> None:
        request = requests.end(of, pair, self.rng.random() < 0.5)
        code = code_of(self.sender.to_coordinator(request, code_of))
        self.world.codes["end", code] += 1
        if code == 0:
            self.world.accept("end", of, pair)

    def produce(self, of: str, pair: Pair, own: bool) -> None:
        """Transactional; or idempotent with that producer id: Kafka's rule takes any newer epoch."""
        index = self.rng.randrange(len(self.world.leaders))
        plain = self.rng.random() < (0.3 if own else 0.02)
        sequence = self.rng.choice((0, 0, 0, 1, 5, 2**31 - 1))
        request = requests.write(
            None if plain else of, pair, self.world.topic, index, sequence, f"attacker-{self.number}"
        )
        code = requests.written(self.sender.to(self.world.leaders[index], request))
        self.world.codes["produce", code] += 1
        if code == 0 and not plain:
            self.world.accept("produce", of, pair)

    def marker(self, of: str, pair: Pair, own: bool) -> None:
        if not own and self.rng.random() > 0.1:
            return
        index = self.rng.randrange(len(self.world.leaders))
        epoch = self.rng.choice((0, 1, 2, 2**31 - 1 if own else 1))
        request = requests.marker(pair, self.rng.random() < 0.5, self.world.topic, (index,), epoch)
        answer = self.sender.to(self.world.leaders[index], request)
        code = int(answer.markers[0].topics[0].partitions[0].error_code)
        self.world.codes["marker", code] += 1


def bumped_to(world: World, ids: Sequence[str], epoch: int, *, timeout_ms: int = 1000) -> None:
    """Instance after instance of each id, until one has that epoch."""
    sender = Sender(world)
    for each in ids:
        pair = NONE
        while pair[1] < epoch:
            answer = sender.to_coordinator(requests.init(each, timeout_ms=timeout_ms), code_of)
            assert code_of(answer) in (0, *AGAIN)
            pair = max(pair, (int(answer.producer_id), int(answer.producer_epoch)))
        world.give(each, pair)
    sender.close()


def leapt_to(
    nodes: Nodes,
    world: World,
    ids: Sequence[str],
    epoch: int,
    *,
    timeout_ms: int = 1000,
    tree: Path | None = None,
) -> None:
    """The same, for an epoch that only tens of thousands of instances lead to: see leaps.py."""
    bumped_to(world, ids, 0, timeout_ms=timeout_ms)
    leap(nodes, epoch - 1, *ids, tree=tree)
    bumped_to(world, ids, epoch, timeout_ms=timeout_ms)
