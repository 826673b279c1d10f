"""docs/limits.md says of requests what is in force; Kafka's numbers are Kafka's."""

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
from tests.limits_page import missing
from tests.together import table

LIMITS: dict[str, tuple[int, ...]] = {
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
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"


def test_numbers_that_others_write_or_read_are_these() -> None:
    """Kafka's, by its protocol and its records, and those of keys that earlier versions wrote."""
    assert (producer_ids.BLOCK_LENGTH_MAX, topics.TOPIC_NAME_CHARACTERS_MAX) == (2147483647, 249)
    assert (producer_ids.BLOCK_LENGTH_DEFAULT, migration.ZOOKEEPER_BLOCK_LENGTH) == (1000, 1000)
    assert (topics.TOPIC_RESOURCE, broker_configs.BROKER_RESOURCE, brokers.FENCE) == (2, 4, 1)
    assert (voters.KRAFT_VERSION, quota.THROTTLE_MS_MAX, view.KEY_BYTES_MAX) == (1, 30_000, 480)
    assert (scram_types.ITERATIONS_MIN, scram_types.ITERATIONS_MAX) == (4096, 16_384)
