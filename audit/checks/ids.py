"""Ids: every producer id in the logs was given out, in a block.

Known       from where the metadata log, a snapshot or ZooKeeper begins to tell: ids below may have been given
            out before, and ids above while bytes of that log cannot be read.
One         finding for an id, wherever it wrote: no other check reports what it did.
"""

from typing import Final

from fencepost.audit.checks.given_out import METADATA
from fencepost.audit.checks.judged import judged_findings
from fencepost.audit.checks.relation import Text
from fencepost.audit.checks.rows import findings, union, unknown
from fencepost.audit.walks.columns import FLAG_OPAQUE

NAME: Final = "ids"
_RULE: Final = "outside_blocks"

WRITTEN: Final = Text(f"""
    SELECT c.node, c.topic, c.partition, c.path, c.position, c.base_offset, c.producer_id, c.producer_epoch,
           c.max_timestamp_ms, NULL AS transactional_id, 0 AS of_state
    FROM canonical c WHERE (c.flags & {FLAG_OPAQUE}) = 0 AND c.producer_id >= 0
    UNION ALL
    SELECT s.node, s.topic, s.partition, s.path, s.position, s."offset" AS base_offset, s.producer_id,
           s.producer_epoch, s.timestamp_ms AS max_timestamp_ms, s.transactional_id, 1 AS of_state
    FROM transaction_states s JOIN canonical c ON c.path = s.path AND c.position = s.position
    WHERE s.producer_id >= 0
""")
"""Where producer ids stand: in batches, and in records of transactional ids."""

FOREIGN_BATCHES: Final = Text("""
    SELECT * FROM (
        SELECT w.*, e.ids_end,
               row_number() OVER (
                   PARTITION BY w.producer_id
                   ORDER BY w.of_state, w.topic, w.partition, w.base_offset, w.path, w.position
               ) AS turn,
               sum(1 - w.of_state) OVER (PARTITION BY w.producer_id) AS batch_count
        FROM written_ids w JOIN foreign_ids f ON f.producer_id = w.producer_id CROSS JOIN extent e
    ) AS numbered WHERE turn = 1
""")
"""Of each foreign id its first batch, else its first record, and how many batches it wrote."""

UNDECIDED: Final = Text("""
    SELECT undecided, count(*) AS ids, min(producer_id) AS lowest, max(producer_id) AS highest
    FROM outside WHERE undecided IS NOT NULL GROUP BY undecided
""")

FINDINGS: Final = Text(
    union(
        judged_findings(NAME),
        findings(
            NAME,
            _RULE,
            "foreign_batches",
            "node topic partition path position producer_id producer_epoch transactional_id",
            offset="base_offset",
            at_ms="max_timestamp_ms",
            subject="producer id {producer_id}",
            detail="producer id {producer_id} is in no block: blocks up to {ids_end} were given out; "
            "it wrote {batch_count} batches",
        ),
    )
)

UNKNOWN: Final = Text(
    union(
        unknown(
            NAME,
            _RULE,
            "undecided_ids",
            "",
            detail="{ids} producer ids from {lowest} to {highest}: {undecided}",
        ),
        unknown(
            NAME,
            _RULE,
            "(SELECT count(*) AS logs FROM files"
            f" WHERE topic = '{METADATA}' AND kind IN ('segment', 'checkpoint')) AS counted WHERE logs = 0",
            "",
            detail="there is no metadata log that says which blocks were given out",
        ),
    )
)

CATALOGUE: Final = {"written_ids": WRITTEN, "foreign_batches": FOREIGN_BATCHES, "undecided_ids": UNDECIDED}
