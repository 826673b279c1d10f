"""Blocks: no producer id was given out twice, and nothing is missing from the log that says so.

Chain       a record of the log says where its block ends; it begins where the one before it ended. So the
            ends grow, always: an end that was there before is the same block given out again, a lower one is
            ids that others had.
Explicit    blocks with a start of their own (ZooKeeper's): their lengths may change, and they may leave ids
            out; they do not overlap.
Bridge      while ZooKeeper still gives ids out, a record of no broker (-1) says how far brokers took them
            there, and a broker's own block is in both places: neither is an overlap.
Epoch       a controller gives a block to the broker's present registration only. One of an epoch that was
            over went to a broker that was taken for dead.
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

BROKER_LIVES: Final = Text("""
    WITH said AS (
        SELECT b.* FROM brokers b
        LEFT JOIN (SELECT path, position FROM canonical) AS c ON c.path = b.path AND c.position = b.position
        WHERE b.event IN ('registered', 'unregistered')
          AND (c.path IS NOT NULL OR b.path LIKE '%.checkpoint')
    ), lived AS (
        SELECT partition, broker_id, broker_epoch,
               min(CASE WHEN event = 'registered' THEN "offset" END) AS first_offset,
               min(CASE WHEN event = 'unregistered' THEN "offset" END) AS left_offset
        FROM said GROUP BY partition, broker_id, broker_epoch
    ), followed AS (
        SELECT v.*, lead(first_offset) OVER (PARTITION BY partition, broker_id ORDER BY first_offset) AS
        next_offset
        FROM lived v WHERE first_offset IS NOT NULL
    )
    SELECT f.*, least(left_offset, next_offset) AS over_offset FROM followed f
""")
"""Epochs of brokers in the metadata log. over_offset: from there on it is none's; NULL: it is the last."""

FIRST_LIVES: Final = Text(f"""
    SELECT v.partition, v.broker_id, min(v.first_offset) AS first_known FROM broker_lives v
    JOIN logs l ON l.topic = '{METADATA}' AND l.partition = v.partition
     AND v.first_offset >= l.unbroken_offset - 1
    ANTI JOIN (SELECT partition FROM record_faults WHERE topic = '{METADATA}') AS u
      ON u.partition = v.partition
    GROUP BY v.partition, v.broker_id
""")
"""From where on every registration of a broker is known, if every record can be read. A snapshot is of the
offset before its log."""

OTHER_EPOCHS: Final = Text("""
    SELECT c.*, v.over_offset, coalesce(c.before, 0) AS id_first,
           CASE WHEN v.broker_epoch IS NULL THEN 'no registration of the broker has it'
                ELSE 'it was over at offset ' || CAST(v.over_offset AS STRING) END AS why
    FROM chain_ends c
    LEFT JOIN broker_lives v ON v.partition = c.partition AND v.broker_id = c.broker_id
     AND v.broker_epoch = c.broker_epoch
    LEFT JOIN first_lives k ON k.partition = c.partition AND k.broker_id = c.broker_id
    WHERE c.source = 'log' AND c.broker_id >= 0 AND c.broker_epoch >= 0
      AND (c.before IS NULL OR c.before < c.block_end)
      AND (v.over_offset < c."offset" OR (v.broker_epoch IS NULL AND k.first_known < c."offset"))
""")
"""Blocks of an epoch that is not the broker's. One that repeats ids is another finding."""

FINDINGS: Final = Text(
    union(
        judged_findings(NAME),
        findings(
            NAME,
            "broker_epoch",
            "other_epochs",
            _PLACE,
            at_ms="timestamp_ms",
            since_offset="over_offset",
            subject=_SUBJECT,
            detail='ids [{id_first}, {block_end}) were given to broker {broker_id} at offset {"offset"} in '
            "its epoch {broker_epoch}: {why}",
        ),
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
    "broker_lives": BROKER_LIVES,
    "first_lives": FIRST_LIVES,
    "other_epochs": OTHER_EPOCHS,
}
