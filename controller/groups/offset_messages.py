"""Requests and answers about offsets of groups: API keys 8, 9, 25, 28, 42 and 47, without versions.

Rows are flat: one per partition, those of a topic next to each other, in the order of the request.
"""

from typing import Final

import msgspec

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.identity import Identity
from fencepost.records.types import ProducerId

UNSTABLE_OFFSET: Final = -1000
"""Beside UNSTABLE_OFFSET_COMMIT, where Kafka has -1; see controller/groups/offsets.py."""
NO_OFFSET: Final = -1  # nothing is committed
NO_RETENTION: Final = -1
NO_IDENTITY: Final = Identity()


class OffsetToCommit(msgspec.Struct, frozen=True):
    """The next offset to read of a partition. ``metadata`` None is stored as no text."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class PartitionCode(msgspec.Struct, frozen=True):
    """What became of one partition of a request."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE


class PartitionCodes(msgspec.Struct, frozen=True):
    """The answer of API keys 8 and 28: a row for each partition of the request, in its order."""

    rows: tuple[PartitionCode, ...]


class CommitOffsets(msgspec.Struct, frozen=True):
    """API key 8. ``says_not_found``: a missing group is GROUP_ID_NOT_FOUND, not ILLEGAL_GENERATION (v9)."""

    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    identity: Identity = NO_IDENTITY
    retention_ms: int = NO_RETENTION
    says_not_found: bool = True


class CommitTransactionOffsets(msgspec.Struct, frozen=True):
    """API key 28.

    ``knows_abortable``   the client understands TRANSACTION_ABORTABLE (v4).
    ``adds_offsets``      the client uses transactions V2: it sends no AddOffsetsToTxn (v5).
    """

    transactional_id: str
    group_id: str
    producer_id: ProducerId
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    identity: Identity = NO_IDENTITY
    knows_abortable: bool = True
    adds_offsets: bool = False


class AddOffsets(msgspec.Struct, frozen=True):
    """API key 25: the transaction will commit offsets of that group."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    group_id: str


class GroupQuery(msgspec.Struct, frozen=True):
    """Which offsets of a group are wanted; ``partitions`` None: all that it has. Kafka's classic groups
    ignore member id and epoch."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1


class FetchOffsets(msgspec.Struct, frozen=True):
    """API key 9. ``require_stable``: a partition with an offset of an open transaction is answered 88.

    ``waits``   the client knows that code, and asks again (from version 7 on).
    """

    groups: tuple[GroupQuery, ...]
    require_stable: bool = False
    waits: bool = True


class FetchedOffset(msgspec.Struct, frozen=True):
    """What is committed of one partition; NO_OFFSET where nothing is."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    code: ErrorCode = ErrorCode.NONE


class FetchedGroup(msgspec.Struct, frozen=True):
    """The offsets of one group, or with a ``code`` none of them."""

    group_id: str
    offsets: tuple[FetchedOffset, ...] = ()
    code: ErrorCode = ErrorCode.NONE


class FetchOffsetsAnswer(msgspec.Struct, frozen=True):
    """A row for each group of the request, in its order."""

    groups: tuple[FetchedGroup, ...]


class DeleteGroups(msgspec.Struct, frozen=True):
    """API key 42: forget these groups and their offsets."""

    group_ids: tuple[str, ...]


class DeleteGroupsAnswer(msgspec.Struct, frozen=True):
    """A code for each group, in the order of the request."""

    results: tuple[tuple[str, ErrorCode], ...]


class DeleteOffsets(msgspec.Struct, frozen=True):
    """API key 47: forget what the group committed of these partitions."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
