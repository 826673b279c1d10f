"""A fake cluster with a consumer group, for the commands that look at it and change it."""

import struct
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsAnswer,
    ListedGroup,
    ListGroupsAnswer,
)
from fencepost.controller.groups.offset_messages import (
    CommitOffsets,
    FetchedGroup,
    FetchedOffset,
    FetchOffsetsAnswer,
    PartitionCode,
    PartitionCodes,
)
from fencepost.wire.dispatch import Api
from fencepost.wire.k02_list_offsets import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    ListOffsets,
    ListOffsetsAnswer,
    OffsetFound,
)
from fencepost.wire.k03_metadata import (
    PartitionMetadata,
    TopicMetadata,
)
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS
from tests.cli.fake_broker import BROKER_ID, Answer, FakeBroker
from tests.harness.command import Result, contents, here

START, END = 10, 100  # of each partition's log
NOW_MS = 1_760_000_000_000
TOPICS = (
    TopicMetadata(
        name="t",
        partitions=tuple(PartitionMetadata(partition_index=each, leader_id=BROKER_ID) for each in range(3)),
    ),
)


def assignment(topic: str, *indexes: int) -> bytes:
    """As a consumer's leader writes it: version 0, no user data."""
    return (
        struct.pack(">hih", 0, 1, len(topic))
        + topic.encode()
        + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        + struct.pack(">i", -1)
    )


MEMBER = DescribedMember("m-1", None, "app", "/127.0.0.1", assignment=assignment("t", 1, 0))
STATIC = DescribedMember("m-2", "blue", "app", "/127.0.0.1", assignment=assignment("t", 2))
STABLE = DescribedGroup("g", state="Stable", protocol_type="consumer", protocol="range", members=(MEMBER,))
EMPTY = DescribedGroup("g", state="Empty", protocol_type="consumer")
MISSING = DescribedGroup("g", ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.", "Dead")
LISTED = (ListedGroup("g", "consumer", "Stable"), ListedGroup("workers", "connect", "Stable"))
READ = (
    FetchedOffset("t", 0, 40, 5),
    FetchedOffset("gone", 0, 7),
    FetchedOffset("t", 2, 120),
    FetchedOffset("t", 1),  # nothing is committed
)


class Cluster:
    """A fake broker that knows group ``g``. ``answers`` are of the broker from the first command on."""

    def __init__(self, stack: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
        self._stack = stack
        self._capsys = capsys
        self.group = STABLE
        self.broker: FakeBroker | None = None
        self.answers: dict[Api[Any, Any], Answer] = {
            DESCRIBE_GROUPS: lambda _request: DescribeGroupsAnswer((self.group,)),
            OFFSET_FETCH: lambda _request: FetchOffsetsAnswer((FetchedGroup("g", READ),)),
            LIST_OFFSETS: self._offsets,
            LIST_GROUPS: lambda _request: ListGroupsAnswer(LISTED),
            OFFSET_COMMIT: self._commit,
        }

    def _offsets(self, request: ListOffsets) -> ListOffsetsAnswer:
        known = {EARLIEST: START, LATEST: END, NOW_MS - 1000: 70}
        return ListOffsetsAnswer(
            tuple(
                OffsetFound(each.topic, each.index, offset=known.get(each.timestamp_ms, -1))
                for each in request.partitions
            )
        )

    def _commit(self, request: CommitOffsets) -> PartitionCodes:
        return PartitionCodes(tuple(PartitionCode(each.topic, each.partition) for each in request.offsets))

    def run(self, *words: object) -> Result:
        if self.broker is None:
            self.broker = FakeBroker(self.answers, TOPICS)
            self._bootstrap = self._stack.enter_context(self.broker.serving())
        return here(self._capsys, "groups", *words, "--bootstrap-server", self._bootstrap)

    def document(self, *words: object, status: int = 0) -> Any:
        said = self.run(*words, "--format", "json")
        assert said.status == status, said.stderr
        return contents(said.stdout)

    def asked(self, kind: type) -> list[Any]:
        assert self.broker is not None
        return [each for each in self.broker.asked if isinstance(each, kind)]
