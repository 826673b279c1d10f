"""Who owned which producer ids, from when to when: a lasting product of the metadata log."""

from typing import Final

from fencepost.audit.checks.relation import Text

REGISTRATIONS: Final = Text("""
    WITH once AS (
        SELECT * FROM (
            SELECT b.*, row_number() OVER (
                PARTITION BY partition, "offset", broker_id, event ORDER BY node, path, position
            ) AS turn
            FROM brokers b WHERE event IN ('registered', 'unregistered')
        ) AS numbered WHERE turn = 1
    ), lives AS (
        SELECT o.*, lead(timestamp_ms) OVER (PARTITION BY partition, broker_id ORDER BY "offset") AS gone_ms
        FROM once o
    )
    SELECT broker_id, broker_epoch, min(incarnation_id) AS incarnation_id, min(endpoints) AS endpoints,
           max(gone_ms) AS gone_ms
    FROM lives WHERE event = 'registered' GROUP BY broker_id, broker_epoch
""")
"""One row per registration. gone_ms: NULL: it is the last."""

PRODUCER_ID_OWNERSHIP: Final = Text("""
    WITH owned AS (
        SELECT broker_id, broker_epoch, block_first, block_end, timestamp_ms, source, node, topic, partition,
        path,
               position, "offset"
        FROM explicit
        UNION ALL
        SELECT c.broker_id, c.broker_epoch, coalesce(c.before, CASE WHEN e.log_start = 0 THEN 0 END) AS
        block_first,
               c.block_end, c.timestamp_ms, c.source, c.node, c.topic, c.partition, c.path, c.position,
               c."offset"
        FROM chain_ends c CROSS JOIN extent e
    )
    SELECT o.broker_id, o.broker_epoch, r.incarnation_id, r.endpoints, o.block_first, o.block_end,
           o.timestamp_ms AS from_ms, r.gone_ms AS to_ms, o.source, o.node, o.topic, o.partition, o.path,
           o.position,
           o."offset"
    FROM owned o LEFT JOIN registrations r ON r.broker_id = o.broker_id AND r.broker_epoch = o.broker_epoch
""")
"""One row per block that was given out.

broker_id (-1: brokers took these ids from ZooKeeper themselves); broker_epoch; incarnation_id, endpoints
(NULL: its
registration is not kept); block_first (NULL: the block before it is not kept), block_end, exclusive;
from_ms: given out;
to_ms: the broker registered again or was unregistered, and what was left of the block was wasted, NULL: it
may be in use;
source; node, topic, partition, path, position, offset: of the record.
"""

CATALOGUE: Final = {"registrations": REGISTRATIONS, "producer_id_ownership": PRODUCER_ID_OWNERSHIP}
