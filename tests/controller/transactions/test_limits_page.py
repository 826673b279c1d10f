"""docs/limits.md says of transactions what is in force; Kafka's numbers are Kafka's."""

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
    "partitions in one answer of DescribeTransactions": (describe.DESCRIBED_PARTITIONS_MAX,),
    "topics, and bytes, of all assignments of a group": (
        group_init.SEARCHED_TOPICS_MAX,
        group_init.SEARCHED_BYTES_MAX,
    ),
    "assigned partitions of one InitProducerId": (group_init.ASSIGNED_MAX,),
    "producers that one InitProducerId fences at once": (group_init.RIVALS_MAX,),
    "offsets of one transaction": (commit_offsets.TXN_OFFSETS_MAX,),
    "open transactions with an offset of one partition": (commit_offsets.WAITING_MAX,),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"


def test_numbers_of_kafkas_and_of_rows_are_these() -> None:
    assert (states.EPOCH_MAX, states.CLIENT_EPOCH_MAX, states.TWO_PHASE_TIMEOUT_MS) == (
        32767,
        32766,
        2147483647,
    )
    assert (states.TWO_PHASE_INIT_VERSION, states.TRANSACTIONS_V2, fencing.RECOVERY_INIT_VERSION) == (6, 2, 3)
    assert states.NEVER_MS == 2**62
