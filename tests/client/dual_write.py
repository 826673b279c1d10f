"""``python -m tests.client.dual_write --kills N``: examples/dual_write killed at every step, N times in all.

A process of the example is ended by SIGKILL between two of its steps, at each step in turn and after a random
number of orders, and started again. At the end every row has its record and every record its row.
"""

import asyncio
import importlib.util
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

import click

from fencepost.client import Consumer, Producer, TopicPartition
from tests.harness.nodes import running

EXAMPLE = Path(__file__).parents[2] / "examples" / "dual_write" / "dual_write.py"
STEPS = ("begun", "initialized", "recovered", "sent", "prepared", "stored", "completed")
TWO_PHASE = "transaction.two.phase.commit.enable=true"
PROCESS_SECONDS_MAX = 60


def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("dual_write_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(bootstrap: str, topic: str, path: str, rows: int, step: str, count: int) -> None:
    """The example in this process, which ends itself when it comes to ``step`` for the ``count``-th time."""
    left = count

    def at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(example().write_orders(bootstrap, topic, path, rows, at))


def kill_at_every_step(bootstrap: str, topic: str, path: str, kills: int, rng: random.Random) -> int:
    """Returns how many orders there are after ``kills`` processes were killed and one ended by itself."""
    for number in range(kills):
        step = STEPS[number % len(STEPS)]
        once = STEPS.index(step) < STEPS.index("sent")
        status = _process(bootstrap, topic, path, 1_000_000, step, 1 if once else rng.randint(1, 3))
        assert status == -signal.SIGKILL, f"the process ended by {status} at {step}"
    rows = _rows(path) + 2
    assert _process(bootstrap, topic, path, rows, "", 0) == 0
    return rows


def _process(*arguments: object) -> int:
    command = [sys.executable, "-m", "tests.client.dual_write", "--play", *map(str, arguments)]
    return subprocess.run(command, timeout=PROCESS_SECONDS_MAX, check=False).returncode


def _rows(path: str) -> int:
    with sqlite3.connect(path) as database:
        try:
            return int(database.execute("SELECT COUNT(*) FROM orders").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


async def differences(bootstrap: str, topic: str, path: str) -> set[int]:
    """Orders that are in one of both alone; twice in the topic is an AssertionError."""
    records: list[int] = []
    async with Producer(bootstrap) as producer:
        partitions = [TopicPartition(topic, each) for each in await producer.partitions_for(topic)]
    async with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while [await consumer.position(each) for each in ends] != list(ends.values()):
            records += [int(each.key or b"0") for each in await consumer.poll(timeout_ms=200)]
    with sqlite3.connect(path) as database:
        rows = {row[0] for row in database.execute("SELECT id FROM orders")}
    assert len(records) == len(set(records))
    return rows ^ set(records)


@click.command()
@click.option("--kills", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--play", "played", nargs=6, type=str, default=None, hidden=True)
def main(kills: int, seed: int, played: tuple[str, ...] | None) -> None:
    """Kill the dual write at every step, and compare the database with the topic."""
    if played is not None:
        bootstrap, topic, path, rows, step, count = played
        play(bootstrap, topic, path, int(rows), step, int(count))
        return
    with tempfile.TemporaryDirectory(prefix="fencepost-dual-write-") as folder:
        path = str(Path(folder) / "orders.sqlite")
        with running(Path(folder) / "cluster", TWO_PHASE) as nodes:
            began = time.monotonic()
            orders = kill_at_every_step(nodes.bootstrap, "orders", path, kills, random.Random(seed))
            found = asyncio.run(differences(nodes.bootstrap, "orders", path))
            took_s = time.monotonic() - began
    click.echo(f"{kills} kills, {orders} orders, {len(found)} of one kind alone, {took_s:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
