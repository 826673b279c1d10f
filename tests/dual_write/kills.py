"""Runs of the dual write, each with one kill; and what is in the database or in the topic alone afterwards.

Victims    the application, the database, the coordinator of its transactions (the leader), a broker that is
           not the coordinator. What is dead is started again while the application runs, or before the next.
Survives   a run whose application is not killed: the client goes on when a node has died. A database that
           dies may end it, with an error of the database.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from sqlalchemy import select

from fencepost.client import Consumer, TopicPartition
from tests.dual_write.databases import Database
from tests.dual_write.player import KILL, STEPS, example
from tests.harness.nodes import Nodes

APPLICATION, DATABASE, COORDINATOR, BROKER = "application", "database", "coordinator", "broker"
VICTIMS: Final = (APPLICATION, DATABASE, COORDINATOR, BROKER)
PROCESS_SECONDS_MAX: Final = 180
DEAD_SECONDS_MAX: Final = 0.5
ROWS_AFTER: Final = 2  # orders that a run still writes after its kill, if it survives
REPEATED: Final = STEPS[STEPS.index("sent") :]  # a step of each order


def _nothing(text: str) -> None:
    """Show nothing."""


class Killer:
    """Runs of the example against one cluster and one database."""

    def __init__(self, nodes: Nodes, database: Database, topic: str, rng: random.Random) -> None:
        self._nodes = nodes
        self._database = database
        self._topic = topic
        self._rng = rng
        self.killed: Counter[tuple[str, str]] = Counter()  # victim and step

    def run(
        self, kills: int, victims: tuple[str, ...] = VICTIMS, show: Callable[[str], None] = _nothing
    ) -> None:
        """So many runs: each victim at each step in turn. Then one without a kill."""
        for number in range(kills):
            step = STEPS[number % len(STEPS)]
            victim = victims[number // len(STEPS) % len(victims)]
            show(f"kill {number + 1} of {kills}: {victim}, at {step}")
            self._run(victim, step)
        assert self._end(self._started("", 0, ROWS_AFTER)) == 0

    def differences(self) -> set[int]:
        """Orders that are in the database or in the topic alone. One that is there twice fails."""
        return asyncio.run(_differences(self._nodes.bootstrap, self._topic, self._database.url))

    def _run(self, victim: str, step: str) -> None:
        count = self._rng.randint(1, 3) if step in REPEATED else 1
        process = self._started(step, count, count + ROWS_AFTER)
        try:
            self._kill_at(victim, step, process)
        finally:
            if process.poll() is None:  # the run was interrupted
                process.kill()
                process.wait()

    def _kill_at(self, victim: str, step: str, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        assert said == KILL, f"the application ended before {step}: status {self._end(process)}"
        self.killed[victim, step] += 1
        if victim == APPLICATION:
            process.kill()
            assert self._end(process) < 0
            return
        self._kill(victim, process)
        status = self._end(process)
        assert status == 0 or victim == DATABASE, f"{victim} died at {step}: status {status}"

    def _kill(self, victim: str, process: "subprocess.Popen[str]") -> None:
        """Kill, let the application go on, and start again what is dead."""
        dead = None
        if victim == DATABASE:
            self._database.kill()
        else:
            leader = self._nodes.leader()
            others = [each for each in self._nodes.node_ids if each != leader]
            dead = leader if victim == COORDINATOR else self._rng.choice(others)
            self._nodes.kill(dead)
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        time.sleep(self._rng.uniform(0, DEAD_SECONDS_MAX))
        if dead is None:
            self._database.start()
        else:
            self._nodes.start(dead)

    def _started(self, step: str, count: int, rows: int) -> "subprocess.Popen[str]":
        words = (self._nodes.bootstrap, self._topic, self._database.url, rows, step, count)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.dual_write.player", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if step else None,  # a database that is gone is no news
            text=True,
        )

    def _end(self, process: "subprocess.Popen[str]") -> int:
        process.communicate(timeout=PROCESS_SECONDS_MAX)
        return process.returncode


async def _differences(bootstrap: str, topic: str, url: str) -> set[int]:
    records: list[int] = []
    async with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, each) for each in await consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while [await consumer.position(each) for each in ends] != list(ends.values()):
            records += [int(each.key or b"0") for each in await consumer.poll(timeout_ms=200)]
    assert len(records) == len(set(records))
    module = example()
    database = module.open_database(url)
    with database.connect() as connection:
        rows = set(connection.scalars(select(module.ORDERS.c.id)))
    database.dispose()
    found: set[int] = rows ^ set(records)
    return found
