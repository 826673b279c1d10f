"""docs/limits.md says of Raft's port, of entries and of what waits for them what is in force."""

from fencepost.controller.groups import offset_deletion
from fencepost.coordinator import parked, transaction_server
from fencepost.coordinator.groups import fetches, offset_server
from fencepost.quorum import draft, handshake, links, messages, proposer, quarantine, refusal_log
from fencepost.snapshots import snapshot
from tests.limits_page import missing
from tests.together import table

LIMITS: dict[str, tuple[float, ...]] = {
    "connections that have not proved the cluster's secret": (links.UNKNOWN_MAX,),
    "a frame before that proof": (handshake.HELLO_BYTES_MAX, links.HANDSHAKE_S),
    "bytes that a peer has not read": (links.BACKLOG_BYTES_MAX,),
    "log lines about refused peers": (refusal_log.AGAIN_S,),
    "a frame of a peer that has proved the secret": (messages.FRAME_BYTES_MAX,),
    "entries of a message": (messages.ENTRIES_MAX,),
    "a snapshot's manifest": (
        snapshot.MANIFEST_BYTES_MAX,
        messages.CHUNK_BYTES_MAX,
        messages.NAME_MAX,
        messages.REFUSED_MAX,
    ),
    "transactions of one AddPartitionsToTxn": (transaction_server.ADDED_MAX,),
    "ids of one DescribeTransactions": (transaction_server.DESCRIBED_MAX,),
    "records of one decision": (draft.DECISION_BYTES_MAX,),
    "decisions that share an entry": (draft.DECISIONS_MAX,),
    "offsets of one OffsetCommit or OffsetDelete": (offset_server.COMMITTED_MAX,),
    "offsets that one decision of OffsetFetch reads": (fetches.READ_MAX,),
    "offsets of a group that one decision of DeleteGroups": (offset_deletion.TOMBSTONES_MAX,),
    "requests that wait for a decision": (proposer.PENDING_MAX,),
    "requests parked until a transaction completes": (parked.PARKED_MAX,),
    "rows that timers have set aside": (quarantine.QUARANTINED_MAX,),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"
