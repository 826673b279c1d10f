"""Every transaction of every transactional id, from its beginning to its end: a lasting product of the
coordinator's
log."""

from typing import Final

from fencepost.audit.checks.relation import Text

_ID: Final = "topic, partition, transactional_id"

NEW_FENCES: Final = Text("""
    SELECT * FROM (
        SELECT u.path, u.position, u."offset", u.fence.cause AS cause, u.fence.by AS fenced_by,
               row_number() OVER (PARTITION BY u.path, u.position, u."offset" ORDER BY u.fence.cause) AS turn
        FROM (
            SELECT path, position, "offset", updated_ms, unnest(fences) AS fence FROM states
            WHERE state = 'PrepareAbort'
        ) AS u WHERE u.fence.at_ms = u.updated_ms
    ) AS numbered WHERE turn = 1
""")
"""Of each record that aborts a transaction over its producer's head: by what and whom (fencepost's)."""

TRANSACTION_HISTORY: Final = Text(f"""
    WITH ordered AS (
        SELECT s.*, lag(state) OVER in_order AS state_before,
               lag(producer_id) OVER in_order AS id_before, lag(producer_epoch) OVER in_order AS epoch_before,
               lead(coalesce(updated_ms, timestamp_ms)) OVER in_order AS next_ms,
               lead("offset") OVER in_order AS next_offset
        FROM states s WHERE NOT regressed
        WINDOW in_order AS (PARTITION BY {_ID} ORDER BY "offset")
    ), ended AS (
        SELECT o.*, state = 'Ongoing' AS is_open, coalesce(state_before = 'Ongoing', FALSE) AS is_begun FROM
        ordered o
        WHERE state IN ('PrepareCommit', 'PrepareAbort') OR (state = 'Ongoing' AND next_offset IS NULL)
    )
    SELECT t.transactional_id, t.producer_id,
           CAST(CASE WHEN t.is_open THEN t.producer_epoch
                     WHEN t.is_begun AND t.id_before = t.producer_id THEN t.epoch_before END AS INT) AS
                     first_epoch,
           CAST(t.producer_epoch AS INT) AS last_epoch,
           CASE WHEN t.started_ms >= 0 THEN t.started_ms END AS began_ms,
           CASE WHEN NOT t.is_open THEN t.updated_ms END AS decided_ms,
           CASE WHEN NOT t.is_open THEN t.next_ms END AS ended_ms,
           CASE t.state WHEN 'PrepareCommit' THEN 'commit' WHEN 'PrepareAbort' THEN 'abort' END AS outcome,
           t.partitions, coalesce(t.timed_out, FALSE) AS timed_out,
           coalesce(t.state = 'PrepareAbort' AND t.is_begun AND t.producer_epoch > t.epoch_before
                    AND coalesce(t.client_transaction_version, 0) < 2, FALSE) AS fenced,
           f.cause AS fence_cause, f.fenced_by, t.node, t.path, t.position, t."offset"
    FROM ended t LEFT JOIN new_fences f ON f.path = t.path AND f.position = t.position AND f."offset" =
    t."offset"
""")
"""One row per transaction, those that are open included; what Kafka's compaction dropped is not there.

transactional_id; producer_id; first_epoch, last_epoch: at its beginning (NULL: not kept) and with its
markers; began_ms,
decided_ms, ended_ms: opened, decided, every marker written (NULL: not yet); outcome "commit", "abort", NULL:
open;
partitions: of (topic, partition); timed_out; fenced: it was aborted over its producer's head; fence_cause,
fenced_by: by
what and whom, where the log says so (fencepost's); node, path, position, offset: of the last record about it.
"""

CATALOGUE: Final = {"new_fences": NEW_FENCES, "transaction_history": TRANSACTION_HISTORY}
