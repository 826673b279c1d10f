"""``audit query``: who owned a producer id, and what happened to a transactional id.

Rows    are looked for by their key before anything is put in order: what reaches this process is an answer.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from fencepost.audit.checks.canonical import TRANSACTION_STATE, canonical
from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.checks.states import canonical_states
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.files import files_of
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import inputs_of
from fencepost.audit.report.ownership import Block, Ownership, Use
from fencepost.audit.report.timeline import (
    EVENTS_MAX,
    WRITTEN_MAX,
    Fenced,
    StateRow,
    Story,
    Written,
    events,
    parse_moment,
)
from fencepost.audit.tables.ownership import producer_id_ownership

BLOCKS_MAX: Final = 100  # that hold one id: more than one is a fault already
USES_MAX: Final = 1_000  # transactional ids of one producer id: more than one is a fault already


_BLOCK: Final = (
    *("block_first", "block_end", "broker_id", "broker_epoch", "from_ms", "to_ms"),
    *("source", "offset", "path", "position"),
)

Question = Callable[[SparkSession, str, Show], Story | Ownership]
"""A query: takes a session, a folder of tables and what to show; returns a story or an ownership."""


def question(producer_id: int | None, at: str | None, transactional_id: str | None) -> Question:
    """The query for the id that is given. Raises AuditRefused: ``at`` is no time, or no id is given."""
    try:
        at_ms = None if at is None else parse_moment(at)
    except ValueError as error:
        raise AuditRefused(str(error)) from error
    if producer_id is not None:
        return lambda spark, tables_dir, show: producer(spark, tables_dir, producer_id, at_ms, show)
    if transactional_id is not None:
        return lambda spark, tables_dir, show: transactional(spark, tables_dir, transactional_id, show)
    raise AuditRefused("no id is named")


def transactional(spark: SparkSession, tables_dir: str, transactional_id: str, show: Show) -> Story:
    """What happened to the id: its newest ``EVENTS_MAX`` records. Raises TablesRefused."""
    with shown(spark, show, "looking for the id"):
        inputs = inputs_of(spark, tables_dir)
        states = _states(
            inputs, inputs.transaction_states.where(F.col("transactional_id") == transactional_id)
        )
        found = states.orderBy(F.desc("offset"), F.desc("position")).limit(EVENTS_MAX + 1).collect()
        omitted = states.count() - EVENTS_MAX if len(found) > EVENTS_MAX else 0
        rows = [_state_row(row) for row in reversed(found[:EVENTS_MAX])]
        pairs = {(row.producer_id, row.producer_epoch) for row in rows if row.producer_id >= 0}
        producers = sorted({producer_id for producer_id, _ in pairs})
        return Story(
            transactional_id=transactional_id,
            events=tuple(events(rows)),
            written=_written(inputs, F.col("producer_id").isin(producers)) if producers else (),
            omitted=omitted,
            is_partial=files_of(inputs.files).is_partial,
        )


def producer(
    spark: SparkSession, tables_dir: str, producer_id: int, at_ms: int | None, show: Show
) -> Ownership:
    """Whose the id was, and who used it. Raises TablesRefused."""
    with shown(spark, show, "looking for the id"):
        inputs = inputs_of(spark, tables_dir)
        states = _states(inputs, inputs.transaction_states.where(F.col("producer_id") == producer_id))
        uses = (
            states.groupBy("transactional_id")
            .agg(F.min("producer_epoch"), F.max("producer_epoch"), F.min("updated_ms"), F.max("updated_ms"))
            .orderBy("transactional_id")
            .limit(USES_MAX)
            .collect()
        )
        return Ownership(
            producer_id=producer_id,
            at_ms=at_ms,
            blocks=_blocks(inputs, producer_id),
            uses=tuple(Use(*row) for row in uses),
            written=_written(inputs, F.col("producer_id") == producer_id),
            is_partial=files_of(inputs.files).is_partial,
        )


def _states(inputs: Inputs, wanted: DataFrame) -> DataFrame:
    """``wanted`` rows of the coordinator's log, each offset once."""
    log, extent = inputs.record_batches.where(F.col("topic") == TRANSACTION_STATE), inputs.extent
    copied = extent.other_copies > 1
    rows = canonical(
        log, inputs.files, inputs.topics, copied=copied, torn=extent.torn, compacted=extent.compacted
    )
    return canonical_states(wanted, rows)


def _state_row(row: Row) -> StateRow:
    if row["forgotten"]:
        return StateRow(row["path"], row["position"], row["offset"], row["timestamp_ms"], None)
    return StateRow(
        path=row["path"],
        position=row["position"],
        offset=row["offset"],
        at_ms=row["updated_ms"],
        state=row["state"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        timeout_ms=row["timeout_ms"],
        started_ms=row["started_ms"],
        timed_out=bool(row["timed_out"]),
        partitions=tuple(f"{each['topic']}-{each['partition']}" for each in row["partitions"] or ()),
        fences=tuple(
            Fenced(
                each["at_ms"], each["cause"], each["producer_id"], each["producer_epoch"], each["by"] or ""
            )
            for each in row["fences"] or ()
        ),
        is_regressed=row["regressed"],
    )


def _written(inputs: Inputs, condition: Column) -> tuple[Written, ...]:
    """What the producers left on partitions, by epoch; of copies of a partition one."""
    data = F.col("control_type").isNull()
    rows = (
        inputs.record_batches.where("fault IS NULL")
        .where(condition)
        .dropDuplicates(["topic", "partition", "base_offset", "crc"])
        .groupBy("topic", "partition", "producer_id", "producer_epoch")
        .agg(
            F.coalesce(F.sum(F.when(data, F.col("record_count"))), F.lit(0)),
            F.count(F.when(F.col("control_type") == 1, 1)),
            F.count(F.when(F.col("control_type") == 0, 1)),
            F.min("base_offset"),
            F.max("last_offset"),
            F.min("base_timestamp_ms"),
            F.max("max_timestamp_ms"),
        )
        .orderBy("producer_id", "producer_epoch", "topic", "partition")
        .limit(WRITTEN_MAX)
    )
    return tuple(Written(*row) for row in rows.collect())


def _blocks(inputs: Inputs, producer_id: int) -> tuple[Block, ...]:
    begin = F.coalesce("block_first", F.lit(producer_id))
    rows = (
        producer_id_ownership(inputs)
        .where((begin <= producer_id) & (F.col("block_end") > producer_id))
        .orderBy("from_ms", "offset")
        .select(*_BLOCK)
        .limit(BLOCKS_MAX)
    )
    return tuple(Block(*row) for row in rows.collect())
