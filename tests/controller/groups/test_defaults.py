"""What messages, rows and settings mean that do not say more."""

from fencepost.controller import groups
from tests.struct_defaults import Defaults, defaults_in

DEFAULTS: Defaults = {
    "describe.DescribeGroups": {"include_authorized_operations": False},
    "describe.DescribedGroup": {"error_code": 0, "authorized_operations": -2147483648},
    "identity.Identity": {"generation": -1},
    "joining.GroupLimits": {
        "session_timeout_ms_min": 6000,
        "session_timeout_ms_max": 1800000,
        "members_max": 2000,
    },
    "joining.JoinGroup": {"knows_required_ids": True, "skips_assignment": True},
    "joining.JoinGroupAnswer": {"skip_assignment": False},
    "joining.Phase": {"is_open": False},
    "offset_expiry.Forgotten": {"offsets": 0, "groups": 0},
    "offset_messages.CommitOffsets": {"retention_ms": -1, "says_not_found": True},
    "offset_messages.CommitTransactionOffsets": {"knows_abortable": True, "adds_offsets": False},
    "offset_messages.FetchOffsets": {"require_stable": False, "waits": True},
    "offset_messages.FetchedGroup": {"code": 0},
    "offset_messages.FetchedOffset": {"offset": -1, "leader_epoch": -1, "code": 0},
    "offset_messages.GroupQuery": {"member_epoch": -1},
    "offset_messages.OffsetToCommit": {"leader_epoch": -1},
    "offset_messages.PartitionCode": {"code": 0},
    "offset_tables.KeptOffset": {"committer": -1, "generation": -1, "is_identified": False},
    "offset_tables.OffsetCounts": {"committed": 0, "pending": 0, "transactions": 0},
    "offsets.OffsetRules": {
        "metadata_characters_max": 4096,
        "parks_old_clients": False,
        "refuses_all_without_identity": False,
    },
    "tables.Group": {"state_ms": -1, "member_bytes": 0},
}


def test_none_of_them_changes() -> None:
    assert defaults_in(groups) == DEFAULTS
