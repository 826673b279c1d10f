"""What a check is made of: named relations, each a SQL text or a walk over another relation.

Read        what stands after FROM and JOIN in a text. What it names there is made before it, and only what is
            read is made at all.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.audit.walks.walk import Walk

_READS: Final = re.compile(r"\b(?:FROM|JOIN)\s+([a-z_]+)")


class Text(NamedTuple):
    """A relation that is a SELECT over others.

    is_selection    it is most rows of one relation: to keep it would be to keep these twice.
    """

    sql: str
    is_selection: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """The names of what it selects from; those that a WITH of its own defines included."""
        return reads(self.sql)


class Walked(NamedTuple):
    """A relation that a walk makes of the rows of ``source``."""

    walk: Walk
    source: str

    @property
    def reads(self) -> frozenset[str]:
        """The relation that it walks over."""
        return frozenset({self.source})


Relation = Text | Walked
Catalogue = Mapping[str, Relation]


def reads(sql: str) -> frozenset[str]:
    """The names after FROM and JOIN."""
    return frozenset(_READS.findall(sql))
