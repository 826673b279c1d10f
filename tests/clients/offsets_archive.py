"""The archived ``__consumer_offsets-0`` of a node, as Apache Kafka reads it: its dump tool, and a broker.

Cluster     of its own, three nodes, with groups of every shape (offsets_world.py) and a leader that died.
Dump tool   every batch is valid and every record decoded; Kafka's rules (kafka_offsets.py) on what it prints
            give the offsets that are committed and pending.
Broker      one KRaft node whose ``__consumer_offsets-0`` is replaced, while it is stopped, by the segments of
            the archive. What its group coordinator loads from them is compared by the wire with what ours
            answers: every group with its state, protocol and members, every offset, where a reader waits for
            a transaction; and ``kafka-consumer-groups`` on both, column for column.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.static.primitive import i8

from fencepost.records.types import Log
from fencepost.snapshots.archive import Archive
from tests.audit.kafka import broker
from tests.clients.dump_log import DUMP_SECONDS_MAX, TOOLS, Scenario, Tool
from tests.clients.group_tools import COORDINATOR, Tools
from tests.clients.offsets_seen import Offset, Seen, see
from tests.clients.offsets_world import CALL_SECONDS, CHECK, PARTITIONS, World, produce
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import Killed, expect
from tests.controller.groups.kafka_offsets import Committed, KafkaOffsets, Key
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.raw_client import RawClient

Expected = tuple[dict[Key, int], frozenset[Key]]
"""What is committed, and the partitions with a pending offset."""

TOPIC: Final = "archived"
LOADING: Final = "offsets.topic.num.partitions=1\nlog.cleaner.enable=false\n"
KEPT: Final = "partition.metadata"
CLEAN: Final = ".kafka_cleanshutdown"
SAME: Final = (
    ("--describe", "--all-groups", "--offsets", "--verbose"),
    ("--describe", "--all-groups", "--members", "--verbose"),
    ("--describe", "--all-groups", "--state", "--verbose"),
    ("--list", "--state", "--type"),
)


@contextmanager
def world(folder: Path) -> Iterator[tuple[Nodes, World]]:
    """A cluster with groups of every shape, which another leader goes on with."""
    with running(folder / "cluster", CHECK, NO_QUOTA) as cluster:
        made = World(cluster, TOPIC)
        try:
            Killed(cluster).restart()
            cluster.await_followed()
            yield cluster, made
        finally:
            made.close()


def live(cluster: Nodes, topic: str = TOPIC) -> Seen:
    """What the coordinator answers now; where a reader waits, of one topic."""
    return see(cluster.address(cluster.leader(), "client"), topic, range(PARTITIONS))


def archive(cluster: Nodes, node_id: int, folder: Path) -> Path:
    """A copy of a node's archive, once it has what the node applied."""
    home = cluster.home(node_id) / "archive"

    def is_whole() -> bool:
        (row,) = cluster.read("storage", "info", "--node", str(node_id))["nodes"]
        ends = [each.header.end for each in Archive.read_only(home, Log.CONSUMER_OFFSETS).read()]
        return bool(ends) and ends[-1] == row["log_ends"][Log.CONSUMER_OFFSETS.directory]

    wait_for(f"the archive of node {node_id} is written", is_whole)
    return Path(shutil.copytree(home / Log.CONSUMER_OFFSETS.directory, folder))


def expected_of(committed: Mapping[Key, Offset], waiting: frozenset[Key]) -> Expected:
    """Only the numbers."""
    return {key: each.offset for key, each in committed.items()}, waiting


def offsets_of(replayed: KafkaOffsets) -> tuple[dict[Key, tuple[int, int, str]], frozenset[Key]]:
    """Committed offsets, and the partitions with a pending one, as ``Seen`` has them."""
    committed = {
        key: (value.offset, value.leader_epoch, value.metadata)
        for key, (_, value) in replayed.committed.items()
    }
    return committed, frozenset(key for pending in replayed.pending.values() for key in pending)


# -- the dump tool ---------------------------------------------------------------------------------------

_BATCH: Final = re.compile(r"^baseOffset: \d+ .*producerId: (-?\d+) .*isControl: (\w+) .*isvalid: (\w+)$")
_RECORD: Final = re.compile(r"^\| offset: (\d+) .* key: (\{.*?\}\}) payload: (.*)$")
_MARKER: Final = re.compile(r"^\| offset: (\d+) .* endTxnMarker: (COMMIT|ABORT) ")


def dumped(tool: Tool, _cluster: Nodes) -> str:
    """The archives of all nodes. Raises NotHere, StoryFailed."""
    need("java", "mvn")
    jars = copied(HERE / tool.folder / "pom.xml", FETCHED / tool.folder)
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as (cluster, _):
        seen = live(cluster)
        count = 0
        for node_id in cluster.node_ids:
            copy = archive(cluster, node_id, Path(folder) / f"copy-{node_id}")
            replayed, read = _replayed(_dump(tool, jars, copy))
            expect(
                f"offsets in the dump of node {node_id}", offsets_of(replayed), (seen.committed, seen.waiting)
            )
            count += read
    return f"{count} records of 3 nodes; {len(seen.committed)} offsets committed, {len(seen.waiting)} pending"


