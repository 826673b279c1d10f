"""docs/limits.md says of requests, transactions and groups what is in force; Kafka's numbers are Kafka's."""

from fencepost.controller import (
    acls,
    broker_configs,
    brokers,
    config_changes,
    migration,
    partition_creation,
    producer_ids,
    quota,
    scram,
    scram_types,
    topic_creation,
    topic_deletion,
    topics,
    view,
    voters,
)
from fencepost.controller.groups import (
    assigned_partitions,
    joining,
    offset_deletion,
    offset_tables,
    offsets,
    tables,
)
from fencepost.controller.transactions import (
    add_partitions,
    commit_offsets,
    describe,
    fencing,
    group_init,
    states,
)
from tests.limits_page import missing
from tests.together import table

LIMITS: dict[str, tuple[int, ...]] = {
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
    "partitions, for a topic that is created by being": (topic_creation.AUTO_CREATED_PARTITIONS_MAX,),
    "ACLs of the cluster": (acls.ACLS_MAX,),
    "ACLs that one CreateAcls adds": (acls.CHANGES_MAX,),
    "bytes of an ACL's resource name": (acls.TEXT_BYTES_MAX,),
    "SCRAM credentials of the cluster": (scram.CREDENTIALS_MAX,),
    "credentials that one AlterUserScramCredentials changes": (scram.CHANGES_MAX,),
    "bytes of a user's name": (scram.USER_BYTES_MAX, scram.SALT_BYTES_MAX),
    "partitions in one answer of DescribeTransactions": (describe.DESCRIBED_PARTITIONS_MAX,),
    "members of a group": (joining.MEMBERS_MAX,),
    "bytes of a group's members": (joining.GROUP_BYTES_MAX,),
    "topics, and bytes, of a member's assignment": (
        assigned_partitions.READ_TOPICS_MAX,
        assigned_partitions.READ_BYTES_MAX,
    ),
    "topics, and bytes, of all assignments of a group": (
        group_init.SEARCHED_TOPICS_MAX,
        group_init.SEARCHED_BYTES_MAX,
    ),
    "bytes of a group id": (tables.GROUP_ID_BYTES_MAX, tables.INSTANCE_ID_BYTES_MAX),
    "protocols of a member": (joining.PROTOCOLS_MAX,),
    "assigned partitions of one InitProducerId": (group_init.ASSIGNED_MAX,),
    "producers that one InitProducerId fences at once": (group_init.RIVALS_MAX,),
    "offsets of one transaction": (commit_offsets.TXN_OFFSETS_MAX,),
    "open transactions with an offset of one partition": (commit_offsets.WAITING_MAX,),
    "offsets of a group that one decision of DeleteGroups": (offset_deletion.TOMBSTONES_MAX,),
    "characters of the text that is committed": (offsets.METADATA_CHARACTERS_MAX,),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"


def test_numbers_that_others_write_or_read_are_these() -> None:
    """Kafka's, by its protocol and its records, and those of rows that earlier versions wrote."""
    kafkas = {
        "int16": (states.EPOCH_MAX, states.CLIENT_EPOCH_MAX),
        "int32": (states.TWO_PHASE_TIMEOUT_MS, producer_ids.BLOCK_LENGTH_MAX),
        "lengths": (topics.TOPIC_NAME_CHARACTERS_MAX, tables.MEMBER_ID_BYTES_MAX),
        "blocks": (producer_ids.BLOCK_LENGTH_DEFAULT, migration.ZOOKEEPER_BLOCK_LENGTH),
        "versions": (states.TWO_PHASE_INIT_VERSION, states.TRANSACTIONS_V2, fencing.RECOVERY_INIT_VERSION),
        "resources": (topics.TOPIC_RESOURCE, broker_configs.BROKER_RESOURCE),
        "brokers": (brokers.FENCE, voters.KRAFT_VERSION),
        "scram": (scram_types.ITERATIONS_MIN, scram_types.ITERATIONS_MAX),
        "throttle": (quota.THROTTLE_MS_MAX,),
    }
    assert kafkas == {
        "int16": (32767, 32766),
        "int32": (2147483647, 2147483647),
        "lengths": (249, 286),
        "blocks": (1000, 1000),
        "versions": (6, 2, 3),
        "resources": (2, 4),
        "brokers": (1, 1),
        "scram": (4096, 16384),
        "throttle": (30000,),
    }
    rows = (states.NEVER_MS, offset_tables.TIMES_BUCKET_MS, view.KEY_BYTES_MAX)
    assert rows == (2**62, 600_000, 480)
