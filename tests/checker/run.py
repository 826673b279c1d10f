"""A run: processes on a cluster, trouble for some time, then what the logs hold at the end."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.checker.evidence import Event, Input, Outcome, Partition, events_of, evidence_of, output_of
from tests.checker.feature_changes import FeatureChanges
from tests.checker.findings import Finding, find
from tests.checker.history import History, Tail
from tests.checker.node_faults import NodeKills
from tests.checker.reading import ASKS_MAX, NotRead, begin_at_zero, committed, consumer, read_to_end
from tests.checker.settings import CONFLUENT, FENCEPOST, MIXED, OUTPUT, Part
from tests.checker.slots import Slots, ended, start
from tests.harness.nodes import Nodes

LOOK_SECONDS: Final = 0.1
READ_SECONDS_MAX: Final = 60.0
DRAIN_SECONDS_MAX: Final = 120.0
TOPIC_SECONDS_MAX: Final = 30.0
ROWS_MAX: Final = 1_000  # of one line of the history
READERS: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen. Each group has an input topic of its own; those of odd numbers are transactional."""

    seconds: float = 600.0
    seed: int = 1
    kill_every: float = 4.0
    trouble_every: float = 3.0
    groups: int = 2
    applications: int = 3
    partitions: int = 6
    output_partitions: int = 6
    records_per_second: float = 60.0
    strategy: str = "range"
    with_groups: bool = True
    static_members: bool = False
    plant: str | None = None
    client: str = CONFLUENT  # or MIXED: of each group's applications every other one
    feature_every: float = 0.0  # seconds; transaction.version is 0, then 2 again


