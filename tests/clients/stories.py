"""What every client must bear, told once: a player is told it, whatever its library.

A story ends with a committed ``last``: what is read up to there by who reads committed is all there is.
"""

import itertools
from collections.abc import Callable
from typing import Final

from tests.clients.players import CONFLUENT, CallFailed, Player
from tests.harness.nodes import Nodes, revive, wait_for

PRODUCED: Final = 50
TRANSACTIONS: Final = 6
MESSAGES: Final = 10
TIMEOUT_MS: Final = {"java": 4_000}
"""Of transactions that time out; 1 s for all others. The first one must not, and a JVM that has just begun
takes more than a second for it on a machine that is busy."""
WAIT_SECONDS_MAX: Final = 30.0
HOST: Final = 3
"""Has every partition. There is one replica, and kafkajs connects only while every partition has a leader."""
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"

CONTINUES: Final = frozenset({CONFLUENT, "java"})
"""Who asks InitProducerId with its pair after an abortable error. For the others a new producer must do."""

ABORTS_MAX: Final = {"java": 2}
"""Until a producer goes on; 1 for all others. The Java client tells that a batch failed before it notes that
it wants a new epoch (4.1.0, Sender.failBatch). An abort that comes in between leaves the epoch as it is: the
next transaction's AddPartitionsToTxn is told UNKNOWN_PRODUCER_ID, and its abort brings the new epoch."""

RESTARTED: Final = frozenset({"kafka-python"})
"""Loses a request, and waits for ever, if its coordinator refuses the connection (3.0.12, sender.py: what
fails with an exception is not tried again). So the killed leader runs again at once, and leads no more."""


class StoryFailed(Exception):
    """Something else happened."""


class Stage:
    """A cluster, one player, a reader, and names that no story used before."""

    _numbers = itertools.count()

    def __init__(self, cluster: Nodes, player: Player, reader: Player) -> None:
        self.cluster = cluster
        self.player = player
        self.reader = reader

    def fresh(self) -> str:
        """A name for a transactional id and for topics."""
        return f"{self.player.name}-{next(self._numbers)}"

    def topic(self, name: str) -> str:
        """A topic whose partition is on HOST, which does not lead: who leads may be killed. All run."""
        revive(self.cluster)
        while self.cluster.leader() == HOST:
            Killed(self.cluster).restart()
        self.cluster.run("topics", "create", "--topic", name, "--replica-assignment", str(HOST))
        return name

    def make(self, producer: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """A transactional producer, initialized."""
        settings = (f"transactional.id={transactional_id}", f"transaction.timeout.ms={timeout_ms}")
        self.player.call("make", producer, *settings)

    def kill(self) -> "Killed":
        """The leader is dead until the end of the story, if the library can bear that."""
        return Killed(self.cluster, dead=self.player.name not in RESTARTED)

    def transact(self, producer: str, topic: str, *values: str) -> None:
        """One transaction, committed."""
        self.player.call("begin", producer)
        self.player.call("send", producer, topic, *values)
        self.player.call("commit", producer)

    def error_of(self, *words: str) -> str | None:
        """What the library says; None if it works."""
        try:
            self.player.call(*words)
        except CallFailed as error:
            return str(error)
        return None

    def expect_committed(self, topic: str, *values: str) -> None:
        """The player's library and librdkafka read exactly these up to the last one."""
        readers = {CONFLUENT: self.reader}
        if self.player.name != "kafkajs":  # it reads only as a member of a group
            readers[self.player.name] = self.player
        for name, reader in readers.items():
            read = reader.call("read", topic, str(len(values)), COMMITTED)
            expect(f"{name} reads {topic}", read, list(values))


def expect(what: str, found: object, expected: object) -> None:
    """Raises StoryFailed, which shows of two lists what only one of them has."""
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list):
        more = [each for each in found if each not in expected]
        less = [each for each in expected if each not in found]
        raise StoryFailed(f"{what}: {len(found)} with {more}; expected {len(expected)} with {less}")
    raise StoryFailed(f"{what}: {found}, expected {expected}")


