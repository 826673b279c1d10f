"""Every commit of every group, in a transaction or not, and what became of it: a lasting product."""

from typing import Final

from fencepost.audit.checks.relation import Text

COMMITTED_OFFSETS: Final = Text("""
    SELECT group_id, commit_topic, commit_partition, committed_offset, outcome, in_effect,
           CASE WHEN in_effect THEN effect_offset END AS effect_offset,
           CASE WHEN in_effect THEN previous_offset END AS previous_offset,
           group_state, group_generation, producer_id, producer_epoch, member_id, timestamp_ms,
           node, topic, partition, path, position, "offset"
    FROM commits
""")
"""One row per commit and tombstone in the logs of offsets; what compaction dropped is not there.

group_id, commit_topic, commit_partition; committed_offset, NULL: a tombstone; outcome "committed",
"aborted", NULL: its
transaction is open; in_effect: it was what a fetch answers, from effect_offset of the log on;
previous_offset: what was
before it; group_state, group_generation: of the group when it was written, NULL: it had none; producer_id
(-1: in no
transaction), producer_epoch; member_id (fencepost's, in transactions); timestamp_ms; node, topic, partition,
path,
position, offset.
"""

CATALOGUE: Final = {"committed_offsets": COMMITTED_OFFSETS}
