"""ForceMarkers, API key 20027, version 0: end a wedged transaction as it was decided.

A private API, for ``fencepost transactions force-terminate``. Where a partition refuses the marker of a
prepared transaction (47), the same marker is sent again, forced: it applies over a higher epoch. The outcome
stays what it is. docs/api-keys.md has its documents.

Refused     105 for an unknown id, 16 and 14 where it is not coordinated.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.private_api import LIST_BYTES_MAX, Json, private_api


class ForceMarkers(msgspec.Struct, frozen=True):
    """A request to end a wedged transaction by forced markers (API key 20027)."""

    transactional_id: str


class ForcedMarkers(msgspec.Struct, frozen=True):
    """The partitions that are sent their marker again."""

    partitions: tuple[str, ...] = ()


FORCE_MARKERS: Final[Api[ForceMarkers, ForcedMarkers]] = private_api(
    20027, "ForceMarkers", Json(ForceMarkers), Json(ForcedMarkers, LIST_BYTES_MAX), (BROKER, CONTROLLER)
)
