"""Kafka's own ``kafka-consumer-groups`` and ``kafka-get-offsets``, and our commands, on one cluster.

Compared    every column of every row, on groups that are stable, empty, in a rebalance, with pending offsets
            only, of a topic of many partitions; all scenarios of a reset, by the one tool and by the other;
            what the one exports is read by the other; what the one deletes or refuses, the other does.
Apart       the coordinator's column: one space there, two here. Texts of errors, and exit statuses: Kafka's
            tool prints an error and ends with 0, our commands end with 1.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.clients.dump_log import Scenario
from tests.clients.group_tools import Rows, Said, Tools, in_order, table_of
from tests.clients.java_tools import VERSION
from tests.clients.offsets_archive import world
from tests.clients.offsets_world import World
from tests.clients.stories import expect
from tests.harness.command import contents
from tests.harness.nodes import Nodes, wait_for

WIDE: Final = 1_500  # partitions
MOVING: Final = "moving"  # a group in a rebalance
NOWHERE: Final = "nowhere"  # a group that is not there
DESCRIBED: Final = (
    ("--all-groups",),
    ("--all-groups", "--offsets", "--verbose"),
    ("--all-groups", "--members"),
    ("--all-groups", "--members", "--verbose"),
    ("--all-groups", "--state"),
    ("--all-groups", "--state", "--verbose"),
    ("--group", "archived-joined", "--group", "archived-open", "--verbose"),
    ("--group", MOVING, "--members"),
    ("--group", "wide"),
)
LISTED: Final = (
    ("--state", "--type"),
    ("--state", "STABLE,preparingRebalance", "--type", "classic"),
    ("--state", "Empty", "--type", "consumer"),
)
SCENARIOS_OF_RESET: Final = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "5"),
    ("--to-offset", "5000"),
    ("--shift-by", "2"),
    ("--shift-by", "-100"),
    ("--to-datetime", "2001-02-03T04:05:06.789"),
    ("--to-datetime", "2001-02-03T04:05:06.789+02:00"),
    ("--by-duration", "PT1H30M"),
    ("--by-duration", "P1DT2H"),
)
OFFSETS: Final = (
    (),
    ("--exclude-internal-topics",),
    ("--topic", "archived"),
    ("--topic", "arch.*,wide", "--partitions", "0,2,1499"),
    ("--topic-partitions", "archived:1,wide:3-5,:2,wi.*:1498-,arch.*:-1"),
    *(
        ("--topic", "archived", "--time", each)
        for each in ("earliest", "-2", "latest", "-1", "max-timestamp")
    ),
    *(("--topic", "archived", "--time", each) for each in ("-3", "earliest-local", "latest-tiered", "0")),
)


def same_answers(_cluster: Nodes) -> str:
    """On a cluster of its own. Raises NotHere, StoryFailed."""
    tools = Tools()
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as (cluster, made):
        commit_all(cluster.bootstrap, "wide", make(cluster, "wide", WIDE))
        both = Both(tools, cluster, Path(folder))
        with rebalancing(cluster, made.name):
            count = both.look()
        count += both.reset(made)
        count += both.files(made)
        count += both.delete(made)
        count += both.offsets()
    return f"{count} rows are the same; what one resets, exports, deletes or refuses, so does the other"


class Both:
    """Kafka's tools and our commands on one cluster."""

    def __init__(self, tools: Tools, cluster: Nodes, folder: Path) -> None:
        self._tools = tools
        self._cluster = cluster
        self._folder = folder

    def look(self) -> int:
        """``--describe`` and ``--list``; a group that is not there."""
        count = 0
        for words in DESCRIBED:
            count += self._same(("--describe", *words), ("describe", *words))
        for filters in LISTED:
            count += self._same(("--list", *filters), ("list", *filters), apart={"protocol"})
        ids = self._theirs("--list").stdout.split()
        expect("ids", sorted(ids), [row["group"] for row in self._ours("list")])
        (moving,) = self._ours("describe", "--group", MOVING, "--state")
        expect(f"state of {MOVING}", moving["state"], "PreparingRebalance")
        self._refused(("--describe", "--group", NOWHERE), ("describe", "--group", NOWHERE), "not found")
        return count

    def reset(self, made: World) -> int:
        """Each scenario is planned by both; one is done by Kafka's tool, one by ours, with one result."""
        group, count = made.group("plain"), 0
        self._reset_ours("--group", group, "--all-topics", "--to-offset", "4", "--execute")
        for scenario in SCENARIOS_OF_RESET:
            words = ("--group", group, *scenario, "--dry-run")
            count += self._reset_same(*words, "--all-topics")
        count += self._reset_same(*words, "--topic", f"{made.name}:1,0")
        results = []
        for execute, begin in ((self._reset_theirs, "1"), (self._reset_ours, "3")):
            self._reset_ours("--group", group, "--all-topics", "--to-offset", begin, "--execute")
            words = ("--group", group, "--topic", made.name, "--to-offset", "2", "--execute")
            results.append((execute(*words), self._ours("describe", "--group", group)))
        expect("after a reset", *results)
        to_all = ("--topic", made.name, "--to-latest")
        for name in (NOWHERE, made.group("left")):
            words = ("--group", name, *to_all)
            count += self._reset_same(*words)
        refused = ("--group", made.group("joined"), *to_all, "--execute")
        self._refused(
            ("--reset-offsets", *refused), ("reset-offsets", *refused), "is Stable", "state is Stable"
        )
        two = ("--group", made.group("joined"), "--group", group, *to_all, "--dry-run")
        expect(
            "one of two groups is reset",
            in_order(table_of(self._theirs("--reset-offsets", *two).stdout)),
            self._ours("reset-offsets", *two, status=1),
        )
        return count

    def files(self, made: World) -> int:
        """``--export`` of the one is ``--from-file`` of the other."""
        group, count = ("--group", made.group("plain")), 0
        several = (*group, "--group", made.group("left"))
        for groups in (group, several):
            words = (*groups, "--topic", made.name, "--to-offset", "2", "--export", "--dry-run")
            theirs = self._theirs("--reset-offsets", *words).stdout
            ours = self._cluster.run("groups", "reset-offsets", *words)
            expect("export", sorted(theirs.split()), sorted(ours.split()))
            for number, text in enumerate((theirs.strip() + "\n", ours)):
                file = self._folder / f"plan-{len(groups)}-{number}.csv"
                file.write_text(text, "utf-8")
                count += self._reset_same(*groups, "--from-file", file, "--dry-run")
        file.write_text(f"{made.name},0,77\n{made.name},1,0\n", "utf-8")
        beyond = (*group, "--from-file", file)
        count += self._reset_same(*beyond)
        self._reset_theirs(*beyond, "--execute")
        described = self._ours("describe", *group)
        self._reset_ours(*beyond, "--execute")
        expect("after both", self._ours("describe", *group), described)
        return count

    def delete(self, made: World) -> int:
        """Offsets and groups, one of each for either tool."""
        busy = ("--group", made.group("joined"), "--topic", made.name)
        unknown = ("--group", made.group("forgotten"), "--topic", "none", "--topic", f"{made.name}:1")
        count = 0
        for words, group in ((busy, None), (unknown, "forgotten")):
            theirs = _outcomes(table_of(self._theirs("--delete-offsets", *words).stdout))
            if group is not None:
                commit_all(self._cluster.bootstrap, made.group(group), [TopicPartition(made.name, 1, 2)])
            ours = _outcomes(self._ours("delete-offsets", *words, status=1))
            expect(" ".join(words), ours, theirs)
            count += len(ours)
        self._refused(("--delete", *busy[:2]), ("delete", *busy[:2]), "NON_EMPTY_GROUP", "not empty")
        gone = ("--group", NOWHERE)
        self._refused(("--delete", *gone), ("delete", *gone), "GROUP_ID_NOT_FOUND", "does not exist")
        both = ("--group", made.group("committed"), "--group", made.group("aborted"))
        said = self._theirs("--delete", *both).stdout
        expect(said, "was successful" in said, True)
        commit_all(self._cluster.bootstrap, made.group("aborted"), [TopicPartition(made.name, 0, 2)])
        (row,) = self._ours("delete", *both[2:])
        expect("deleted", row["status"], "Successful")
        listed = {row["group"] for row in self._ours("list")}
        expect("groups left", listed & {*both[1::2]}, set())
        return count

    def offsets(self) -> int:
        """``kafka-get-offsets``."""
        count = 0
        for words in OFFSETS:
            theirs = self._tools.offsets(self._cluster.bootstrap, *words)
            ours = self._cluster.run("get-offsets", *words)
            expect(f"status of {words}", theirs.status, 0)
            expect(f"get-offsets {' '.join(words)}", sorted(theirs.stdout.split()), sorted(ours.split()))
            count += len(ours.split())
        none = ("--topic", "none")
        expect("status", self._tools.offsets(self._cluster.bootstrap, *none).status, 1)
        self._cluster.run("get-offsets", *none, status=1)
        return count

    def _theirs(self, *words: object) -> Said:
        return self._tools.groups(self._cluster.bootstrap, *words)

    def _ours(self, *words: object, status: int = 0) -> Rows:
        rows = contents(self._cluster.run("groups", *words, "--format", "json", status=status))
        return in_order([{name: _printed(name, value) for name, value in row.items()} for row in rows])

    def _same(self, theirs: tuple[object, ...], ours: tuple[object, ...], apart: Any = ()) -> int:
        said = self._theirs(*theirs)
        expect(f"status of {theirs}", (said.status, "Error: " in said.stdout), (0, False))
        rows = [{name: row[name] for name in row if name not in apart} for row in self._ours(*ours)]
        found = table_of(said.stdout)
        _without_instances(found, rows)
        expect(" ".join(map(str, ours)), in_order(rows), in_order(found))
        return len(rows)

    def _reset_same(self, *words: object) -> int:
        return self._same(("--reset-offsets", *words), ("reset-offsets", *words))

    def _reset_theirs(self, *words: object) -> Rows:
        said = self._theirs("--reset-offsets", *words)
        expect(f"{words}", (said.status, "Error: " in said.stdout), (0, False))
        return in_order(table_of(said.stdout))

    def _reset_ours(self, *words: object) -> Rows:
        return self._ours("reset-offsets", *words)

    def _refused(
        self, theirs: tuple[object, ...], ours: tuple[object, ...], text: str, said: str | None = None
    ) -> None:
        stdout = self._theirs(*theirs).stdout
        expect(f"{theirs}: {stdout}", (said or text) in stdout, True)
        self._cluster.run("groups", *ours, status=1)


