"""What rows and settings of a log mean that do not say more; the settings' are Kafka's defaults."""

from fencepost.broker import log
from tests.struct_defaults import Defaults, defaults_in

DEFAULTS: Defaults = {
    "cleaned_end.CleanedEnd": {"is_as_written": False},
    "cleaner.Cleaned": {
        "bytes_read": 0,
        "bytes_written": 0,
        "records_read": 0,
        "records_written": 0,
        "keys": 0,
    },
    "epoch_check.Difference": {"is_unknown": False},
    "offset_checkpoint.Offsets": {"senseless": 0},
    "producer_state.Producer": {
        "epoch": -1,
        "coordinator_epoch": -1,
        "last_timestamp_ms": -1,
        "transaction_first": -1,
        "marker_version": 0,
        "seen_ms": -1,
    },
    "recovery.Recovered": {
        "epochs_known": False,
        "cleaned_end": 0,
        "flushed_end": 0,
        "end": 0,
        "durable_end": 0,
    },
    "shapes.Appended": {"log_append_time_ms": -1, "flush_due": False},
    "shapes.LogConfig": {
        "segment_bytes": 1073741824,
        "retention_ms": 604800000,
        "segment_ms": 604800000,
        "retention_bytes": -1,
        "delete": True,
        "compact": False,
        "delete_retention_ms": 86400000,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": 9223372036854775807,
        "min_cleanable_dirty_ratio": 0.5,
        "message_bytes_max": 1048588,
        "index_interval_bytes": 4096,
        "index_bytes_max": 10485760,
        "segment_jitter_ms": 0,
        "flush_messages": 9223372036854775807,
        "producer_expiration_ms": 86400000,
        "gzip_level": -1,
        "lz4_level": 9,
        "zstd_level": 3,
        "log_append_time": False,
        "timestamp_after_ms_max": 3600000,
        "timestamp_before_ms_max": 9223372036854775807,
        "verification": True,
    },
}


def test_none_of_them_changes() -> None:
    assert defaults_in(log) == DEFAULTS
