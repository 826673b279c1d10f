"""docs/limits.md says of groups and their offsets what is in force; Kafka's numbers are Kafka's."""

from fencepost.controller.groups import (
    assigned_partitions,
    joining,
    offset_deletion,
    offset_tables,
    offsets,
    tables,
)
from tests.limits_page import missing
from tests.together import table

LIMITS: dict[str, tuple[int, ...]] = {
    "members of a group": (joining.MEMBERS_MAX,),
    "bytes of a group's members": (joining.GROUP_BYTES_MAX,),
    "topics, and bytes, of a member's assignment": (
        assigned_partitions.READ_TOPICS_MAX,
        assigned_partitions.READ_BYTES_MAX,
    ),
    "bytes of a group id": (tables.GROUP_ID_BYTES_MAX, tables.INSTANCE_ID_BYTES_MAX),
    "protocols of a member": (joining.PROTOCOLS_MAX,),
    "offsets of a group that one decision of DeleteGroups": (offset_deletion.TOMBSTONES_MAX,),
    "characters of the text that is committed": (offsets.METADATA_CHARACTERS_MAX,),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"


def test_numbers_of_kafkas_and_of_rows_are_these() -> None:
    assert (tables.MEMBER_ID_BYTES_MAX, offset_tables.TIMES_BUCKET_MS) == (286, 600_000)
    assert offset_tables._PARTITION_MAX == 2147483647
