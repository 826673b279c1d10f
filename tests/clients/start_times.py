"""``make bench-start``: from the start of a test's cluster to its first commit, beside franz-go's kfake.

Round     each subject once, every other round in the opposite order; each in a new process, which has
          imported what it measures, as a test run has when its first test begins.
Subjects  clusters of the kit with three nodes and with one, and the next one of three in the same process;
          kfake, three brokers in memory in one process of Go, which is started, not built, meanwhile.
Clock     from the start to the return of a commit, of a transaction of one record in a topic that the start
          makes; ``there``: to where a test may begin.
Client    librdkafka, which at times waits half a second for itself before it requests a producer id, whatever
          the cluster; or ``--client fencepost``.
Output    a table, then the same as one line of JSON.
Fetched   kfake by Go, into .clients, once. Without Go it is NOT RUN.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

import click
from confluent_kafka import Producer

from fencepost.client import Producer as OwnProducer
from fencepost.cluster.console import table
from fencepost.testing.cluster import Cluster
from tests.clients.go_programs import KFAKE, built
from tests.clients.players import NotHere

TOPIC: Final = "orders"
CALL_S_MAX: Final = 30.0
MEASURE_S_MAX: Final = 120.0
NEXT: Final = "kit, 3 nodes, the next one"


class Took(NamedTuple):
    """Seconds since a cluster was to start."""

    there: float
    committed: float


@contextlib.contextmanager
def kit(nodes: int) -> Iterator[str]:
    """The addresses of a cluster's brokers."""
    with Cluster(nodes, topics=[TOPIC]) as cluster:
        yield cluster.bootstrap


@contextlib.contextmanager
def kfake() -> Iterator[str]:
    """The addresses of its brokers. Raises NotHere."""
    command, folder = built(KFAKE)
    with subprocess.Popen(
        [*command, TOPIC], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=CALL_S_MAX)


SUBJECTS: Final[dict[str, Callable[[], AbstractContextManager[str]]]] = {
    "kit, 3 nodes": lambda: kit(3),
    NEXT: lambda: kit(3),
    "kit, 1 node": lambda: kit(1),
    "kfake, 3 brokers": kfake,
}


def measured(name: str, client: str) -> Took:
    """Of one start, in this process. Raises NotHere."""
    if name == NEXT:
        with kit(3):
            pass
    began = time.monotonic()
    with SUBJECTS[name]() as bootstrap:
        there = time.monotonic()
        CLIENTS[client](bootstrap)
        return Took(there - began, time.monotonic() - began)


def commit(bootstrap: str) -> None:
    """One record, in a transaction of a new producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"})
    producer.init_transactions(CALL_S_MAX)
    producer.begin_transaction()
    producer.produce(TOPIC, b"1")
    producer.commit_transaction(CALL_S_MAX)


def commit_by_own(bootstrap: str) -> None:
    """The same."""

    async def committed() -> None:
        async with OwnProducer(bootstrap, transactional_id="first") as producer, producer.transaction():
            await producer.send(TOPIC, b"1")

    asyncio.run(committed())


CLIENTS: Final = {"confluent": commit, "fencepost": commit_by_own}


def in_a_new_process(name: str, client: str) -> Took:
    """Raises RuntimeError, with what the process said."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.clients.start_times", "--once", name, "--client", client],
        capture_output=True,
        text=True,
        timeout=MEASURE_S_MAX,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{name}: {ended.stderr[-2000:]}")
    return Took(**json.loads(ended.stdout))


def summary(found: dict[str, list[Took]]) -> list[dict[str, object]]:
    """A row for each subject, in seconds."""
    rows: list[dict[str, object]] = []
    for name, of_name in found.items():
        committed = [each.committed for each in of_name]
        rows.append(
            {
                "subject": name,
                "runs": len(of_name),
                "there_s": round(statistics.median(each.there for each in of_name), 3),
                "committed_s": round(statistics.median(committed), 3),
                "committed_s_min": round(min(committed), 3),
                "committed_s_max": round(max(committed), 3),
            }
        )
    return rows


@click.command()
@click.option("--runs", default=20, show_default=True, help="Of each subject.")
@click.option("--client", type=click.Choice(list(CLIENTS)), default="confluent", show_default=True)
@click.option("--once", type=click.Choice(list(SUBJECTS)), help="One start, in this process.")
def main(runs: int, client: str, once: str | None) -> None:
    """Start each in turn, and print how long it took."""
    if once is not None:
        click.echo(json.dumps(measured(once, client)._asdict()))
        return
    names, missing = list(SUBJECTS), ""
    try:
        built(KFAKE)
    except NotHere as reason:
        missing = f"kfake: NOT RUN, {reason}"
        names.pop()
    found: dict[str, list[Took]] = {name: [] for name in names}
    for number in range(runs):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(in_a_new_process(name, client))
    rows = summary(found)
    head = ("CLUSTER", "RUNS", "THERE", "FIRST COMMIT (MEDIAN, S)", "FASTEST", "SLOWEST")
    click.echo(table(head, [list(row.values()) for row in rows]))
    if missing:
        click.echo(missing)
    click.echo(json.dumps(rows))


if __name__ == "__main__":
    main()
