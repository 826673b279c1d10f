"""Every relation that a check reads, by name; and of each check the relations that are its answer."""

from typing import Final, NamedTuple

from fencepost.audit.checks import blocks, coordinator, given_out, groups, ids, judged, walked
from fencepost.audit.checks.relation import Catalogue, Text


class Answer(NamedTuple):
    """What a check says: relations of FINDINGS and of UNKNOWN (``fencepost.audit.checks.rows``)."""

    findings: str
    unknown: str


_JOINED: Final = (blocks, ids, groups)

CHECKS: Final = (
    *(
        "blocks",
        "ids",
        "epochs",
        "fencing",
        "markers",
        "hanging",
        "states",
        "coordinator",
        "groups",
        "sequences",
        "offsets",
    ),
    *("replicas", "integrity"),
)
"""In the order in which a verdict lists them."""

ANSWERS: Final = {name: Answer(f"{name}_findings", f"{name}_unknown") for name in CHECKS}
"""By check."""

CATALOGUE: Final[Catalogue] = {
    **walked.CATALOGUE,
    **coordinator.CATALOGUE,
    **given_out.CATALOGUE,
    **judged.CATALOGUE,
    **{name: relation for each in _JOINED for name, relation in each.CATALOGUE.items()},
    **{ANSWERS[each.NAME].findings: each.FINDINGS for each in _JOINED},
    **{ANSWERS[each.NAME].unknown: each.UNKNOWN for each in _JOINED},
    "marker_findings": Text("SELECT * FROM named_rows WHERE kind = 'finding' AND says = 'markers'"),
}
