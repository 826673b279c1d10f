"""Checks whose findings walks tell of, and what of a log's bytes no walk judges.

Metadata    offsets that are missing in the metadata log are the finding of ``blocks``: a block may be among
            them.
Integrity   each directory's bytes are its own: a batch that is broken in two copies is two findings. A record
            that cannot be read in a sound batch was written so: it is one, wherever the batch lies.
"""

from typing import Final

from fencepost.audit.checks import directories
from fencepost.audit.checks.facts import METADATA, TRANSACTION_STATE
from fencepost.audit.checks.relation import Catalogue, Text
from fencepost.audit.checks.rows import findings, union, unknown
from fencepost.audit.walks.columns import AFTER_COORDINATOR, FLAG_OPAQUE, FLAG_UNCOMMITTED, FOUND

INTEGRITY: Final = "integrity"
WALKED: Final = (
    *("epochs", "fencing", "markers", "hanging", "states", "coordinator", "sequences", "offsets", "replicas"),
    INTEGRITY,
)
"""Checks that have findings of walks."""

_PLACE: Final = "node topic partition path position"
_HAS: Final = " ".join(name for name in FOUND.names if name not in ("kind", "check", "subject", "detail"))

NAMED: Final = Text(f"""
    SELECT r.*,
           CASE WHEN r.check_name = 'offsets' AND r.topic = '{METADATA}' THEN 'blocks' ELSE r.check_name END
           AS says,
           CASE WHEN m.many = 0 AND r.rule = 'missing' AND r.path LIKE '%/{TRANSACTION_STATE}-%'
                THEN 'unknown'
                WHEN r.check_name = 'sequences' AND r.since_offset IS NULL AND r.rule = 'gap'
                 AND (k.many = 0 OR d.topic IS NOT NULL)
                THEN 'unknown' ELSE r.kind END AS known_as
    FROM (SELECT w.*, w."check" AS check_name FROM found_rows w) AS r
    LEFT JOIN deletions d ON d.topic = r.topic
    CROSS JOIN metadata_files m CROSS JOIN whole_metadata k
""")
"""What walks found, and which check says it. Without the metadata log nothing tells of topics that were made
again: a marker is not known to be missing where its transaction left nothing. Nor is a producer's first
sequence known to be wrong where its topic was made again, or may have been: its producer went on."""

WHOLE_METADATA: Final = Text(f"""
    SELECT count(*) AS many FROM logs WHERE topic = '{METADATA}' AND "offset" = 0 AND unbroken_offset = 0
""")


def judged_findings(name: str) -> str:
    """Findings of walks that are this check's."""
    source = f"named_rows WHERE known_as = 'finding' AND says = '{name}'"
    if name == "markers":
        source = source.replace(" WHERE", " n ANTI JOIN freed f ON f.id = n.id WHERE")
    return findings(name, None, source, _HAS, subject="{subject}", detail="{detail}")


def judged_unknown(name: str) -> str:
    """What walks could not decide for this check."""
    source = f"named_rows WHERE known_as = 'unknown' AND says = '{name}'"
    has = "topic partition path end_offset rule"
    return unknown(name, None, source, has, first_offset='"offset"', detail="{detail}")


MISSING_PARTITIONS: Final = Text("""
    SELECT topic, partition, replica FROM lacking WHERE given = 1 AND lacks = 1
""")
"""Partitions of which a node has no copy, although directories of it were given and it is a replica."""

NOT_GIVEN: Final = Text("""
    SELECT count(*) AS many, min(topic) AS topic_first, max(topic) AS topic_last, min(first) AS node_first,
           max(last) AS node_last
    FROM (
        SELECT topic, partition, min(replica) AS first, max(replica) AS last FROM lacking
        GROUP BY topic, partition HAVING max(given) = 0
    ) AS p HAVING count(*) > 0
""")
"""Partitions all of whose replicas are on nodes of which no directory was given, in one row."""

_REPLICAS_UNKNOWN: Final = union(
    unknown(
        "replicas",
        "missing",
        "missing_partitions",
        "topic partition",
        detail="node {replica} is a replica of it by the metadata, and no directory of that node has it",
    ),
    unknown(
        "replicas",
        "not_given",
        "not_given_partitions",
        "",
        detail="{many} partitions, of topics from {topic_first} to {topic_last}, are not given: their"
        " replicas are on nodes {node_first} to {node_last}",
    ),
)

EPOCHS_AHEAD: Final = Text(f"""
    SELECT * FROM (
        SELECT c.node, c.topic, c.partition, c.path, c.position, c.base_offset, c.max_timestamp_ms,
               c.producer_id, c.producer_epoch, p.transactional_id, p.last_epoch,
               p.decided_by,
               row_number() OVER (
                   PARTITION BY c.topic, c.partition, c.producer_id ORDER BY c.base_offset, c.path, c.position
               ) AS turn
        FROM canonical c
        JOIN (
            SELECT producer_id, min(transactional_id) AS transactional_id, max(last_epoch) AS last_epoch,
                   min(partition) AS decided_by
            FROM producers GROUP BY producer_id
        ) AS p ON p.producer_id = c.producer_id AND c.producer_epoch > p.last_epoch
        JOIN logs l ON l.topic = '{TRANSACTION_STATE}' AND l.partition = p.decided_by AND l.stopped
        WHERE (c.flags & {FLAG_OPAQUE | FLAG_UNCOMMITTED}) = 0
    ) AS numbered WHERE turn = 1
""")
"""Of each producer on each partition the first batch of an epoch that its transactional id never had."""

