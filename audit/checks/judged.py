"""Checks whose findings walks tell of, and what of a log's bytes no walk judges.

Foreign     what a producer id did that was never given out is the finding of ``ids``, and of no other check.
Metadata    offsets that are missing in the metadata log are the finding of ``blocks``: a block may be among
            them.
Integrity   each directory's bytes are its own: a batch that is broken in two copies is two findings. A record
            that cannot be read in a sound batch was written so: it is one, wherever the batch lies.
"""

from typing import Final

from fencepost.audit.checks.relation import Catalogue, Text
from fencepost.audit.checks.rows import findings, union, unknown
from fencepost.audit.checks.walked import METADATA
from fencepost.audit.walks.columns import FLAG_OPAQUE

INTEGRITY: Final = "integrity"
WALKED: Final = (
    *("epochs", "fencing", "markers", "hanging", "states", "sequences", "offsets", "replicas"),
    INTEGRITY,
)
"""Checks that have findings of walks."""

_PLACE: Final = "node topic partition path position"
_HAS: Final = f"{_PLACE} offset producer_id producer_epoch transactional_id at_ms"

NAMED: Final = Text(f"""
    SELECT r.*,
           CASE WHEN r.check_name = 'offsets' AND r.topic = '{METADATA}' THEN 'blocks' ELSE r.check_name END
           AS says
    FROM (SELECT w.*, w."check" AS check_name FROM found_rows w) AS r
    ANTI JOIN foreign_ids f ON r.check_name <> 'ids' AND r.producer_id = f.producer_id
""")
"""What walks found, and which check says it."""


def judged_findings(name: str) -> str:
    """Findings of walks that are this check's."""
    source = f"named_rows WHERE kind = 'finding' AND says = '{name}'"
    return findings(name, None, source, f"{_HAS} rule", subject="{subject}", detail="{detail}")


def judged_unknown(name: str) -> str:
    """What walks could not decide for this check."""
    source = f"named_rows WHERE kind = 'unknown' AND says = '{name}'"
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
