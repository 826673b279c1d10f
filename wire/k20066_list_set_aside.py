"""ListSetAside, API key 20066, version 0: work that the active controller has set aside, and why.

A private API, for ``fencepost health`` and ``fencepost transactions``; older versions do not serve it.
docs/api-keys.md has its documents.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.private_api import LIST_BYTES_MAX, Json, private_api

ROWS_MAX: Final = 1_000
"""Rows of one answer, the oldest first; ``total`` says how many there are."""

WEDGED: Final = "wedged"
QUARANTINED: Final = "quarantined"


class ListSetAside(msgspec.Struct, frozen=True):
    """A request for what the active controller has set aside (API key 20066)."""


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """``wedged``: a partition refuses a transaction's marker. ``quarantined``: a row's timers fail."""

    kind: str
    concern: str
    key: str  # the transactional id, or the row's key
    reason: str
    since_ms: int  # by the leader's clock
    partition: str = ""
    code: int = 0


class SetAsideList(msgspec.Struct, frozen=True):
    """The oldest ROWS_MAX, and how many there are."""

    rows: tuple[SetAside, ...] = ()
    total: int = 0


LIST_SET_ASIDE: Final[Api[ListSetAside, SetAsideList]] = private_api(
    20066, "ListSetAside", Json(ListSetAside), Json(SetAsideList, LIST_BYTES_MAX), (BROKER, CONTROLLER)
)
