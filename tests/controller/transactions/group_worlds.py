"""A group with two members, their producers, and a follower that reads the bytes of every record."""

import struct
from typing import Any

from fencepost.controller.groups.identity import Identity
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.assignments import ASSIGNMENTS, OWNERS, keys_of
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.view import Overlay
from fencepost.records.group_metadata import GroupMetadata
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.transaction_log import decode_transaction, encode_transaction
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.worlds import ORDERS, TIMEOUT_MS, Coordinator, partitions

A, B = "member-a", "member-b"
PRODUCER_A, PRODUCER_B = "producer-a", "producer-b"
GENERATION = 3


def assignment(*indexes: int, topic: str = ORDERS) -> bytes:
    """What a leader gives a member: Kafka's ConsumerProtocolAssignment, version 0."""
    name = topic.encode()
    return (
        struct.pack(">hih", 0, 1, len(name))
        + name
        + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        + struct.pack(">i", -1)
    )


def shared(first: tuple[int, ...], second: tuple[int, ...], *, generation: int = GENERATION) -> GroupMetadata:
    """The group with the partitions of A and those of B."""
    return group(
        member(A, assignment=assignment(*first)),
        member(B, assignment=assignment(*second)),
        generation=generation,
    )


class LoopCoordinator(GroupCoordinator):
    """See the module. ``rebalance`` gives the members other partitions in the next generation."""

    def __init__(
        self,
        first: tuple[int, ...] = (0, 1),
        second: tuple[int, ...] = (),
        *,
        level: int = LEVEL_MAX,
    ) -> None:
        super().__init__(shared(first, second), level=level)
        self.generation = GENERATION
        self.seen = 0
        self.follower = Overlay(Coordinator().view)

    def raise_level(self) -> None:
        replay_record(self.view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=LEVEL_MAX))

    def rebalance(self, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        self.generation += 1
        self.write(shared(first, second, generation=self.generation))

    def said(
        self, *indexes: int, by: str = "", generation: int | None = None, **more: Any
    ) -> MemberAssignment:
        at = self.generation if generation is None else generation
        named = (partitions(ORDERS, *indexes),) if indexes else ()
        return MemberAssignment(
            **{
                "group_id": GROUP,
                "generation": at,
                "partitions": named,
                "member_id": by,
                **more,
            }
        )

    def init_for(
        self,
        said: MemberAssignment,
        *,
        of: str | None = PRODUCER_A,
        timeout_ms: int = TIMEOUT_MS,
        **more: Any,
    ) -> tuple[int, int]:
        """The pair that a group-aware InitProducerId gives; what it raises is raised."""
        answer = self._init(InitProducerId(of, timeout_ms, init_version=6, member=said, **more))
        assert answer.transactional_id is not None
        self.made = answer.transactional_id
        return answer.producer_id, answer.producer_epoch

    def identity(self, who: str, generation: int | None = None) -> Identity:
        return Identity(who, None, self.generation if generation is None else generation)

    def check(self) -> None:
        """OWNERS is what a scan of ASSIGNMENTS says, and a reader of the log's bytes holds the same rows."""
        wanted: dict[Any, set[str]] = {}
        for name, rows in self.view.items(ASSIGNMENTS):
            for key in keys_of(rows):
                wanted.setdefault(key, set()).add(name)
        found = {key: set(names) for key, names in self.view.items(OWNERS)}
        assert found == wanted
        for record in self.written[self.seen :]:
            if record.__class__.__module__.endswith("transaction_log"):
                replay_record(self.follower, decode_transaction(*encode_transaction(record)))
        self.seen = len(self.written)
        assert list(self.view.items(ASSIGNMENTS)) == list(self.follower.items(ASSIGNMENTS))
        assert list(self.view.items(OWNERS)) == list(self.follower.items(OWNERS))


def moved(*, offsets: bool = True) -> tuple[LoopCoordinator, tuple[int, int]]:
    """Producer A has a transaction open with outputs, and offsets of partition 1, which moves to member B."""
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A))
    world.add(*pair, of=PRODUCER_A)
    if offsets:
        world.add_offsets(*pair, of=PRODUCER_A)
        assert world.commit_in(pair, 9, of=PRODUCER_A, partition=1, by=world.identity(A)) == 0
    world.rebalance((0,), (1,))
    return world, pair