def commit_and_abort(stage: Stage) -> str:
    """Every other transaction is committed."""
    topic = stage.topic(stage.fresh())
    stage.make("it", topic)
    for number in range(TRANSACTIONS):
        stage.player.call("begin", "it")
        stage.player.call("send", "it", topic, *_values(number))
        stage.player.call("commit" if number % 2 else "abort", "it")
    committed = [value for number in range(1, TRANSACTIONS, 2) for value in _values(number)]
    stage.expect_committed(topic, *committed)
    everything = [value for number in range(TRANSACTIONS) for value in _values(number)]
    read = stage.reader.call("read", topic, str(len(everything)), UNCOMMITTED)
    expect("read uncommitted", read, everything)
    return "committed is what is read"


def plain(stage: Stage) -> str:
    """An idempotent producer and one that is not, on a topic that their library creates.

    It is deleted, for it may be on any node: kafkajs asks for all topics, and fails while one has no leader.
    """
    topic = stage.fresh()
    for idempotent in ("true", "false"):
        stage.player.call("make", "it", f"enable.idempotence={idempotent}")
        stage.player.call("send", "it", topic, *_plain_values(idempotent))
        stage.player.call("close", "it")
    sent = [*_plain_values("true"), *_plain_values("false")]
    expect("read", stage.player.call("read", topic, str(len(sent)), UNCOMMITTED), sent)
    stage.cluster.run("topics", "delete", "--topic", topic)
    return f"{len(sent)} records in order"


def all_killed(stage: Stage) -> str:
    """Every node is killed, and the partition's snapshots of its producers are removed."""
    topic = stage.topic(stage.fresh())
    stage.make("it", topic)
    stage.transact("it", topic, *_values(0))
    stage.player.call("begin", "it")
    stage.player.call("send", "it", topic, "aborted")
    stage.player.call("abort", "it")
    stage.player.call("close", "it")
    stage.cluster.kill(*stage.cluster.node_ids)
    for snapshot in stage.cluster.directory.glob(f"nodes/*/data/{topic}-0/*.snapshot"):
        snapshot.unlink()
    stage.cluster.start(*stage.cluster.node_ids)
    stage.make("again", topic)
    stage.transact("again", topic, "last")
    stage.expect_committed(topic, *_values(0), "last")
    return "what was committed is there, and the same id goes on"


def fenced(stage: Stage) -> str:
    """A second instance takes over: what the first left open is aborted, and it never goes on."""
    return _fenced(stage, kill=False)


def fenced_after_failover(stage: Stage) -> str:
    """The same, with the leader killed between the two."""
    return _fenced(stage, kill=True)


def commit_after_failover(stage: Stage) -> str:
    """The leader is killed while a transaction is open: it is committed, and the next one, too."""
    topic = stage.topic(stage.fresh())
    stage.make("it", topic)
    stage.player.call("begin", "it")
    stage.player.call("send", "it", topic, "before")
    killed = stage.kill()
    try:
        stage.player.call("send", "it", topic, "after")
        stage.player.call("commit", "it")
        stage.transact("it", topic, "last")
    finally:
        killed.restart()
    stage.expect_committed(topic, "before", "after", "last")
    return "committed"


def _fenced(stage: Stage, *, kill: bool) -> str:
    topic = stage.topic(stage.fresh())
    stage.make("first", topic)
    stage.transact("first", topic, "committed")
    stage.player.call("begin", "first")
    stage.player.call("send", "first", topic, "open")
    killed = stage.kill() if kill else None
    try:
        stage.make("second", topic)
        error = _go_on(stage, "first", topic)
        if error is None:
            raise StoryFailed("the fenced producer committed")
        stage.error_of("abort", "first")
        if _next(stage, "first", topic) is None:
            raise StoryFailed(f"the fenced producer went on after: {error}")
        stage.transact("second", topic, "last")
    finally:
        if killed is not None:
            killed.restart()
    stage.expect_committed(topic, "committed", "last")
    return error


def timed_out(first: str, *, kill: bool) -> "Story":
    """A story: a transaction stands open for too long; then ``first`` is what the application tries."""

    def story(stage: Stage) -> str:
        topic = stage.topic(stage.fresh())
        other = stage.topic(f"{topic}-other")
        stage.make("it", topic, TIMEOUT_MS.get(stage.player.name, 1_000))
        stage.transact("it", topic, "first")
        stage.player.call("begin", "it")
        stage.player.call("send", "it", topic, "late")
        wait_until_aborted(stage.cluster, topic)
        killed = stage.kill() if kill else None
        try:
            error = _go_on(stage, "it", {"produce": topic, "commit": None, "new partition": other}[first])
            if error is None:
                raise StoryFailed("a transaction that the coordinator aborted was committed")
            goes_on = _recover(stage, topic)
        finally:
            if killed is not None:
                killed.restart()
        stage.expect_committed(topic, "first", "last")
        return f"{goes_on} after: {error}"

    return story


