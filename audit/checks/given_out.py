"""Blocks of producer ids that were given out, and ids in use that are in none of them.

Extent      one row of bounds: from where on the logs tell of ids, and up to where.
"""

from typing import Final

from fencepost.audit.checks.ordered import with_max_before
from fencepost.audit.checks.relation import Text

METADATA: Final = "__cluster_metadata"
_BEYOND: Final = 2**63 - 1
_COLUMNS: Final = (
    'node, topic, partition, path, position, source, "offset", timestamp_ms, broker_id, broker_epoch, '
    "block_first, block_end"
)

METADATA_EXTENT: Final = Text(f"""
    SELECT min(CASE WHEN fault IS NULL THEN base_offset END) AS log_start,
           max(CASE WHEN fault IS NOT NULL THEN coalesce(base_offset, next_offset - 1, {_BEYOND}) END)
               AS fault_offset
    FROM (
        SELECT fault, base_offset, min(CASE WHEN fault IS NULL THEN base_offset END) OVER (
            PARTITION BY path ORDER BY position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS next_offset
        FROM record_batches WHERE topic = '{METADATA}'
    ) AS followed
""")
"""fault_offset: the last that cannot be read. Bytes that do not say their offset have one below the next
batch of their file; at its end they may have any."""

BLOCK_EXTENT: Final = Text("""
    SELECT min(coalesce(block_first, block_end)) AS ids_first, max(block_end) AS ids_end,
           max(CASE WHEN block_first IS NULL OR source = 'snapshot' THEN block_end END) AS chain_end,
           max(CASE WHEN source = 'log' THEN "offset" END) AS last_block_offset
    FROM producer_id_blocks
""")

EXTENT: Final = Text(f"""
    SELECT m.log_start, coalesce(b.ids_end, 0) AS ids_end, coalesce(b.chain_end, 0) AS chain_end,
           CASE WHEN m.log_start = 0 THEN 0 ELSE coalesce(b.ids_first, {_BEYOND}) END AS known_first,
           m.fault_offset IS NULL OR coalesce(m.fault_offset <= b.last_block_offset, FALSE) AS is_whole_end
    FROM metadata_extent m CROSS JOIN block_extent b
""")
"""log_start: of the metadata log, NULL: it is not there. known_first: the first id of which the blocks tell,
beyond every
id if they tell of none. is_whole_end: nothing that cannot be read stands after the last block."""

BLOCKS: Final = Text(f"""
    SELECT {", ".join(f"b.{each.strip()}" for each in _COLUMNS.split(","))}
    FROM producer_id_blocks b JOIN canonical p ON b.path = p.path AND b.position = p.position
    WHERE b.source = 'log'
    UNION ALL
    SELECT {_COLUMNS} FROM (
        SELECT z.*, row_number() OVER (PARTITION BY block_first, block_end, "offset" ORDER BY node, path,
        position) AS turn
        FROM producer_id_blocks z WHERE source = 'zookeeper' AND block_first IS NOT NULL
    ) AS numbered WHERE turn = 1
""")
"""Blocks that were given out: PRODUCER_ID_BLOCKS of the log and of ZooKeeper, each block once."""

CHAIN: Final = Text("SELECT * FROM blocks WHERE block_first IS NULL")
"""Blocks that begin where the one before them ended."""

EXPLICIT: Final = Text("SELECT b.*, 0 AS whole FROM blocks b WHERE block_first IS NOT NULL")
"""Blocks that say where they begin."""

CHAIN_ENDS: Final = Text(
    with_max_before("chain", group="partition", key='"offset"', order="position", value="block_end")
)
"""The chain, and where the ids before each block end."""

USED_IDS: Final = Text(f"""
    SELECT u.producer_id FROM (
        SELECT producer_id, min(max_timestamp_ms) AS first_ms FROM (
            SELECT producer_id, max_timestamp_ms FROM record_batches
            WHERE fault IS NULL AND producer_id >= 0 AND topic <> '{METADATA}'
            UNION ALL
            SELECT producer_id, timestamp_ms AS max_timestamp_ms FROM transaction_states
            WHERE producer_id >= 0
        ) AS w GROUP BY producer_id
    ) AS u CROSS JOIN moments m CROSS JOIN extent e
    WHERE (m.settled_ms IS NULL OR u.first_ms <= m.settled_ms)
      AND (u.producer_id < e.known_first OR u.producer_id >= e.chain_end)
""")
"""Ids of batches and of transactional ids that are in no block of the chain. One whose every batch came after
the sizes were taken is left out:
its block may
have come later, too."""

USED_AND_EXPLICIT: Final = Text("""
    SELECT block_first AS id, 0 AS kind, block_end AS ids_before, 0 AS whole FROM explicit
    UNION ALL
    SELECT producer_id AS id, 1 AS kind, -1 AS ids_before, 0 AS whole FROM used_ids
""")

REACHED: Final = Text(
    with_max_before("used_and_explicit", group="whole", key="id", order="kind", value="ids_before")
)

OUTSIDE: Final = Text("""
    SELECT r.id AS producer_id, CASE
        WHEN e.log_start IS NULL THEN 'no metadata log among what was read'
        WHEN r.id < e.known_first THEN 'blocks of that time are not kept'
        WHEN r.id >= e.ids_end AND NOT e.is_whole_end THEN 'the end of the metadata log cannot be read'
    END AS undecided
    FROM reached r CROSS JOIN extent e
    WHERE r.kind = 1 AND (r.before IS NULL OR r.before <= r.id)
""")
"""Ids in no block at all. undecided: why that is not known; NULL: it is known."""

FOREIGN: Final = Text("SELECT producer_id FROM outside WHERE undecided IS NULL")

CATALOGUE: Final = {
    "metadata_extent": METADATA_EXTENT,
    "block_extent": BLOCK_EXTENT,
    "extent": EXTENT,
    "blocks": BLOCKS,
    "chain": CHAIN,
    "explicit": EXPLICIT,
    "chain_ends": CHAIN_ENDS,
    "used_ids": USED_IDS,
    "used_and_explicit": USED_AND_EXPLICIT,
    "reached": REACHED,
    "outside": OUTSIDE,
    "foreign_ids": FOREIGN,
}
