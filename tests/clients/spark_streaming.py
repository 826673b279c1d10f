"""Spark Structured Streaming with its Kafka connector: a topic with transactions is read once, and written.

Source     a million records (or ``SPARK_RECORDS``) in transactions, every seventh of which is aborted, read
           with read_committed, in two lives of the query: the second goes on from the checkpoint.
Sinks      Parquet, by which each record is counted; and a topic, which Spark writes at least once.
Fetched    the connector by Maven into .clients, once; PySpark is the extra ``spark``.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from tests.clients.players import FETCHED, HERE, NotHere, copied, need
from tests.clients.stories import StoryFailed
from tests.harness.nodes import Nodes

NAME: Final = "spark"
VERSION: Final = "4.2.0"  # of the connector: the newest that is published
RECORDS: Final = int(os.environ.get("SPARK_RECORDS", "1000000"))
PER_TRANSACTION: Final = 5_000
ABORTED_EVERY: Final = 7
PARTITIONS: Final = 3
CALL_S_MAX: Final = 60.0
LIFE_S_MAX: Final = 400.0
SOURCE, TARGET = "spark-in", "spark-out"


def read_once(cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    need("mvn")
    if find_spec("pyspark") is None:
        raise NotHere("PySpark is not installed: the extra spark")
    jars = copied(HERE / "spark/pom.xml", FETCHED / "spark")
    for topic in (SOURCE, TARGET):
        cluster.run("topics", "create", "--topic", topic, "--partitions", PARTITIONS)
    committed = _fill(cluster.bootstrap)
    folder = logs / "spark"
    folder.mkdir()
    for life in ("half", "rest"):
        command = [
            sys.executable,
            "-m",
            "tests.clients.spark_query",
            cluster.bootstrap,
            str(jars),
            str(folder),
            life,
        ]
        with (folder / f"{life}.txt").open("wb") as out:
            ended = subprocess.run(command, stdout=out, stderr=out, timeout=LIFE_S_MAX, check=False)
        if ended.returncode:
            raise StoryFailed(f"the query's {life} ended with {ended.returncode}, see {folder}/{life}.txt")
    said = (folder / "rest.txt").read_text("utf-8", "replace")
    (counted,) = [line for line in said.splitlines() if line.startswith("counted ")]
    expected = f"counted {committed} distinct {committed} written {committed} lives 2"
    if counted != expected:
        raise StoryFailed(f"{counted}; expected {expected}")
    return (
        f"{committed} committed records of {RECORDS}, each once, by two lives of a query; as many in a topic"
    )


def _fill(bootstrap: str) -> int:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "transactional.id": "spark-fill",
        "queue.buffering.max.messages": 2 * PER_TRANSACTION,
        "linger.ms": 5,
    }
    producer = Producer(settings)
    producer.init_transactions(CALL_S_MAX)
    committed = 0
    for number, first in enumerate(range(0, RECORDS, PER_TRANSACTION), start=1):
        values = range(first, min(first + PER_TRANSACTION, RECORDS))
        producer.begin_transaction()
        for value in values:
            producer.produce(SOURCE, str(value).encode(), partition=value % PARTITIONS)
            producer.poll(0)
        if number % ABORTED_EVERY:
            producer.commit_transaction(CALL_S_MAX)
            committed += len(values)
        else:
            producer.flush(CALL_S_MAX)
            producer.abort_transaction(CALL_S_MAX)
    return committed


SCENARIOS: Final = {"a topic with transactions is read once by two lives of a query": read_once}
