"""Checks: functions from DataFrames to findings, whose empty result means "passed".

Precedence  integrity > replicas > ids > fencing, epochs > groups.aborted > markers > offsets, sequences >
            hanging, groups: a fault is one finding, of the first check that can name it; the others leave out
            what it hides.
"""

from collections.abc import Callable, Iterable
from typing import Final

from fencepost.audit.plans import (
    blocks,
    epochs,
    fencing,
    groups,
    hanging,
    ids,
    integrity,
    markers,
    offsets,
    replicas,
    sequences,
)
from fencepost.audit.plans.findings import Result, together
from fencepost.audit.plans.inputs import Inputs

CHECKS: Final[dict[str, Callable[[Inputs], Result]]] = {
    each.NAME: each.check
    for each in (
        blocks,
        ids,
        epochs,
        fencing,
        markers,
        hanging,
        groups,
        sequences,
        offsets,
        replicas,
        integrity,
    )
}
"""By name, in the order in which a verdict lists them."""


def run(inputs: Inputs, names: Iterable[str] = tuple(CHECKS)) -> Result:
    """All of ``names`` as one plan. Raises KeyError for a name that is no check's."""
    return together(CHECKS[name](inputs) for name in names)
