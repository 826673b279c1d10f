"""SyncGroup from version 5 on names the protocol and its type (KIP-559)."""

import pytest
from msgspec.structs import replace

from fencepost.controller.group_errors import InconsistentGroupProtocol
from fencepost.wire.k14_sync_group import SYNC_GROUP
from tests.together import table
from tests.wire.group_rows import SYNC

NAMELESS = [
    pytest.param({"protocol_type": None}, id="no-type"),
    pytest.param({"protocol": None}, id="no-protocol"),
    pytest.param({"protocol_type": None, "protocol": None}, id="neither"),
]


@table("left_out", NAMELESS)
def test_a_request_without_its_protocol_is_refused_whatever_the_rights(left_out: dict[str, None]) -> None:
    """As Apache Kafka 4.1.1, which looks at it before it looks at ACLs: so it is refused as it is read."""
    request = replace(SYNC.request, **left_out)
    with pytest.raises(InconsistentGroupProtocol):
        SYNC_GROUP.decode_request(5, memoryview(SYNC_GROUP.encode_request(5, request)))
    before = SYNC_GROUP.decode_request(4, memoryview(SYNC_GROUP.encode_request(4, request)))
    assert before == SYNC.visible_request(4, request)
    assert SYNC_GROUP.newest_for is not None
    assert (SYNC_GROUP.newest_for(request), SYNC_GROUP.newest_for(SYNC.request)) == (4, 5)
