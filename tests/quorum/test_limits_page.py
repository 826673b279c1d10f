"""docs/limits.md says of transactions, timers and entries what the code does."""

from pathlib import Path

from fencepost.controller import config_changes, partition_creation, topic_creation, topic_deletion
from fencepost.controller.groups import offset_deletion, offsets
from fencepost.controller.transactions import add_partitions, commit_offsets, states
from fencepost.coordinator import parked, transaction_server
from fencepost.coordinator.groups import fetches, offset_server
from fencepost.quorum import draft, proposer, quarantine
from tests.together import table

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
LIMITS = {
    "partitions of one transaction": (add_partitions.PARTITIONS_MAX,),
    "topics of one transaction": (add_partitions.TOPICS_MAX,),
    "a transactional id": (states.TRANSACTIONAL_ID_BYTES_MAX,),
    "topics, and partitions, of one CreateTopics": (
        topic_creation.TOPICS_PER_REQUEST_MAX,
        topic_creation.PARTITIONS_PER_REQUEST_MAX,
    ),
    "topics, partitions and settings of one CreateTopics together": (topic_creation.ROWS_PER_REQUEST_MAX,),
    "topics, and partitions, of one DeleteTopics": (
        topic_deletion.TOPICS_PER_REQUEST_MAX,
        topic_deletion.PARTITIONS_PER_REQUEST_MAX,
    ),
    "topics, and new partitions, of one CreatePartitions": (
        partition_creation.TOPICS_PER_REQUEST_MAX,
        partition_creation.PARTITIONS_PER_REQUEST_MAX,
    ),
    "resources, and settings, of one AlterConfigs": (
        config_changes.RESOURCES_PER_REQUEST_MAX,
        config_changes.CHANGES_PER_REQUEST_MAX,
    ),
    "partitions in the cluster": (topic_creation.PARTITIONS_MAX,),
    "partitions, for a topic that is created by being asked for": (
        topic_creation.AUTO_CREATED_PARTITIONS_MAX,
    ),
    "transactions of one AddPartitionsToTxn": (transaction_server.ADDED_MAX,),
    "ids of one DescribeTransactions": (transaction_server.DESCRIBED_MAX,),
    "records of one decision": (draft.DECISION_BYTES_MAX,),
    "decisions that share an entry": (draft.DECISIONS_MAX,),
    "offsets of one transaction": (commit_offsets.TXN_OFFSETS_MAX,),
    "open transactions with an offset of one partition": (commit_offsets.WAITING_MAX,),
    "offsets of one OffsetCommit or OffsetDelete": (offset_server.COMMITTED_MAX,),
    "offsets that one decision of OffsetFetch reads": (fetches.READ_MAX,),
    "offsets of a group that one decision of DeleteGroups": (offset_deletion.TOMBSTONES_MAX,),
    "characters of the text that is committed": (offsets.METADATA_CHARACTERS_MAX,),
    "requests that wait for a decision": (proposer.PENDING_MAX,),
    "requests parked until a transaction completes": (parked.PARKED_MAX,),
    "rows that timers have set aside": (quarantine.QUARANTINED_MAX,),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {limit}")]
    for number in LIMITS[limit]:
        assert str(number) in row, f"{limit}: {number} is in force"
