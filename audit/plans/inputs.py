"""What the checks look at: the tables of ``fencepost.audit.decode.columns`` as DataFrames, and two moments.

Moments     ``settled_ms``: the wall clock at which the data logs' sizes were taken. The coordinator's log was
            listed after it, so what is in the data logs up to then has its story in the coordinator's log.
            ``now_ms``: open transactions are judged at it; by default the latest time in the logs.
Kept        what several checks look at is computed once, and held by the executors as long as this is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.plans import canonical, classified, committed, due, given_out, pairing, states, zombies
from fencepost.audit.plans.extent import Coordinator, Extent, coordinator_of, extent_of


@dataclass(frozen=True, eq=False)
class Inputs:
    """Columns: ``fencepost.audit.decode.columns``, one table each."""

    record_batches: DataFrame
    producer_id_blocks: DataFrame
    brokers: DataFrame
    topics: DataFrame
    transaction_states: DataFrame
    offset_commits: DataFrame
    group_generations: DataFrame
    record_faults: DataFrame
    files: DataFrame
    now_ms: int | None = None
    settled_ms: int | None = None
    plans: list[DataFrame] = field(default_factory=list, repr=False)
    """What was computed on the way: tests look at how."""

    @classmethod
    def of(
        cls, tables: Mapping[str, DataFrame], *, now_ms: int | None = None, settled_ms: int | None = None
    ) -> Self:
        """Of tables by their names; other names are not looked at.

        Raises   KeyError if one is not there: a table without rows is a table.
        """
        named = {name: tables[name] for name in TABLES if name in cls.__dataclass_fields__}
        return cls(**named, now_ms=now_ms, settled_ms=settled_ms)

    def keep(self, frame: DataFrame) -> DataFrame:
        """``frame``, computed now and held by the executors: what is built on it is a plan of its own, and
        small.

        Without that the plans of later checks contain those of the earlier ones many times over.
        """
        self.plans.append(frame)
        return frame.localCheckpoint()

    @cached_property
    def extent(self) -> Extent:
        """What kind of logs these are."""
        return extent_of(self.record_batches, self.producer_id_blocks, self.files, self.topics)

    @cached_property
    def blocks(self) -> DataFrame:
        """Blocks of producer ids: ``fencepost.audit.plans.given_out.canonical_blocks``."""
        blocks, batches = self.producer_id_blocks, self.record_batches
        return given_out.canonical_blocks(blocks, batches, self.files, self.extent)

    @cached_property
    def ids(self) -> DataFrame:
        """Producer ids in no block: ``fencepost.audit.plans.given_out.outside_blocks``."""
        return self.keep(
            given_out.outside_blocks(self.record_batches, self.blocks, self.extent, self.settled_ms)
        )

    @cached_property
    def classified(self) -> DataFrame:
        """Every log but the metadata, each offset once: ``fencepost.audit.plans.classified``."""
        extent = self.extent
        rows = canonical.canonical(
            self.record_batches,
            self.files,
            self.topics,
            copied=extent.other_copies > 1,
            torn=extent.torn,
            compacted=extent.compacted,
        )
        foreign = self.ids.where("undecided IS NULL").select("producer_id")
        return self.keep(classified.classified(rows, None if foreign.isEmpty() else foreign))

    @cached_property
    def suspects(self) -> DataFrame:
        """The few rows of ``classified`` that are out of the ordinary, or data of an open transaction."""
        return self.keep(self.classified.where(classified.SUSPECT))

    @cached_property
    def open_tail(self) -> DataFrame:
        """Transactional data after its producer's last marker, in sequence, written before ``settled_ms``."""
        rows = self.suspects.where(classified.OPEN_TAIL).where("sequence_fault IS NULL")
        return rows if self.settled_ms is None else rows.where(F.col("max_timestamp_ms") <= self.settled_ms)

    @cached_property
    def logs(self) -> DataFrame:
        """One row per log: ``fencepost.audit.plans.classified.logs``."""
        return self.keep(classified.logs(self.classified))

    @cached_property
    def states(self) -> DataFrame:
        """The canonical rows of the coordinator's log: ``fencepost.audit.plans.states.canonical_states``."""
        return self.keep(states.canonical_states(self.transaction_states, self.classified))

    @cached_property
    def commits(self) -> DataFrame:
        """What groups committed, as it took effect: ``fencepost.audit.plans.committed.commits``."""
        return self.keep(committed.commits(self.offset_commits, self.group_generations, self.classified))

    @cached_property
    def coordinator(self) -> Coordinator:
        """What kind of log the coordinator's is."""
        return coordinator_of(self.logs, self.states)

    @cached_property
    def latest(self) -> DataFrame:
        """The last row of each transactional id: ``fencepost.audit.plans.states.latest``."""
        return self.keep(states.latest(self.states))

    @cached_property
    def transactions(self) -> DataFrame:
        """What the coordinator decided to end: ``fencepost.audit.plans.states.transactions``."""
        return self.keep(states.transactions(self.states))

    @cached_property
    def open_parts(self) -> DataFrame:
        """What the coordinator has open or is ending: topic, partition, producer_id, state."""
        rows = self.latest.where("state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort')")
        listed = rows.select("producer_id", "state", F.explode("partitions").alias("part"))
        return listed.select("part.topic", "part.partition", "producer_id", "state")

    @cached_property
    def marker_events(self) -> DataFrame | None:
        """Where markers and transactions differ in number (``fencepost.audit.plans.pairing``), or None."""
        where = self.keep(pairing.differing(self.transactions, self.classified, self.settled_ms))
        if where.isEmpty():
            return None
        return self.keep(pairing.events(self.transactions, self.classified, where))

    @cached_property
    def missing_markers(self) -> DataFrame:
        """``fencepost.audit.plans.due.due_markers`` of the transactions that lack theirs."""
        if self.marker_events is None:
            return self.files.sparkSession.createDataFrame([], due.NONE_DUE)
        return self.keep(
            due.due_markers(
                pairing.lacking(self.marker_events),
                classified=self.classified,
                suspects=self.suspects,
                logs=self.logs,
                files=self.files,
                topics=self.topics,
                topics_known=self.extent.log_start == 0,
            )
        )

    @cached_property
    def zombies(self) -> DataFrame:
        """Runs of data of an epoch that was over: ``fencepost.audit.plans.zombies``."""
        rows = zombies.overtaken(self.suspects)
        if not self.open_tail.isEmpty():
            left = zombies.left_by_coordinator(self.open_tail, self.states, self._ending)
            rows = rows.unionByName(left.select(*rows.columns))
        return self.keep(zombies.runs(rows))

    @property
    def _ending(self) -> DataFrame:
        """Where the coordinator is still ending a transaction, or its marker is missing."""
        ending = self.open_parts.where("state <> 'Ongoing'").drop("state")
        return ending.unionByName(self.missing_markers.select("topic", "partition", "producer_id"))