_EPOCHS_AHEAD: Final = findings(
    "epochs",
    "ahead",
    "epochs_ahead",
    "node topic partition path position producer_id producer_epoch transactional_id",
    offset="base_offset",
    at_ms="max_timestamp_ms",
    subject="producer {producer_id} epoch {producer_epoch}",
    detail="epoch {producer_epoch} was never given: the coordinator's log ends with epoch {last_epoch}",
    cause=f"'{AFTER_COORDINATOR}' || CAST(decided_by AS STRING)",
    coordinator_partition="decided_by",
)

LEFT_OUT: Final = Text("""
    SELECT n.*, d.decided, d.decided_by FROM named_rows n JOIN (
        SELECT w.id, min(o."offset") AS decided, min(o.partition) AS decided_by
        FROM named_rows w
        JOIN stories_judged o ON o.kind = 'outcome' AND o.outcome = 0 AND o.producer_id = w.producer_id
         AND o.producer_epoch = w.producer_epoch AND o.prepared_ms <= w.at_ms
        JOIN transaction_states s ON s.topic = o.topic AND s.partition = o.partition
         AND s."offset" = o.completed_offset AND s.timestamp_ms >= w.at_ms
        ANTI JOIN outcomes p ON p.topic = o.topic AND p.partition = o.partition AND p."offset" = o."offset"
         AND p.part_topic = w.topic AND p.part_partition = w.partition
        WHERE w.kind = 'note' AND w.rule = 'operator' GROUP BY w.id
    ) AS d ON d.id = n.id
""")
"""Aborts of data that no transaction has, taken for an operator's, while the coordinator carried out an abort
of their producer: its records do not name the partition."""

_LEFT_OUT: Final = findings(
    "markers",
    "without_transaction",
    "left_out",
    " ".join(name for name in _HAS.split() if name not in ("id", "rule", "cause")),
    subject="{subject}",
    detail="an abort marker, and the transaction that the coordinator aborted then (offset {decided} of its"
    " log, partition {decided_by}) does not name this partition",
)

RECORDS_ONCE: Final = Text("""
    SELECT * FROM (
        SELECT r.*, CASE WHEN path LIKE '%.log' OR path LIKE '%.checkpoint' OR fault <> 'record' THEN 'record'
                    ELSE 'side_file' END AS rule,
               row_number() OVER (
            PARTITION BY topic, partition, "offset", fault ORDER BY node, path, position
        ) AS turn
        FROM (
            SELECT f.*, c.producer_id, c.producer_epoch FROM record_faults f
            LEFT JOIN canonical c ON c.path = f.path AND c.position = f.position AND c.producer_id >= 0
        ) AS r
    ) AS numbered WHERE turn = 1
""")

_RECORD_FINDINGS: Final = findings(
    INTEGRITY,
    None,
    "records_once",
    f"{_PLACE} offset rule producer_id producer_epoch",
    subject="{fault}",
    detail="{reason}",
)

_OWN_UNKNOWN: Final = unknown(
    INTEGRITY,
    "crc",
    f"canonical WHERE (flags & {FLAG_OPAQUE}) <> 0",
    "topic partition path",
    first_offset="base_offset",
    detail="{size} bytes at position {position} cannot be read: what they hold, no check knows",
)

CATALOGUE: Final[Catalogue] = {
    **directories.CATALOGUE,
    "named_rows": NAMED,
    "whole_metadata": WHOLE_METADATA,
    "epochs_ahead": EPOCHS_AHEAD,
    "missing_partitions": MISSING_PARTITIONS,
    "not_given_partitions": NOT_GIVEN,
    "left_out": LEFT_OUT,
    "records_once": RECORDS_ONCE,
    **{f"{name}_findings": Text(judged_findings(name)) for name in WALKED},
    **{f"{name}_unknown": Text(judged_unknown(name)) for name in WALKED},
    "epochs_findings": Text(union(judged_findings("epochs"), _EPOCHS_AHEAD)),
    "markers_findings": Text(union(judged_findings("markers"), _LEFT_OUT)),
    "replicas_findings": Text(union(judged_findings("replicas"), directories.REPLICAS_FINDINGS)),
    "replicas_unknown": Text(
        union(judged_unknown("replicas"), _REPLICAS_UNKNOWN, directories.REPLICAS_UNKNOWN)
    ),
    f"{INTEGRITY}_findings": Text(union(judged_findings(INTEGRITY), _RECORD_FINDINGS, directories.FINDINGS)),
    f"{INTEGRITY}_unknown": Text(union(judged_unknown(INTEGRITY), _OWN_UNKNOWN, directories.UNKNOWN)),
}
