"""LogLevels, API key 20057, version 0: say the log level in force, or raise it. To the active controller.

A private API, beside Kafka's UpdateFeatures (57). docs/api-keys.md has its documents.

Refused     INVALID_REQUEST (42) with the reason: a bound voter reads less or is not connected, or the level
            would go down. Nothing was done.
Allowed     to principals with ALTER on the cluster; to describe, with DESCRIBE.
"""

from typing import Final

import msgspec

from fencepost.controller.levels import LogLevels
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import Json, private_api


class AskLogLevels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describe, or raise to ``log_level``."""

    log_level: int | None = None


LOG_LEVELS: Final = private_api(20057, "LogLevels", Json(AskLogLevels), Json(LogLevels), (CONTROLLER,))
