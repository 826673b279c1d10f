"""AnnouncePartitions, API key 20024, version 0: the coordinator announces to a partition leader who writes.

A private API from the active controller to brokers. It says, before the first batch comes, what the broker
would learn by AddPartitionsToTxn with VerifyOnly (KIP-890): in the image of ``image_version`` this producer's
transaction is open and holds these partitions. It is never needed: a broker without it verifies the batch. So
it has no response, either; a refusal closes the connection. docs/api-keys.md has its fields.
"""

from typing import Final

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, Api, Unanswered
from fencepost.wire.errors import message_of
from fencepost.wire.private_api import INT16, INT32S, INT64, NOTHING, STRING, Fields, array_of, private_api
from fencepost.wire.request_limits import TOPIC_LISTS

PARTITIONS_MAX: Final = 5_000
"""Partitions in one request: then any distribution is below ELEMENTS_MAX."""


class Announcement(msgspec.Struct, frozen=True):
    """A producer's open transaction holds these partitions: ((topic, (partition, ...)), ...)."""

    producer_id: int
    producer_epoch: int
    image_version: int
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class AnnouncePartitions(msgspec.Struct, frozen=True):
    """Of many transactions, in the order in which they were decided."""

    announcements: tuple[Announcement, ...]


def _unanswered(request: AnnouncePartitions, outcome: ApiError | None) -> Unanswered:
    return Unanswered(None if outcome is None else message_of(outcome))


_TOPIC: Final = Fields[tuple[str, tuple[int, ...]]](topic=STRING, partitions=INT32S)
_ANNOUNCEMENT: Final = Fields(
    Announcement,
    producer_id=INT64,
    producer_epoch=INT16,
    image_version=INT64,
    topics=array_of(_TOPIC),
)

ANNOUNCE_PARTITIONS: Final[Api[AnnouncePartitions, None]] = private_api(
    20024,
    "AnnouncePartitions",
    Fields(AnnouncePartitions, announcements=array_of(_ANNOUNCEMENT)),
    NOTHING,
    (BROKER,),
    is_compact=True,
    has_message=False,
    refused=b"",
    request_bytes_max=TOPIC_LISTS,  # 5,000 partitions, each with an id of its own at worst
    unanswered=_unanswered,
)
