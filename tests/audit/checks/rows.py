"""Logs by hand: a story writes the rows that a decoder would read from a small, sound cluster.

Apart   each story has topics, producer ids, a partition of the coordinator's log and one of the metadata log
        of its own (by ``number``), so that one run of the checks looks at all of them and what it finds is
        distinguished.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.audit.decode.columns import TABLES

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine
    from fencepost.audit.jobs.relations import Relations

Row = dict[str, Any]
IDS = 1000  # of each story
BEGAN_MS = 1_700_000_000_000


class Story:
    """One case: what it appends is sound unless a field says otherwise."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.topic = f"t{number}"
        self.first_id = number * IDS
        self.transactional_id = f"x{number}"
        self.now_ms = BEGAN_MS
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._ends: dict[tuple[str, int], int] = {}
        self._places: dict[str, int] = {}
        self._sequences: dict[tuple[str, int, int, int], int] = {}
        self._version = 0

    def later(self, ms: int = 10) -> int:
        """Time goes on."""
        self.now_ms += ms
        return self.now_ms

    def begin_at(self, offset: int) -> None:
        """What was before it, in partition 0 of the story's topic, is not kept."""
        self._ends[self.topic, 0] = offset

    def place(
        self, topic: str, partition: int, *, node: int = 1, size: int = 100, folder: str = "data"
    ) -> Row:
        """Where the next batch of a log lies."""
        path = f"/n{node}/{folder}/{topic}-{partition}/00000000000000000000.log"
        position = self._places.get(path, 0)
        self._places[path] = position + size
        return {"node": node, "topic": topic, "partition": partition, "path": path, "position": position}

    def batch(
        self,
        *,
        topic: str | None = None,
        partition: int = 0,
        count: int = 1,
        at: int | None = None,
        **columns: Any,
    ) -> Row:
        """A batch at the end of a log, or at offset ``at``."""
        topic = self.topic if topic is None else topic
        base = self._ends.get((topic, partition), 0) if at is None else at
        folder = "archive" if topic.startswith("__") else "data"
        size = columns.get("size", 100)
        row = {
            **self.place(
                topic, partition, size=size, folder=columns.pop("folder", folder), node=columns.pop("node", 1)
            ),
            "size": size,
            "base_offset": base,
            "last_offset": base + count - 1,
            "leader_epoch": 1,
            "crc": (base * 31 + self.number) % 2**32,
            "attributes": 0,
            "base_timestamp_ms": self.later(),
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "record_count": count,
            **columns,
        }
        row.setdefault("max_timestamp_ms", row["base_timestamp_ms"])
        if at is None:
            self._ends[topic, partition] = base + count
        self.tables["record_batches"].append(row)
        return row

    def data(
        self, *, producer: int = 0, epoch: int = 0, partition: int = 0, count: int = 10,
        transactional: bool = True,
        sequence: int | None = None, **columns: Any,
    ) -> Row:  # fmt: skip
        """Data of one of the story's producers, in sequence."""
        key = (columns.get("topic", self.topic), partition, producer, epoch)
        begins = self._sequences.get(key, 0) if sequence is None else sequence
        self._sequences[key] = (begins + count) % 2**31
        given = {"producer_id": self.first_id + producer, "size": 1000, **columns}
        return self.batch(
            partition=partition, count=count, producer_epoch=epoch, base_sequence=begins,
            attributes=0x10 if transactional else 0, **given,
        )  # fmt: skip

    def marker(
        self, *, producer: int = 0, epoch: int = 0, partition: int = 0, committed: bool = True,
        ours: bool = True,
        **columns: Any,
    ) -> Row:  # fmt: skip
        """The end of a transaction in a partition; ``ours``: with an image version."""
        self._version += 1
        given = {"producer_id": self.first_id + producer, **columns}
        return self.batch(
            partition=partition, producer_epoch=epoch, attributes=0x30, control_type=int(committed),
            coordinator_epoch=1, marker_version=self._version if ours else None, **given,
        )  # fmt: skip

    def state(
        self, state: str | None, *, producer: int = 0, epoch: int = 0, partitions: tuple[int, ...] = (),
        timeout_ms: int = 3_600_000, name: str | None = None, topics: tuple[str, ...] | None = None,
        folder: str = "archive",
    ) -> Row:  # fmt: skip
        """A record of the coordinator's log; ``state`` None: a tombstone."""
        batch = self.batch(topic="__transaction_state", partition=self.number, folder=folder)
        row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
        now_ms = batch["base_timestamp_ms"]
        row |= {
            "offset": batch["base_offset"],
            "leader_epoch": 1,
            "timestamp_ms": now_ms,
            "transactional_id": name or self.transactional_id,
            "forgotten": state is None,
        }
        if state is not None:
            listed = topics or (self.topic,)
            row |= {
                "state": state,
                "producer_id": self.first_id + producer,
                "producer_epoch": epoch,
                "timeout_ms": timeout_ms,
                "updated_ms": now_ms,
                "started_ms": now_ms if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else -1,
                "partitions": [
                    {"topic": topic, "partition": each} for topic in listed for each in partitions
                ],
                "fences": [],
            }
        self.tables["transaction_states"].append(row)
        return row

    def transaction(
        self, *, producer: int = 0, epoch: int = 0, partitions: tuple[int, ...] = (0,),
        committed: bool = True,
        written: tuple[int, ...] | None = None, marked: tuple[int, ...] | None = None,
        marker_epoch: int | None = None,
        ours: bool = True, complete: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        """From its beginning to its end: data to ``written``, markers to ``marked``, by default all
        partitions.
        """
        end_epoch = epoch if marker_epoch is None else marker_epoch
        outcome = "Commit" if committed else "Abort"
        given: Row = {"producer": producer, "name": name}
        self.state("Ongoing", epoch=epoch, partitions=partitions, **given)
        for each in partitions if written is None else written:
            self.data(producer=producer, epoch=epoch, partition=each)
        self.state(f"Prepare{outcome}", epoch=end_epoch, partitions=partitions, **given)
        for each in partitions if marked is None else marked:
            self.marker(producer=producer, epoch=end_epoch, partition=each, committed=committed, ours=ours)
        if complete:
            self.state(f"Complete{outcome}", epoch=end_epoch, **given)

    def block(self, end: int, *, broker: int = 1, epoch: int = 7, **columns: Any) -> Row:
        """A record of the metadata log that gives the ids up to ``end`` out."""
        batch = self.batch(topic="__cluster_metadata", partition=self.number, **columns)
        row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
        row |= {
            "source": "log",
            "offset": batch["base_offset"],
            "leader_epoch": 1,
            "timestamp_ms": batch["base_timestamp_ms"],
            "broker_id": broker,
            "broker_epoch": epoch,
            "block_end": end,
        }
        self.tables["producer_id_blocks"].append(row)
        return row

    def broker_event(self, event: str, epoch: int, *, broker: int = 1) -> Row:
        """A record of the metadata log about a broker's registration."""
        batch = self.batch(topic="__cluster_metadata", partition=self.number)
        row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
        row |= {"offset": batch["base_offset"], "timestamp_ms": batch["base_timestamp_ms"]}
        row |= {"event": event, "broker_id": broker, "broker_epoch": epoch}
        self.tables["brokers"].append(row)
        return row

    def topic_event(self, event: str, **columns: Any) -> Row:
        """A record about a topic."""
        batch = self.batch(topic="__cluster_metadata", partition=self.number)
        row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
        row |= {
            "offset": batch["base_offset"],
            "timestamp_ms": batch["base_timestamp_ms"],
            "event": event,
            "name": self.topic,
            "topic_id": f"id-of-{self.topic}",
            **columns,
        }
        self.tables["topics"].append(row)
        return row

    def lose(self, row: Row) -> None:
        """The batch is gone from its log, and with it what it held."""
        for rows in self.tables.values():
            rows[:] = [
                each
                for each in rows
                if (each.get("path"), each.get("position")) != (row["path"], row["position"])
            ]

    def hide(self, row: Row, fault: str = "crc") -> None:
        """The batch's bytes are wrong: what it held is not read."""
        batch = next(
            each
            for each in self.tables["record_batches"]
            if (each["path"], each["position"]) == (row["path"], row["position"])
        )
        self.lose(row)
        batch |= {"fault": fault, "reason": "the checksum is wrong"}
        if fault == "unreadable":
            kept = ("node", "topic", "partition", "path", "position", "size", "fault", "reason")
            batch = {name: batch[name] for name in kept}
        self.tables["record_batches"].append(batch)

    def copy_log(self, topic: str, partition: int, node: int) -> list[Row]:
        """Another node has the same log: its batches there."""
        rows = [
            each | {"node": node, "path": each["path"].replace("/n1/", f"/n{node}/")}
            for each in self.tables["record_batches"]
            if (each["topic"], each["partition"], each["node"]) == (topic, partition, 1)
        ]
        self.tables["record_batches"] += rows
        for name in ("producer_id_blocks", "transaction_states", "offset_commits", "group_generations"):
            for each in list(self.tables[name]):
                if (each["topic"], each["partition"], each["node"]) == (topic, partition, 1):
                    self.tables[name].append(
                        each | {"node": node, "path": each["path"].replace("/n1/", f"/n{node}/")}
                    )
        return rows

    def file(self, row: Row, **columns: Any) -> Row:
        """What is known of a row's segment, where it is not the plain truth."""
        given = {
            "node": row["node"],
            "topic": row["topic"],
            "partition": row["partition"],
            "path": row["path"],
        }
        file = given | {
            "kind": "segment",
            "base_offset": 0,
            "size": 0,
            "stop": "end",
            "last_of_partition": True,
        }
        self.tables["files"].append(file | columns)
        return self.tables["files"][-1]


def tables(stories: list[Story]) -> dict[str, pa.Table]:
    """All stories' rows; segments that no story speaks of are whole, and begin with their first batch.

    Every broker ended cleanly.
    """
    rows = {name: [row for story in stories for row in story.tables[name]] for name in TABLES}
    spoken = {row["path"] for row in rows["files"]}
    starts: dict[str, Row] = {}
    for row in rows["record_batches"]:
        base = row.get("base_offset") or 0
        first = starts.setdefault(row["path"], {**row, "base_offset": base})
        first["base_offset"] = min(first["base_offset"], base)
    for path, row in starts.items():
        if path not in spoken:
            rows["files"].append(
                {name: row[name] for name in ("node", "topic", "partition", "path", "base_offset")}
                | {"kind": "segment", "size": 0, "valid_end": 0, "stop": "end", "last_of_partition": True}
            )
    folders = {(row["path"].rsplit("/", 2)[0], row["node"]) for row in starts.values()}
    for folder, node in sorted(folders):
        path = f"{folder}/.kafka_cleanshutdown"
        rows["files"].append({"kind": "clean-shutdown", "path": path, "node": node, "stop": "end", "size": 0})
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in TABLES.items()}


def relations(engine: "Engine", stories: list[Story], **moments: int | None) -> "Relations":
    """The stories as the checks look at them."""
    from fencepost.audit.jobs.relations import Relations
    from fencepost.audit.jobs.relations import moments as moment_rows
    from fencepost.audit.jobs.source import RELATIONS

    for name, table in tables(stories).items():
        engine.register(name, table)
    engine.register("moments", moment_rows(moments.get("now_ms"), moments.get("settled_ms")))
    return Relations(engine, RELATIONS, lambda _: None)
