"""What every case of the corpus has: a cluster with faults, fresh names, and crashes at named places."""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka

from fencepost.testing import RunningCluster, assert_exactly_once

WAIT_S: Final = 20.0
ORDERS: Final = [b"order-%d" % number for number in range(4)]
CRASH_AT: Final = 2  # the element at which an application crashes
_NUMBERS: Final = itertools.count(1)


class Crash(Exception):
    """The application's process dies here. Its clients are dropped, and nothing of it runs on."""


@dataclass
class World:
    """A cluster for one case."""

    cluster: RunningCluster
    crash_at: str | None = None
    _seen: dict[str, int] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """By the kit's proxies."""
        return self.cluster.bootstrap

    def name(self, stem: str) -> str:
        """One that no other case has."""
        return f"{stem}-{os.getpid()}-{next(_NUMBERS)}"

    def topic(self, stem: str, partitions: int = 1) -> str:
        """A new topic."""
        name = self.name(stem)
        self.cluster.create_topic(name, partitions=partitions)
        return name

    def filled(self, values: Sequence[bytes] = ORDERS, partitions: int = 1) -> str:
        """A topic with these records, over its partitions in turn."""
        topic = self.topic("in", partitions)
        producer: Any = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        for number, value in enumerate(values):
            producer.produce(topic, value, key=value, partition=number % partitions)
        assert producer.flush(WAIT_S) == 0
        return topic

    def at(self, place: str) -> None:
        """A place in an application. Raises Crash if it is to crash there, once."""
        self._seen[place] = self._seen.get(place, 0) + 1
        if self.crash_at == place and self._seen[place] == CRASH_AT:
            raise Crash(place)

    def crashing_at(self, place: str) -> "World":
        """The same cluster, and a crash to come."""
        return World(self.cluster, place)

    def check(self, into: Iterable[Any], topic: str) -> None:
        """Raises NotExactlyOnce."""
        assert_exactly_once(into, self.cluster.read(topic), transactions=self.cluster.transactions())


@dataclass(frozen=True)
class Case:
    """A known bug: ``test`` raises AssertionError with the wrong application, and not with the right one."""

    name: str
    library: str
    wrong: Any
    right: Any
    test: Callable[[World, Any], None]

    @property
    def bug(self) -> str:
        """The first line of the wrong application's docstring."""
        return str(self.wrong.__doc__).splitlines()[0]

    @property
    def way(self) -> str:
        """How the kit finds it: the first line of the test's docstring."""
        return str(self.test.__doc__).splitlines()[0]
