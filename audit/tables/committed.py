"""Every commit of every group, in a transaction or not, and what became of it: a lasting product."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.checks.inputs import Inputs


def committed_offsets(inputs: Inputs) -> DataFrame:
    """One row per commit and tombstone in the logs of offsets; what compaction dropped is not there.

    Out  group_id, commit_topic string; commit_partition int; committed_offset long, null: a tombstone;
         outcome string "committed", "aborted", null: its transaction is open; in_effect boolean: it was
         what a fetch answers, from effect_offset long of the log on; previous_offset long: what was
         before it; group_state string, group_generation int: of the group when it was written, null: it
         had none; producer_id long (-1: in no transaction), producer_epoch int; member_id string
         (fencepost's, in transactions); timestamp_ms long; node, topic, partition, path, position, offset.
    """
    return inputs.commits.select(
        *("group_id", "commit_topic", "commit_partition", "committed_offset", "outcome", "in_effect"),
        F.when(F.col("in_effect"), F.col("effect_offset")).alias("effect_offset"),
        F.when(F.col("in_effect"), F.col("previous.committed_offset")).alias("previous_offset"),
        *("group_state", "group_generation", "producer_id", "producer_epoch", "member_id", "timestamp_ms"),
        *("node", "topic", "partition", "path", "position", "offset"),
    )
