"""ListSetAside, API key 20066, version 0: what the active controller does not get done, and why.

A private API, for ``fencepost health`` and ``fencepost transactions``. Older versions do not serve it.

request     length i32 | {}
response    as wire/json_api.py says |
            {"rows": [{"kind": "wedged", "concern": "marker", "key": "orders-1", "partition": "payments-3",
                       "code": 47, "reason": "...", "since_ms": 1760000000000}],
             "total": 1}
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.json_api import LIST_BYTES_MAX, json_api

ROWS_MAX: Final = 1_000
"""Rows of one answer, the oldest first; ``total`` says how many there are."""

WEDGED: Final = "wedged"
QUARANTINED: Final = "quarantined"


class ListSetAside(msgspec.Struct, frozen=True):
    """API key 20066."""


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


LIST_SET_ASIDE: Final[Api[ListSetAside, SetAsideList]] = json_api(
    20066, "ListSetAside", ListSetAside, SetAsideList, (BROKER, CONTROLLER), response_bytes_max=LIST_BYTES_MAX
)