def _printed(name: str, value: object) -> str:
    """As Kafka's tool prints it."""
    return "-" if value is None else str(value)


def _without_instances(theirs: Rows, ours: Rows) -> None:
    """Kafka's tool has the column only where a group has a static member; it is empty then, not ``-``."""
    for row in theirs:
        row.setdefault("group_instance_id", "")
    for row in ours:
        row["group_instance_id"] = row.get("group_instance_id", "").replace("-", "")


def _outcomes(rows: Rows) -> list[tuple[str, str, bool]]:
    """Topic, partition, and whether it was deleted."""
    return sorted((row["topic"], row["partition"], row["status"] == "Successful") for row in rows)


def make(cluster: Nodes, topic: str, partitions: int) -> list[TopicPartition]:
    """A topic without records; an offset of each partition."""
    cluster.run("topics", "create", "--topic", topic, "--partitions", partitions)
    return [TopicPartition(topic, each, each % 7) for each in range(partitions)]


def commit_all(bootstrap: str, group_id: str, offsets: list[TopicPartition]) -> None:
    """By a consumer that is no member."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0}
    reader: Any = confluent_kafka.Consumer(settings)
    reader.commit(offsets=offsets, asynchronous=False)
    reader.close()


@contextmanager
def rebalancing(cluster: Nodes, topic: str) -> Iterator[None]:
    """The first of two members does not poll: the group waits for it."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": MOVING, "log_level": 0}
    first: Any = confluent_kafka.Consumer({**settings, "client.id": "first"})
    second: Any = confluent_kafka.Consumer({**settings, "client.id": "second"})
    try:
        first.subscribe([topic])
        wait_for("the first member has partitions", lambda: first.poll(0.1) or first.assignment())
        second.subscribe([topic])

        def moves() -> bool:
            second.poll(0.1)
            (row,) = cluster.read("groups", "describe", "--group", MOVING, "--state")
            return bool(row["state"] == "PreparingRebalance")

        wait_for("the group is in a rebalance", moves)
        yield
    finally:
        first.close()
        second.close()


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-consumer-groups and kafka-get-offsets: the answers of our commands": (VERSION, same_answers),
}
