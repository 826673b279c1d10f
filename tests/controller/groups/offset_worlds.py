"""A coordinator in memory that keeps offsets, too: each record of the group log gets its own offset."""

from typing import Any

import msgspec

from fencepost.controller.decision import Decision
from fencepost.controller.groups import offsets
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    NO_IDENTITY,
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchedOffset,
    GroupQuery,
    OffsetToCommit,
    PartitionCodes,
)
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.add_partitions import decide_add_offsets
from fencepost.controller.transactions.commit_offsets import decide_commit_in_transaction
from fencepost.controller.view import ImageHeader
from fencepost.records.group_metadata import GroupMetadata
from fencepost.records.levels import GROUP_LOG
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import ImageVersion, Log, Offset, ProducerId
from tests.controller.groups.worlds import GROUP
from tests.controller.transactions.worlds import ID, ORDERS, Coordinator

RULES = OffsetRules()


class GroupCoordinator(Coordinator):
    """Decides about offsets and applies at once. ``log``: (offset, record) of the group log, for ever."""

    def __init__(self, *groups: GroupMetadata, level: int = GROUP_LOG) -> None:
        super().__init__()
        self.log: list[tuple[Offset, Any]] = []
        self.rules = RULES
        replay_record(self.view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=level))
        for each in groups:
            self.write(each)

    def write(self, record: Any) -> None:
        """Append a record to the group log."""
        at = Offset(self.view.header.log_ends[Log.CONSUMER_OFFSETS])
        replay_record(self.view, record, at)
        self.log.append((at, record))
        first, second, _ = self.view.header.log_ends
        self.view.header = msgspec.structs.replace(self.view.header, log_ends=(first, second, at + 1))

    def applied(self, decision: Decision[Any]) -> Any:
        header = self.view.header
        for record in decision.records:
            if getattr(record, "log", None) is Log.CONSUMER_OFFSETS or type(record).__name__ == "EndMarker":
                self.write(record)
            else:
                replay_record(self.view, record)
        self.written += decision.records
        ends = self.view.header.log_ends
        self.view.header = ImageHeader(
            ImageVersion(header.version + 1), header.controller_epoch, header.leader_id, ends
        )
        if isinstance(decision.response, Exception):
            raise decision.response
        return decision.response

    # -- offsets ------------------------------------------------------------------------------------

    def commit(
        self,
        offset: int = 5,
        *,
        partition: int = 0,
        topic: str = ORDERS,
        by: Identity = NO_IDENTITY,
        group_id: str = GROUP,
        **said: Any,
    ) -> int:
        """The code of one partition's commit."""
        request = CommitOffsets(group_id, (OffsetToCommit(topic, partition, offset),), by, **said)
        return self.code(offsets.decide_commit(self.view, request, self.rules, now_ms=self.now_ms))

    def code(self, decision: Decision[PartitionCodes]) -> int:
        codes: PartitionCodes = self.applied(decision)
        (row,) = codes.rows
        return row.code

    def begin(self, of: str = ID, group_id: str = GROUP) -> tuple[int, int]:
        """A producer with an open transaction that may commit offsets."""
        pair = self.init(of=of)
        self.add_offsets(*pair, of=of, group_id=group_id)
        return pair

    def add_offsets(self, producer_id: int, epoch: int, *, of: str = ID, group_id: str = GROUP) -> None:
        request = AddOffsets(of, ProducerId(producer_id), epoch, group_id)
        self.applied(decide_add_offsets(self.view, request, now_ms=self.now_ms))

    def commit_in(
        self,
        pair: tuple[int, int],
        offset: int = 9,
        *,
        of: str = ID,
        partition: int = 0,
        topic: str = ORDERS,
        by: Identity = NO_IDENTITY,
        group_id: str = GROUP,
        knows_abortable: bool = True,
        adds_offsets: bool = False,
        metadata: str = "",
    ) -> int:
        """The code of one partition's commit in a transaction."""
        request = CommitTransactionOffsets(
            of,
            group_id,
            ProducerId(pair[0]),
            pair[1],
            (OffsetToCommit(topic, partition, offset, metadata=metadata),),
            by,
            knows_abortable,
            adds_offsets,
        )
        return self.code(decide_commit_in_transaction(self.view, request, self.rules, now_ms=self.now_ms))

    def fetched(
        self,
        *,
        partition: int = 0,
        topic: str = ORDERS,
        group_id: str = GROUP,
        require_stable: bool = False,
        waits: bool = True,
    ) -> FetchedOffset:
        query = GroupQuery(group_id, ((topic, partition),))
        (row,) = offsets.fetch(
            self.view, query, self.rules, require_stable=require_stable, waits=waits
        ).offsets
        return row

    def offset(self, **of: Any) -> int:
        return self.fetched(**of).offset
