"""Checks whose findings walks tell of, and what of a log's bytes no walk judges.

Metadata    offsets that are missing in the metadata log are the finding of ``blocks``: a block may be among
            them.
Integrity   each directory's bytes are its own: a batch that is broken in two copies is two findings. A record
            that cannot be read in a sound batch was written so: it is one, wherever the batch lies.
"""

from typing import Final

from fencepost.audit.checks.facts import METADATA, TRANSACTION_STATE
from fencepost.audit.checks.relation import Catalogue, Text
from fencepost.audit.checks.rows import findings, union, unknown
from fencepost.audit.walks.columns import FLAG_OPAQUE, FOUND

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
                THEN 'unknown' ELSE r.kind END AS known_as
    FROM (SELECT w.*, w."check" AS check_name FROM found_rows w) AS r CROSS JOIN metadata_files m
""")
"""What walks found, and which check says it. Without the metadata log nothing tells of topics that were made
again: a marker
is not known to be missing where its transaction left nothing."""


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


RECORDS_ONCE: Final = Text("""
    SELECT * FROM (
        SELECT r.*, row_number() OVER (
            PARTITION BY topic, partition, "offset", fault ORDER BY node, path, position
        ) AS turn
        FROM record_faults r
    ) AS numbered WHERE turn = 1
""")

_RECORD_FINDINGS: Final = findings(
    INTEGRITY, "record", "records_once", f"{_PLACE} offset", subject="{fault}", detail="{reason}"
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
    "named_rows": NAMED,
    "records_once": RECORDS_ONCE,
    **{f"{name}_findings": Text(judged_findings(name)) for name in WALKED},
    **{f"{name}_unknown": Text(judged_unknown(name)) for name in WALKED},
    f"{INTEGRITY}_findings": Text(union(judged_findings(INTEGRITY), _RECORD_FINDINGS)),
    f"{INTEGRITY}_unknown": Text(union(judged_unknown(INTEGRITY), _OWN_UNKNOWN)),
}
