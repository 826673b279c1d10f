"""What kind of logs these are: a few numbers that decide which plans are worth making.

Driver      one row of bounds and counts comes to it, of each of four tables, and no row of theirs. With it a
            check of a sound small directory is a few windows, and the same code is scalable where the logs
            are not small.
"""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import METADATA, TRANSACTION_STATE, copies


class Extent(NamedTuple):
    """``*_copies``: how many directories hold the same log, at most."""

    log_start: int | None  # of the metadata log; None: it is not there
    log_last: int  # its last offset
    whole_end: bool  # nothing that cannot be read stands after its last block
    ids_first: int | None  # the lowest id that a block, a snapshot or ZooKeeper tells of
    ids_end: int  # the end of the highest block
    chain_end: int | None  # the same, without blocks that have a start of their own
    explicit: bool  # there are blocks with a start of their own
    zookeeper: bool  # some of ZooKeeper's
    metadata_copies: int
    other_copies: int
    torn: bool  # there are segments of which the end cannot be read
    compacted: bool  # some topics are configured to be compacted

    @property
    def known_first(self) -> int:
        """The first id of which the blocks tell; beyond every id if they tell of none."""
        if self.log_start == 0:
            return 0
        return self.ids_first if self.ids_first is not None else 2**63 - 1


def extent_of(
    record_batches: DataFrame, producer_id_blocks: DataFrame, files: DataFrame, topics: DataFrame
) -> Extent:
    """Bounds and gaps of what the logs hold, from four small Spark jobs."""
    log = _row(
        record_batches.where(F.col("topic") == METADATA),
        start="min(CASE WHEN fault IS NULL THEN base_offset END)",
        last="max(last_offset)",
        fault="max(CASE WHEN fault IS NOT NULL THEN coalesce(base_offset, 9223372036854775807) END)",
    )
    blocks = _row(
        producer_id_blocks,
        first="min(coalesce(block_first, block_end))",
        end="max(block_end)",
        chain="max(CASE WHEN block_first IS NULL OR source = 'snapshot' THEN block_end END)",
        last="max(CASE WHEN source = 'log' THEN offset END)",
        explicit="coalesce(bool_or(block_first IS NOT NULL AND source <> 'snapshot'), false)",
        zookeeper="coalesce(bool_or(source = 'zookeeper'), false)",
    )
    directories = _row(
        copies(files),
        metadata=f"coalesce(max(CASE WHEN topic = '{METADATA}' THEN copies END), 0)",
        other=f"coalesce(max(CASE WHEN topic <> '{METADATA}' THEN copies END), 0)",
    )
    torn = not files.where("kind = 'segment' AND stop IN ('torn', 'truncated', 'unreadable')").isEmpty()
    compacted = not topics.where("config_key = 'cleanup.policy' AND config_value LIKE '%compact%'").isEmpty()
    return Extent(
        log_start=log["start"],
        log_last=log["last"] or 0,
        whole_end=log["fault"] is None or (blocks["last"] is not None and log["fault"] <= blocks["last"]),
        ids_first=blocks["first"],
        ids_end=blocks["end"] or 0,
        chain_end=blocks["chain"],
        explicit=blocks["explicit"],
        zookeeper=blocks["zookeeper"],
        metadata_copies=directories["metadata"],
        other_copies=directories["other"],
        torn=torn,
        compacted=compacted,
    )


class Coordinator(NamedTuple):
    """The log of transaction states. ``whole``: nothing of it was left out, as far as its offsets say."""

    present: bool
    whole: bool
    compacted: bool
    first_ms: int  # the earliest time in it
    latest_ms: int  # the latest time that any server wrote in the logs


def coordinator_of(logs: DataFrame, states: DataFrame) -> Coordinator:
    """Of ``fencepost.audit.plans.classified.logs`` and the canonical states."""
    own = f"topic = '{TRANSACTION_STATE}'"
    log = _row(
        logs,
        present=f"coalesce(bool_or({own}), false)",
        start=f"max(CASE WHEN {own} THEN first_offset END)",
        compacted=f"coalesce(bool_or({own} AND log_compacted), false)",
        dark=f"coalesce(bool_or({own} AND dark), false)",
        first_ms=f"coalesce(max(CASE WHEN {own} THEN first_ms END), 0)",
        marker_ms="coalesce(max(last_marker_ms), 0)",
    )
    state = _row(states, latest_ms="coalesce(max(greatest(timestamp_ms, updated_ms)), 0)")
    return Coordinator(
        present=log["present"],
        whole=log["start"] == 0 and not log["compacted"] and not log["dark"],
        compacted=log["compacted"],
        first_ms=log["first_ms"],
        latest_ms=max(log["marker_ms"], state["latest_ms"]),
    )


def _row(rows: DataFrame, **columns: str) -> Any:
    return rows.agg(*(F.expr(what).alias(name) for name, what in columns.items())).first()
