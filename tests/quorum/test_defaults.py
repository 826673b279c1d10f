"""What messages, rows and settings mean that do not say more."""

from fencepost import quorum
from fencepost.records.levels import LEVEL_MAX
from tests.struct_defaults import Defaults, defaults_in

DEFAULTS: Defaults = {
    "handshake.LinkConfig": {"log_level_max": LEVEL_MAX},
    "in_flight.InFlight": {"deferrable": 0},
    "linger.Linger": {"_expected": 0, "_until_s": 0.0, "_rests": 0, "_rests_next": 1},
    "messages.SnapshotAck": {"installed": False},
    "port.Request": {"deferrable": False, "throttle_ms": 0},
    "replica_config.ReplicaConfig": {
        "heartbeat_s": 0.05,
        "snapshot_entries": 50000,
        "snapshot_bytes": 16777216,
        "segment_bytes": 67108864,
        "archive_bytes_max": -1,
        "group_archive_bytes_max": -1,
        "log_level_max": LEVEL_MAX,
        "log_level_formatted": 0,
        "sync": True,
    },
}


def test_none_of_them_changes() -> None:
    assert defaults_in(quorum) == DEFAULTS