class Run:
    """One run; its history is in ``folder``."""

    def __init__(self, plan: Plan, bootstrap: str, folder: Path) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._folder = folder
        self._random = random.Random(plan.seed)
        self._history = History(folder, "run")
        self._tail = Tail(folder)
        self._nodes: Nodes | None = None
        self._ends = 0
        self._committed_at = 0.0
        self._findings: list[Finding] = []
        self._topics = {
            f"checker-input-{each}": [(f"checker-input-{each}", place) for place in range(plan.partitions)]
            for each in range(plan.groups)
        }

    def go(self, nodes: Nodes | None) -> list[Finding]:
        """All of it; the findings of the analysis behind those of the way."""
        self._nodes = nodes
        self._history.write("run_began", plan=repr(self._plan))
        self._make_topics()
        for group, partitions in self._groups():
            begin_at_zero(self._bootstrap, group, partitions)
        slots = Slots(self._applications(), self._random.randrange(2**32), self._history)
        watchers = [start(each, "watcher") for each in self._watchers()]
        sources = [start(each, "source") for each in self._sources()]
        try:
            self._trouble(slots, nodes)
            self._drain(slots, sources)
        except NotRead as failed:
            self._findings.append(Finding("stuck", str(failed)))
        finally:
            ended(sources)
            killed = slots.end()
            ended(watchers)
        if killed:
            self._findings.append(Finding("stuck", f"applications {killed} did not end"))
        self._write_logs()
        return [*self._findings, *find(evidence_of(events_of(self._folder)))]

    def _trouble(self, slots: Slots, nodes: Nodes | None) -> None:
        plan = self._plan
        faults = (
            NodeKills(nodes, self._history, plan.seed, plan.kill_every, lambda: self._committed_at)
            if nodes is not None and plan.kill_every
            else None
        )
        over = time.monotonic() + plan.seconds
        next_trouble = time.monotonic() + plan.trouble_every
        versions = FeatureChanges(nodes, self._history, plan.feature_every)
        with faults or nullcontext(), versions:
            while time.monotonic() < over:
                slots.tend()
                self._count()
                if plan.trouble_every and time.monotonic() >= next_trouble:
                    slots.trouble()
                    next_trouble += self._random.uniform(0.5, 1.5) * plan.trouble_every
                time.sleep(LOOK_SECONDS)
        if faults is not None:
            self._findings += faults.findings()
        self._findings += versions.findings

    def _drain(self, slots: Slots, sources: list[Popen[bytes]]) -> None:
        """No trouble any more: every input gets its output."""
        ended(sources)
        slots.wake()
        inputs = set(self._inputs())
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while True:
            before = self._ends
            slots.tend()
            time.sleep(10 * LOOK_SECONDS)
            self._count()
            if self._ends > before:
                continue
            left = len(inputs - {output_of(*each).source for each in self._outputs()})
            if not left:
                return
            if time.monotonic() > deadline:
                facts = f"{left} inputs have no output {DRAIN_SECONDS_MAX:.0f} s after the last trouble"
                self._findings.append(Finding("stuck", facts))
                return

    def _count(self) -> None:
        for event in self._tail.new():
            if event["event"] == "call_hung":
                self._history.write("nodes_seen", of=event["application"], rows=self._seen(event))
            if event["event"] == "transaction_ended":
                self._ends += 1
                if event["outcome"] == Outcome.COMMITTED:
                    self._committed_at = max(self._committed_at, event["at"])

    def _seen(self, event: Event) -> list[Any]:
        """What the nodes have parked, and what the coordinator knows of the hung transaction and group."""
        if self._nodes is None:
            return []
        rows: list[Any] = []
        for node_id in self._nodes.node_ids:
            try:
                metrics = self._nodes.metrics(node_id)
            except OSError as failed:
                rows.append(f"node {node_id}: {failed}")
                continue
            rows.append([node_id, {name: value for name, value in metrics.items() if "_bucket{" not in name}])
        commands: list[tuple[str, ...]] = [
            ("transactions", "describe", "--transactional-id", event["transactional_id"])
        ]
        if event["group"] is not None:
            commands.append(("groups", "describe", "--group", event["group"], "--members"))
        for command in commands:
            try:
                rows.append(self._nodes.run(*command, "--format", "json"))
            except AssertionError as failed:
                rows.append(str(failed))
        return rows

    # -- the logs at the end -----------------------------------------------------------------------------

    def _write_logs(self) -> None:
        try:
            self._write_rows(
                "inputs_read", "inputs", [(*i.partition, i.offset, i.number) for i in self._inputs()]
            )
            self._write_rows("outputs_read", "outputs", list(self._outputs()))
            for group, partitions in self._groups():
                self._history.write("offsets_at_end", group=group, offsets=self._committed(group, partitions))
        except NotRead as failed:
            self._findings.append(Finding("stuck", str(failed)))

    def _write_rows(self, event: str, name: str, rows: list[Any]) -> None:
        for first in range(0, len(rows), ROWS_MAX):
            self._history.write(event, **{name: rows[first : first + ROWS_MAX]})

    def _inputs(self) -> Iterator[Input]:
        for topic, partitions in self._topics.items():
            places = [place for _, place in partitions]
            for place, offset, value in self._read(topic, places):
                yield Input(Partition(topic, place), offset, int(value))

    def _outputs(self) -> Iterator[tuple[int, int, Any]]:
        for place, offset, value in self._read(OUTPUT, list(range(self._plan.output_partitions))):
            yield place, offset, json.loads(value)

    def _read(self, topic: str, places: list[int]) -> Iterator[tuple[int, int, bytes]]:
        return read_to_end(self._bootstrap, topic, places, READ_SECONDS_MAX)

    def _committed(self, group: str, partitions: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
        asker = consumer(self._bootstrap, group_id=group)
        try:
            for _ in range(ASKS_MAX):
                try:
                    rows = committed(asker, partitions)
                except KafkaException:
                    continue
                if len(rows) == len(partitions):
                    return rows
        finally:
            asker.close()
        raise NotRead(f"the offsets of {group} are not known")

    # -- who takes part ------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topics = [NewTopic(topic, self._plan.partitions) for topic in self._topics]
        topics.append(NewTopic(OUTPUT, self._plan.output_partitions))
        for made in admin.create_topics(topics, operation_timeout=TOPIC_SECONDS_MAX).values():
            made.result()

    def _groups(self) -> list[tuple[str, list[tuple[str, int]]]]:
        if not self._plan.with_groups:
            return []
        return [(f"group-{place}", rows) for place, rows in enumerate(self._topics.values())]

    def _applications(self) -> list[Part]:
        found = []
        for place, partitions in enumerate(self._topics.values()):
            for number in range(self._plan.applications):
                name = f"application-{place}-{number}"
                client = self._plan.client
                if client == MIXED:
                    client = (CONFLUENT, FENCEPOST)[number % 2]
                if self._plan.with_groups:
                    instance_id = name if self._plan.static_members else None
                    found.append(
                        self._part(
                            name, partitions, group=f"group-{place}", instance_id=instance_id, client=client
                        )
                    )
                elif own := partitions[number :: self._plan.applications]:
                    found.append(self._part(name, own, client=client))
        return found

    def _sources(self) -> list[Part]:
        rate = self._plan.records_per_second / len(self._topics)
        return [
            self._part(
                f"source-{place}",
                partitions,
                transactional_id=f"source-{place}" if place % 2 else None,
                records_per_second=rate,
            )
            for place, partitions in enumerate(self._topics.values())
        ]

    def _watchers(self) -> list[Part]:
        readers = [self._part(f"reader-{each}", []) for each in range(READERS)]
        return readers + [self._part(f"fetcher-{name}", rows, group=name) for name, rows in self._groups()]

    def _part(self, name: str, partitions: list[tuple[str, int]], **fields: Any) -> Part:
        return Part(
            bootstrap=self._bootstrap,
            folder=str(self._folder),
            name=name,
            seed=self._random.randrange(2**32),
            partitions=partitions,
            output_partitions=self._plan.output_partitions,
            strategy=self._plan.strategy,
            plant=self._plan.plant,
            **fields,
        )
