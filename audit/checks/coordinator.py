"""What the coordinator decided: its log's rows in order, the transactions in them, the epochs that were left.

Regressed   a row whose (producer id, epoch) its transactional id had left before: it is a finding of its own,
            and no other conclusion is drawn from it.
Known from  Kafka compacts this log: of each id the last row of the compacted part and all that follow are
            left, so an id's rows are a suffix of its story. fencepost's archive is whole.
"""

from typing import Final

from fencepost.audit.checks.relation import Text

_ID: Final = "topic, partition, transactional_id"

STATES: Final = Text(f"""
    WITH seen AS (
        SELECT s.*, min(CASE WHEN s.producer_id IS NOT NULL THEN s."offset" END)
               OVER (PARTITION BY s.topic, s.partition, s.transactional_id, s.producer_id) AS first_seen
        FROM transaction_states s JOIN canonical p ON s.path = p.path AND s.position = p.position
    ), ranked AS (
        SELECT seen.*, first_seen * 65536 + producer_epoch + 1 AS epoch_rank FROM seen
    ), passed AS (
        SELECT ranked.*, max(epoch_rank) OVER past AS left_rank,
               max_by(producer_id, epoch_rank) OVER past AS left_producer_id,
               max_by(producer_epoch, epoch_rank) OVER past AS left_producer_epoch
        FROM ranked
        WINDOW past AS (PARTITION BY {_ID} ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    SELECT passed.*, coalesce(epoch_rank < left_rank, FALSE) AS regressed FROM passed
""")
"""TRANSACTION_STATES of the canonical log, ``forgotten`` ones included. Further ``regressed``; ``left_*``:
the pair
that was current before. Pairs are ranked by where their producer id came first, then by epoch."""

TRANSACTIONS: Final = Text(f"""
    WITH ordered AS (
        SELECT s.*, lag(state) OVER in_order AS state_before, lag(producer_id) OVER in_order AS id_before,
               lag(producer_epoch) OVER in_order AS epoch_before, lead("offset") OVER in_order AS next_offset,
               lead(coalesce(updated_ms, timestamp_ms)) OVER in_order AS ended_ms
        FROM states s WHERE NOT regressed
        WINDOW in_order AS (PARTITION BY {_ID} ORDER BY "offset")
    )
    SELECT node, topic, partition, path, position, "offset", transactional_id, producer_id, producer_epoch,
           timeout_ms, started_ms, partitions, client_transaction_version,
           state = 'PrepareCommit' AS committed, updated_ms AS prepared_ms,
           next_offset IS NOT NULL AS ended, ended_ms
    FROM ordered
    WHERE state IN ('PrepareCommit', 'PrepareAbort')
      AND NOT coalesce(state_before = state AND id_before = producer_id AND epoch_before = producer_epoch,
      FALSE)
""")
"""One row per transaction that the coordinator decided to end. ``ended``: its id went on after it, at
``ended_ms``, by
which every marker was written."""

LATEST: Final = Text(f"""
    SELECT * FROM (
        SELECT s.*, row_number() OVER (PARTITION BY {_ID} ORDER BY "offset" DESC) AS turn
        FROM states s WHERE NOT regressed
    ) AS numbered WHERE turn = 1
""")
"""The last row of each transactional id that is not regressed; of a forgotten id the tombstone."""

LATEST_MS: Final = Text("""
    SELECT max(latest_ms) AS latest_ms FROM (
        SELECT max(greatest(timestamp_ms, coalesce(updated_ms, 0))) AS latest_ms FROM states
        UNION ALL
        SELECT max(max_timestamp_ms) AS latest_ms FROM canonical WHERE control_type IN (0, 1)
    ) AS times
""")
"""The latest time that a server wrote: of the coordinator's records and of markers."""

OVERDUE: Final = Text("""
    SELECT late.*, coalesce(m.now_ms, t.latest_ms) - late.started_ms AS open_ms
    FROM latest late CROSS JOIN moments m CROSS JOIN latest_ms t
    WHERE late.state = 'Ongoing' AND coalesce(m.now_ms, t.latest_ms) - late.started_ms > late.timeout_ms
""")
"""Ids whose transaction is open for longer than its own timeout, ``open_ms``."""

REUSED: Final = Text(f"""
    SELECT * FROM (
        SELECT s.*, row_number() OVER in_run AS turn, count(*) OVER (PARTITION BY {_ID}, left_rank) AS
        row_count
        FROM states s WHERE regressed
        WINDOW in_run AS (PARTITION BY {_ID}, left_rank ORDER BY "offset", node, path, position)
    ) AS numbered WHERE turn = 1
""")
"""One row per run of rows below the same pair: its first row, and how many they are."""

CATALOGUE: Final = {
    "states": STATES,
    "transactions": TRANSACTIONS,
    "latest": LATEST,
}