def _dump(tool: Tool, jars: Path, directory: Path) -> str:
    files = ",".join(map(str, sorted(directory.glob("*.log"))))
    command = ["java", "-cp", f"{jars}/*", tool.main, "--offsets-decoder", "--files", files]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_SECONDS_MAX, check=False)
    expect("status of kafka-dump-log", ended.returncode, 0)
    return ended.stdout


def _replayed(dump: str) -> tuple[KafkaOffsets, int]:
    """Kafka's rules on what Kafka's tool decoded, and the number of records. Raises StoryFailed."""
    found, count = KafkaOffsets(), 0
    producer_id = -1
    for line in dump.splitlines():
        if batch := _BATCH.match(line):
            expect(line, batch[3], "true")
            producer_id = int(batch[1])
        elif marker := _MARKER.match(line):
            expect(line, int(marker[1]), count)
            found.end(producer_id, committed=marker[2] == "COMMIT")
            count += 1
        elif record := _RECORD.match(line):
            expect(line, int(record[1]), count)
            _take(found, count, json.loads(record[2]), record[3], producer_id)
            count += 1
        else:
            expect(
                "a line that is none of a batch", line.startswith(("Dumping ", "Log starting offset")), True
            )
    return found, count


def _take(found: KafkaOffsets, at: int, key: dict[str, Any], payload: str, producer_id: int) -> None:
    forgotten = payload == "<DELETE>"
    value = {} if forgotten else json.loads(payload)["data"]
    if key["type"] == "2":  # a group: its value was decoded
        return
    expect("type of a key", key["type"], "1")
    place = key["data"]["group"], key["data"]["topic"], int(key["data"]["partition"])
    committed = None
    if not forgotten:
        committed = Committed(
            value["offset"], value["leaderEpoch"], value["metadata"], value["commitTimestamp"]
        )
    found.take(at, place, committed, producer_id)


# -- a broker --------------------------------------------------------------------------------------------


def loaded(_cluster: Nodes) -> str:
    """By the group coordinator of Apache Kafka. Raises NotHere, StoryFailed."""
    tool = Tools()
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as (cluster, _):
        seen = live(cluster)
        ours = {words: tool.rows(cluster.bootstrap, *words, without=COORDINATOR) for words in SAME}
        copy = archive(cluster, cluster.leader(), Path(folder) / "copy")
        with broker.running(Path(folder) / "kafka", LOADING) as kafka:
            _prepare(kafka)
            kafka.stop()
            _replace(kafka.logs / Log.CONSUMER_OFFSETS.directory, copy)
            (kafka.logs / CLEAN).unlink()
            kafka.start()
            found = wait_for("the broker has loaded the groups", partial(_loaded, kafka))
            expect("groups", found.groups, seen.groups)
            expect("committed offsets", found.committed, seen.committed)
            expect("where a reader waits", found.waiting, seen.waiting)
            for words in SAME:
                theirs = tool.rows(kafka.bootstrap, *words, without=COORDINATOR)
                expect(" ".join(words), theirs, ours[words])
    count = sum(len(rows) for rows in ours.values())
    return f"{len(seen.groups)} groups, {len(seen.committed)} offsets; {count} rows of kafka-consumer-groups"


def _prepare(kafka: broker.Broker) -> None:
    """The topic with its records, and ``__consumer_offsets`` with one partition."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    (created,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    created.result(CALL_SECONDS)
    produce(kafka.bootstrap, TOPIC)
    log = kafka.logs / Log.CONSUMER_OFFSETS.directory
    with RawClient(("127.0.0.1", kafka.port)) as client:
        request = FindCoordinatorRequest(key="any", key_type=i8(0))  # which makes the topic
        wait_for("the broker coordinates", lambda: int(client.call(request).error_code) == 0)
    wait_for("the log is there", (log / KEPT).exists)


def _replace(log: Path, copy: Path) -> None:
    """The segments of a log. Kafka builds its indexes and its producers' state again."""
    for file in log.iterdir():
        if file.name != KEPT:
            file.unlink()
    for segment in copy.glob("*.log"):
        shutil.copyfile(segment, log / segment.name)


def _loaded(kafka: broker.Broker) -> Seen | None:
    """None while the coordinator loads: 14, 15 or 16."""
    try:
        return see(("127.0.0.1", kafka.port), TOPIC, range(PARTITIONS))
    except AssertionError:
        return None


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    **{
        f"kafka-dump-log {tool.version[:3]}: the archived offsets of a cluster": (
            tool.version,
            partial(dumped, tool),
        )
        for tool in TOOLS
    },
    "Kafka's broker: loads the archived offsets of a cluster": (broker.VERSION, loaded),
}
