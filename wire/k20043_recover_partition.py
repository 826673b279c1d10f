"""RecoverPartition, API key 20043, version 0: start a lost partition again, empty. To the controller.

A private API, beside Kafka's ElectLeaders (43). docs/api-keys.md has its documents.

Refused     INVALID_REQUEST (42) with the reason; UNSUPPORTED_VERSION (35) below log level 6.
Allowed     to principals with ALTER on the cluster.
"""

from typing import Final

from fencepost.controller.partition_recovery import PartitionRecovered, RecoverPartition
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import Json, private_api

RECOVER_PARTITION: Final = private_api(
    20043, "RecoverPartition", Json(RecoverPartition), Json(PartitionRecovered), (CONTROLLER,)
)
