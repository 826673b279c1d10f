"""Which topics the members of a group read, as far as the group's protocol says so.

Layout   of a consumer's metadata: version i16 | count i32 x topic (i16 length, UTF-8) | more, not read here.
         Any version begins so. Metadata of other protocol types is opaque (Connect), and never read.
Source   Kafka ConsumerProtocolSubscription.json, ClassicGroup.computeSubscribedTopics, .isSubscribedToTopic.
"""

import struct
from functools import lru_cache
from typing import Final

from fencepost.controller.groups import tables
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View

CONSUMER: Final = "consumer"
METADATA_CACHED_MAX: Final = 1_000  # subscriptions of members, decoded

_HEAD: Final = struct.Struct(">hi")  # version | count
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(view: View, group_id: str, group: Group) -> frozenset[str] | None:
    """The topics of all members; None where that cannot be known."""
    if group.protocol_type != CONSUMER:
        return None
    members = tables.members(view, group_id)
    if not members:
        return frozenset()
    if group.protocol is None:
        return None
    found: set[str] = set()
    for each in members:
        topics = topics_in(each.metadata_of(group.protocol))
        if topics is None:
            return None
        found |= topics
    return frozenset(found)


@lru_cache(METADATA_CACHED_MAX)
def topics_in(metadata: bytes) -> frozenset[str] | None:
    """The topics that a consumer's metadata names; None if it is not a consumer's."""
    try:
        _, count = _HEAD.unpack_from(metadata)
        if not 0 <= count <= len(metadata):
            return None
        at, found = _HEAD.size, set()
        for _ in range(count):
            size = _LENGTH.unpack_from(metadata, at)[0]
            at += _LENGTH.size
            if size < 0 or at + size > len(metadata):
                return None
            found.add(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(found)
