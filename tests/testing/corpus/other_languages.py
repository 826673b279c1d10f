"""Applications in Java, Node and Go: each is a program beside this module, started for one topic.

Fetched   Kafka's Java client by Maven, kafkajs by npm, sarama by Go, into .clients, once. Only
          ``make kit-corpus`` runs these; where something is missing it says NOT RUN.
"""

import subprocess
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from tests.clients.go_programs import built
from tests.clients.java_programs import compiled
from tests.clients.players import installed_kafkajs
from tests.testing.corpus.copying import filled_with_an_aborted
from tests.testing.corpus.world import ORDERS, Case, World

HERE: Final = Path(__file__).parent
RUN_S_MAX: Final = 50.0
LOST_S: Final = 2.5  # how long answers are lost: longer than an application's patience with one call
JAVA: Final = "java"
KAFKAJS: Final = "kafkajs"
SARAMA: Final = "sarama"


class Program(ABC):
    """``how`` it does it: the name of its bug, or of the right way."""

    how: ClassVar = "right"

    @abstractmethod
    def command(self) -> tuple[list[str], Path]:
        """How it is started, and where. Raises NotHere."""

    def run(self, world: World, *topics: str, name: str = "") -> None:
        """To its end, with all orders. Raises NotHere, RuntimeError."""
        command, folder = self.command()
        ended = subprocess.run(
            [*command, world.bootstrap, *topics, name or world.name("orders"), self.how],
            input=b"\n".join(ORDERS),
            cwd=folder,
            capture_output=True,
            timeout=RUN_S_MAX,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr.decode(errors="replace")[-2000:])


def java(source: str) -> tuple[list[str], Path]:
    """How a program of one file is started. Raises NotHere."""
    return compiled([HERE / source], Path(source).stem)


class JavaOrders(Program):
    """Sends orders, each in a transaction; a commit that timed out is repeated."""

    def command(self) -> tuple[list[str], Path]:
        return java("Orders.java")


class TimeoutIsFailure(JavaOrders):
    """A TimeoutException of commitTransaction is taken for a failure, and the order is sent again."""

    how = "timeout-is-failure"


class JavaPlain(JavaOrders):
    """Sends orders without transactions; one that is refused is sent again."""

    how = "plain"


class NoResult(JavaOrders):
    """The Future of a send is not looked at."""

    how = "plain-no-result"


class JavaCopies(Program):
    """Copies a topic, each record in a transaction that has its offset; after an abort it reads again."""

    def command(self) -> tuple[list[str], Path]:
        return java("Copies.java")


class NoSeek(JavaCopies):
    """After abortTransaction the consumer goes on behind the record, without a seek."""

    how = "no-rewind"


class DefaultIsolation(JavaCopies):
    """The consumer has the default isolation.level, read_uncommitted."""

    how = "default-isolation"


class NodeOrders(Program):
    """Writes each order and its invoice in a transaction; one whose work fails is aborted and done again."""

    def command(self) -> tuple[list[str], Path]:
        return ["node", str(HERE / "orders.js")], installed_kafkajs()


class PlainProducer(NodeOrders):
    """Inside the transaction records are sent by another, plain producer."""

    how = "plain-producer"


class Catches(NodeOrders):
    """An exception is caught inside the transaction, which commits what was written before it."""

    how = "catches"


class GoOrders(Program):
    """Sends orders by an idempotent producer; one that is refused is sent again."""

    def command(self) -> tuple[list[str], Path]:
        return built("orders")


class NoResponse(GoOrders):
    """Nothing is acknowledged: RequiredAcks is NoResponse."""

    how = "no-acks"


class NotIdempotent(GoOrders):
    """The producer is not idempotent, and retries."""

    how = "not-idempotent"


class NotReturned(GoOrders):
    """Errors of an asynchronous producer are not returned: Return.Errors is false."""

    how = "not-returned"


class GoCommits(GoOrders):
    """Writes each order and its invoice in a transaction; one whose work fails is aborted and done again."""

    how = "commits"


class DeferredCommit(GoOrders):
    """The commit is deferred, and so commits what was written before an error, too."""

    how = "deferred-commit"


def answers_lost_for_a_while(world: World, kind: type[Program]) -> None:
    """Answers to commits are lost for a while; they were done."""
    topic, name = world.topic("orders"), world.name("orders")
    with world.cluster.faults.drop_answer("EndTxn", match={"transactional_id": name}) as lost:

        def end() -> None:
            lost.wait_fired(timeout_s=RUN_S_MAX)
            threading.Event().wait(LOST_S)
            lost.clear()

        ending = threading.Thread(target=end)
        ending.start()
        kind().run(world, topic, name=name)
        ending.join()
    world.check(ORDERS, topic)


def one_refused(world: World, kind: type[Program]) -> None:
    """One Produce is refused for good."""
    topic = world.topic("orders")
    with world.cluster.faults.fail("Produce", "MESSAGE_TOO_LARGE", match={"topic": topic}, times=1):
        kind().run(world, topic)
    world.check(ORDERS, topic)


def connection_lost(world: World, kind: type[Program]) -> None:
    """A connection ends with a Produce that was not done."""
    topic = world.topic("orders")
    with world.cluster.faults.disconnect("Produce", match={"topic": topic}, times=1):
        kind().run(world, topic)
    world.check(ORDERS, topic)


def answer_lost(world: World, kind: type[Program]) -> None:
    """The answer to a Produce is lost."""
    topic = world.topic("orders")
    with world.cluster.faults.drop_answer("Produce", match={"topic": topic}, times=1):
        kind().run(world, topic)
    world.check(ORDERS, topic)


def work_fails_once(world: World, kind: type[Program]) -> None:
    """The work of one order fails once."""
    topic = world.topic("orders")
    kind().run(world, topic)
    world.check([each for order in ORDERS for each in (order, order + b"-invoice")], topic)


def record_fails_once(world: World, kind: type[Program]) -> None:
    """One record's processing fails once."""
    source, sink = world.filled(), world.topic("out")
    kind().run(world, source, sink)
    world.check(ORDERS, sink)


def aborted_input(world: World, kind: type[Program]) -> None:
    """The input has an aborted transaction."""
    source, sink = filled_with_an_aborted(world), world.topic("out")
    kind().run(world, source, sink)
    world.check(ORDERS, sink)


OTHER_LANGUAGES: Final = (
    Case("java-timeout-is-failure", JAVA, TimeoutIsFailure, JavaOrders, answers_lost_for_a_while),
    Case("java-no-result", JAVA, NoResult, JavaPlain, one_refused),
    Case("java-no-seek", JAVA, NoSeek, JavaCopies, record_fails_once),
    Case("java-default-isolation", JAVA, DefaultIsolation, JavaCopies, aborted_input),
    Case("node-plain-producer", KAFKAJS, PlainProducer, NodeOrders, work_fails_once),
    Case("node-catches", KAFKAJS, Catches, NodeOrders, work_fails_once),
    Case("go-no-acks", SARAMA, NoResponse, GoOrders, connection_lost),
    Case("go-not-idempotent", SARAMA, NotIdempotent, GoOrders, answer_lost),
    Case("go-not-returned", SARAMA, NotReturned, GoOrders, one_refused),
    Case("go-deferred-commit", SARAMA, DeferredCommit, GoCommits, work_fails_once),
)
