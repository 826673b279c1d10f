"""ListOffsets and OffsetForLeaderEpoch of many partitions: read in one turn, looked up in others."""

import asyncio
from collections.abc import Callable
from typing import Any

from fencepost.broker.offsets import EPOCHS_MAX, TIMES_MAX, OffsetsEndpoint
from fencepost.controller.errors import ErrorCode
from fencepost.wire.dispatch import Context
from fencepost.wire.k02_list_offsets import LATEST, ListOffsets, OffsetQuery
from fencepost.wire.k23_offset_for_leader_epoch import EpochQuery, OffsetForLeaderEpoch
from fencepost.wire.stalls import Stalls
from tests.together import table
from tests.wire.answering import Answering

CLIENT = Context("User:ANONYMOUS", "PLAINTEXT", None, "127.0.0.1:1")


class Nothing:
    """A broker that hosts no partition, and counts the look-ups."""

    def __init__(self) -> None:
        self.looked_up = 0

    def find(self, _topic: str, _index: int) -> None:
        self.looked_up += 1

    def look_up_first(self, _queries: Any, then: Callable[[], None]) -> None:
        then()

    def code(self, _topic: str, _index: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def asked(kind: str, count: int) -> Any:
    if kind == "times":
        return ListOffsets(tuple(OffsetQuery("t", index, LATEST) for index in range(count)))
    return OffsetForLeaderEpoch(tuple(EpochQuery("t", index, 0) for index in range(count)))


@table(("kind", "most"), [("times", TIMES_MAX), ("epochs", EPOCHS_MAX)])
@table("past", [0, 1], ids=["at-the-bound", "one-past"])
def test_many_are_looked_up_after_the_turn_that_reads_them(kind: str, most: int, past: int) -> None:
    async def story() -> None:
        nothing, answers = Nothing(), []
        endpoint = OffsetsEndpoint(nothing, nothing, stalls=Stalls())  # type: ignore[arg-type]
        serve: Any = endpoint.list_offsets if kind == "times" else endpoint.offset_for_leader_epoch

        def reply(answer: Any, _throttle_ms: int = 0) -> None:
            answers.append(answer)

        serve(asked(kind, most + past), CLIENT, Answering(reply))
        turns = [nothing.looked_up]
        while not answers:
            await asyncio.sleep(0)
            turns.append(nothing.looked_up)
        steps = [after - before for before, after in zip([0, *turns], turns, strict=False)]
        assert sum(steps) == most + past
        assert max(steps) <= most
        assert turns[0] == (0 if past else most)

    asyncio.run(asyncio.wait_for(story(), 20))