def timed_out_and_hasty(stage: Stage) -> str:
    """Kafka's Java client, aborted while it still hands out the news that its batch failed."""
    topic = stage.topic(stage.fresh())
    stage.make("it", topic, TIMEOUT_MS.get(stage.player.name, 1_000))
    stage.player.call("begin", "it")
    stage.player.call("send", "it", topic, "late")
    wait_until_aborted(stage.cluster, topic)
    error = stage.error_of("hasty", "it", topic, "too-late")
    if error is None:
        raise StoryFailed("a batch of a transaction that the coordinator aborted was appended")
    goes_on = _recover(stage, topic)
    stage.expect_committed(topic, "last")
    return f"{goes_on} after: {error}"


def _recover(stage: Stage, topic: str) -> str:
    """As applications do: abort, begin anew."""
    failed: str | None = None
    for aborts in range(1, ABORTS_MAX.get(stage.player.name, 1) + 1):
        failed = stage.error_of("abort", "it") or _next(stage, "it", topic)
        if failed is None:
            return "it continues" if aborts == 1 else f"it continues at abort {aborts}"
    if stage.player.name in CONTINUES:
        raise StoryFailed(f"it could recover, and did not: {failed}")
    stage.make("successor", topic)
    stage.transact("successor", topic, "last")
    return "a new producer continues"


def wait_until_aborted(cluster: Nodes, transactional_id: str) -> None:
    """Until the coordinator has ended the transaction, markers written."""
    described = ("transactions", "describe", "--transactional-id", transactional_id)
    wait_for(
        f"{transactional_id} is aborted",
        lambda: cluster.read(*described)["transaction_state"] == "CompleteAbort",
    )


class Killed:
    """The leader is killed now; ``restart`` starts it again and waits until a node leads."""

    def __init__(self, cluster: Nodes, *, dead: bool = True) -> None:
        self._cluster = cluster
        self._node_id = cluster.leader()
        cluster.kill(self._node_id)
        if not dead:
            self.restart()

    def restart(self) -> None:
        """Returns when the node answers."""
        if self._cluster.node(self._node_id).pid() is None:
            self._cluster.start(self._node_id)
        self._cluster.leader()


def _go_on(stage: Stage, producer: str, topic: str | None) -> str | None:
    """Send more, if a topic is said, and commit."""
    failed = stage.error_of("send", producer, topic, "too-late") if topic else None
    return failed or stage.error_of("commit", producer)


def _next(stage: Stage, producer: str, topic: str) -> str | None:
    """The next transaction; what went wrong, if it did."""
    for words in (("begin", producer), ("send", producer, topic, "last"), ("commit", producer)):
        failed = stage.error_of(*words)
        if failed is not None:
            return failed
    return None


def _plain_values(name: str) -> list[str]:
    return [f"{name}-{number}" for number in range(PRODUCED)]


def _values(number: int) -> list[str]:
    return [f"{number}-{message}" for message in range(MESSAGES)]


Story = Callable[[Stage], str]
FIRSTS: Final = ("produce", "commit", "new partition")
STORIES: Final[dict[str, Story]] = {
    "commit and abort": commit_and_abort,
    "commit, leader killed": commit_after_failover,
    "fenced by a second instance": fenced,
    "fenced, leader killed": fenced_after_failover,
    **{f"timed out, then {first}": timed_out(first, kill=False) for first in FIRSTS},
    **{f"timed out, leader killed, then {first}": timed_out(first, kill=True) for first in FIRSTS},
}
_PYTHON: Final[dict[str, Story]] = {"without transactions": plain, "all nodes killed": all_killed}
STORIES_OF: Final[dict[str, dict[str, Story]]] = {
    "java": {"timed out, then aborted in haste": timed_out_and_hasty},
    **dict.fromkeys((CONFLUENT, "kafka-python", "aiokafka"), _PYTHON),
}
"""More of them, for one library."""
