"""``fencepost explain`` on a broker of Apache Kafka: the commands that it prints end what it found.

Planted     by a raw Produce v11: the broker has ``transaction.partition.verification.enable=false``.
"""

import asyncio
import shlex
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from fencepost.client import Admin
from tests.clients import kafka_broker
from tests.clients.hanging import produce_hanging
from tests.clients.java_tools import TOOL_SECONDS_MAX, Scenario
from tests.clients.players import FETCHED, HERE, copied
from tests.clients.stories import WAIT_SECONDS_MAX, expect
from tests.harness.command import contents, in_process
from tests.harness.nodes import Nodes, wait_for
from tests.ports import free_port

VERSIONS: Final = (kafka_broker.VERSION, "3.9.1")
SETTINGS: Final = """\
transaction.partition.verification.enable=false
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
"""
STRANGER: Final = 1 << 40  # no coordinator's
TOPIC: Final = "kept-back-1"


def kafkas(version: str, _: Nodes) -> str:
    """A hanging transaction is ended by Kafka's command, another by ours; one under way likewise."""
    kafka_broker.fetch(version)
    jars = copied(HERE / "tools/pom.xml", FETCHED / "tools")
    with tempfile.TemporaryDirectory(prefix="fencepost-explained-") as home:
        broker = kafka_broker.Broker(
            Path(home), SETTINGS, node_id=1, port=free_port(), controllers={1: free_port()}, version=version
        )
        broker.start()
        try:
            _changes_nothing(broker)
            ended = [_hanging(broker, jars, tool) for tool in ("kafka-transactions.sh", "fencepost")]
            ended += [_under_way(broker, jars, tool) for tool in ("kafka-transactions.sh", "fencepost")]
        finally:
            broker.kill()
    return f"{len(ended)} commands, run as printed, ended what they were printed for"


def _changes_nothing(broker: kafka_broker.Broker) -> None:
    """A name that may be a transactional id: to look for its coordinator would create a topic."""
    _create(broker, "calm")
    _explain(broker, "calm-0", status=0)

    async def topics() -> set[str]:
        async with Admin(broker.bootstrap) as admin:
            return {*await admin.list_topics()}

    expect("topics", asyncio.run(topics()), {"calm"})


def _hanging(broker: kafka_broker.Broker, jars: Path, tool: str) -> str:
    topic = f"{TOPIC}-{tool.partition('-')[0]}"
    _create(broker, topic)
    start = produce_hanging(("127.0.0.1", broker.port), topic, producer_id=STRANGER)
    (partition,) = _explain(broker, f"{topic}-0", status=1)["partitions"]
    (held,) = partition["open"]
    expect(
        "found", (held["holding"], held["producer_id"], held["start_offset"]), ("hanging", STRANGER, start)
    )
    expect("stops at", (partition["last_stable_offset"], partition["high_watermark"]), (start, start + 1))
    by_producer = _explain(broker, STRANGER, status=1)
    expect("by its producer", [each["topic"] for each in by_producer["partitions"]], [topic])
    command = _run(held, jars, tool)
    expect("after it", _explain(broker, f"{topic}-0", status=0)["partitions"][0]["behind"], 0)
    return command


def _under_way(broker: kafka_broker.Broker, jars: Path, tool: str) -> str:
    name = f"under-way-{tool.partition('-')[0]}-7"
    topic = f"{name}-topic"
    _create(broker, topic)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(WAIT_SECONDS_MAX)
    found = _explain(broker, name, status=1)
    transaction = found["transaction"]
    expect("state", (transaction["state"], transaction["coordinator_id"]), ("Ongoing", 1))
    expect("due", transaction["due_ms"], transaction["started_ms"] + transaction["timeout_ms"])
    ((held,),) = (each["open"] for each in found["partitions"])
    expect("holding", (held["holding"], held["transaction"]), ("ongoing", transaction))
    command = _run(held, jars, tool)
    wait_for("its end", lambda: not _explain(broker, f"{topic}-0", status=None)["is_open"])
    return command


def _run(held: Any, jars: Path, tool: str) -> str:
    """As printed; Kafka's script is a JVM with its jars."""
    (command,) = [each["command"] for each in held["commands"] if each["tool"] == tool]
    program, *words = shlex.split(command)
    expect("program", program, tool)
    if tool == "fencepost":
        said = in_process(*words)
        expect("status", (said.status, said.stderr), (0, ""))
        return str(command)
    java = ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.TransactionsCommand", *words]
    ended = subprocess.run(java, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False)
    expect(f"status: {ended.stderr[-500:]}", ended.returncode, 0)
    return str(command)


def _explain(broker: kafka_broker.Broker, *words: object, status: int | None) -> Any:
    said = in_process("explain", *words, "--bootstrap-server", broker.bootstrap, "--format", "json")
    if status is not None:
        expect(f"explain {words}: {said.stderr}", said.status, status)
    return contents(said.stdout)


def _create(broker: kafka_broker.Broker, topic: str) -> None:
    async def create() -> None:
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topic(topic, partitions=1)

    asyncio.run(create())
    wait_for("its leader", lambda: in_process(
        "explain", "--topic-partition", f"{topic}-0", "--bootstrap-server", broker.bootstrap
    ).status == 0)  # fmt: skip


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    f"fencepost explain on Apache Kafka {version}: its commands end what it finds": (
        version,
        partial(kafkas, version),
    )
    for version in VERSIONS
}
