"""docs/limits.md says of records and of the log cleaner what is in force; Kafka's numbers are Kafka's."""

from fencepost.broker.log import aborted, compaction, producer_state, segment, shapes, validation
from tests.limits_page import missing
from tests.together import table

LIMITS: dict[str, tuple[int, ...]] = {
    "bytes, and batches, for one partition in one request": (
        validation.APPEND_BYTES_MAX,
        validation.BATCHES_MAX,
    ),
    "records of a batch": (validation.RECORDS_MAX,),
    "keys that one pass of the log cleaner knows": (compaction.KEYS_MAX,),
    "opened batches in memory": (validation.OPENED_SMALL_BYTES_MAX,),
    "entries of a list of aborted transactions": (aborted.UNNARROWED_MAX, aborted.BATCHES_MAX),
}


@table("limit", LIMITS)
def test_the_page_has_the_limit_of_the_code(limit: str) -> None:
    assert missing(limit, LIMITS[limit]) == [], f"{LIMITS[limit]} are in force"


def test_numbers_of_kafkas_are_these() -> None:
    assert producer_state.CACHED_BATCHES_MAX == 5
    assert (
        producer_state.SEQUENCE_MAX == segment.RELATIVE_OFFSET_MAX == shapes.SEGMENT_BYTES_MAX == 2147483647
    )
    assert shapes.NEVER == 9223372036854775807
