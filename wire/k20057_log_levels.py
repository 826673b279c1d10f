"""LogLevels, API key 20057, version 0: say the log level in force, or raise it. To the active controller.

A private API, beside Kafka's UpdateFeatures (57). The bodies carry JSON (wire/json_api.py):

request     {"log_level": null}             describe
            {"log_level": 1}                raise to 1; again at 1 changes nothing
response    {"log_level": 1,                in force, after the request
             "log_level_max": 1,            what the active controller reads
             "voters": [{"node_id": 1, "log_level_max": 1},          what each bound voter reads, by its
                        {"node_id": 2, "log_level_max": null}]}      handshake; null: it is not connected

Refused     INVALID_REQUEST (42) with the reason: a bound voter reads less or is not connected, or the level
            would go down. Nothing was done.
Allowed     to principals with ALTER on the cluster; to describe, with DESCRIBE.
"""

from typing import Final

import msgspec

from fencepost.controller.levels import LogLevels
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.json_api import json_api


class AskLogLevels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describe, or raise to ``log_level``."""

    log_level: int | None = None


LOG_LEVELS: Final = json_api(20057, "LogLevels", AskLogLevels, LogLevels, (CONTROLLER,))
