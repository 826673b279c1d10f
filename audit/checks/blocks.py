"""Blocks: no producer id was given out twice, and nothing is missing from the log that says so.

Chain       a record of the log says where its block ends; it begins where the one before it ended. So the
            ends grow, always: an end that was there before is the same block given out again, a lower one is
            ids that others had.
Explicit    blocks with a start of their own (ZooKeeper's): their lengths may change, and they may leave ids
            out; they do not overlap.
Bridge      while ZooKeeper still gives ids out, a record of no broker (-1) says how far brokers took them
            there, and a broker's own block is in both places: neither is an overlap.
"""

from typing import Final

from fencepost.audit.checks.given_out import METADATA
from fencepost.audit.checks.judged import judged_findings, judged_unknown
from fencepost.audit.checks.ordered import with_max_before
from fencepost.audit.checks.relation import Text
from fencepost.audit.checks.rows import findings, union, unknown

NAME: Final = "blocks"
_PLACE: Final = "node topic partition path position offset"
_SUBJECT: Final = "block ending at {block_end}"

LOWER: Final = Text("""
    SELECT * FROM (
        SELECT l.*, f."offset" AS earlier_offset, f.path AS earlier_path, f.position AS earlier_position,
               row_number() OVER (
                   PARTITION BY l.partition, l."offset", l.path, l.position, l.block_end
                   ORDER BY f."offset", f.path, f.position
               ) AS turn
        FROM chain_ends l JOIN chain f ON f.partition = l.partition AND f.block_end = l.before
         AND (f."offset" < l."offset" OR (f."offset" = l."offset" AND f.position < l.position))
        WHERE l.block_end <= l.before
    ) AS numbered WHERE turn = 1
""")
"""Blocks whose end is not above every earlier one's, and the first record that ends where that one ended."""

EXPLICIT_ENDS: Final = Text(
    with_max_before(
        "explicit", group="whole", key="block_first", order='block_end, "offset", position', value="block_end"
    )
)

EARLY: Final = Text("""
    SELECT * FROM (
        SELECT l.*, f."offset" AS earlier_offset, f.path AS earlier_path, f.position AS earlier_position,
               f.block_first AS earlier_first,
               row_number() OVER (
                   PARTITION BY l.block_first, l.block_end, l."offset", l.path, l.position
                   ORDER BY f.block_first, f."offset", f.path, f.position
               ) AS turn
        FROM explicit_ends l JOIN explicit f ON f.block_end = l.before AND f.block_first <= l.block_first
         AND NOT (f.path = l.path AND f.position = l.position AND f."offset" = l."offset")
        WHERE l.block_first < l.before
    ) AS numbered WHERE turn = 1
""")
"""Blocks that begin before an earlier one, in the order of ids, ends; and that one."""

CLASHES: Final = Text("""
    SELECT c.*, z.block_first AS zookeeper_first, z.block_end AS zookeeper_end, z.broker_id AS
    zookeeper_broker,
           z.path AS zookeeper_path
    FROM chain_ends c JOIN explicit z ON z.source = 'zookeeper'
     AND c.before < z.block_end AND z.block_first < c.block_end
     AND NOT (c.before = z.block_first AND c.block_end = z.block_end)
    WHERE c.before < c.block_end AND c.broker_id <> -1
""")
"""ZooKeeper's block against the chain: it is one of its blocks, or beside them."""

FINDINGS: Final = Text(
    union(
        judged_findings(NAME),
        *(
            findings(
                NAME,
                rule,
                f"lower_blocks WHERE block_end {compared} before",
                _PLACE,
                at_ms="timestamp_ms",
                since_offset="earlier_offset",
                subject=_SUBJECT,
                detail='the block that broker {broker_id} was given at offset {"offset"} ends at '
                "{block_end}; ends must grow, and offset {earlier_offset} "
                "({earlier_path}:{earlier_position}) ended at {before}",
            )
            for rule, compared in (("overlap", "="), ("end_not_growing", "<"))
        ),
        findings(
            NAME,
            "overlap",
            "early_blocks",
            _PLACE,
            at_ms="timestamp_ms",
            subject=_SUBJECT,
            detail='ids [{block_first}, {block_end}) were given to broker {broker_id} at offset {"offset"}; '
            "[{earlier_first}, {before}) had been given out at offset {earlier_offset} "
            "({earlier_path}:{earlier_position})",
        ),
        findings(
            NAME,
            "overlap",
            "block_clashes",
            _PLACE,
            at_ms="timestamp_ms",
            subject=_SUBJECT,
            detail='ids [{before}, {block_end}) were given to broker {broker_id} at offset {"offset"}; '
            "ZooKeeper gave [{zookeeper_first}, {zookeeper_end}) to broker {zookeeper_broker} "
            "({zookeeper_path})",
        ),
    )
)

UNKNOWN: Final = Text(
    union(
        unknown(
            NAME,
            "overlap",
            "(SELECT count(*) AS segments FROM files"
            f" WHERE topic = '{METADATA}' AND kind = 'segment') AS counted WHERE segments = 0",
            "",
            detail="there is no metadata log",
        ),
        unknown(
            NAME,
            "overlap",
            "(SELECT DISTINCT f.topic, f.partition, 0 AS first_offset, e.log_start AS end_offset FROM files f"
            f" CROSS JOIN extent e WHERE f.topic = '{METADATA}' AND f.kind = 'segment' AND e.log_start > 0)"
            " AS logs",
            "topic partition first_offset end_offset",
            detail="blocks before the first offset that is kept",
        ),
        judged_unknown(NAME),
    )
)

CATALOGUE: Final = {
    "lower_blocks": LOWER,
    "explicit_ends": EXPLICIT_ENDS,
    "early_blocks": EARLY,
    "block_clashes": CLASHES,
}
