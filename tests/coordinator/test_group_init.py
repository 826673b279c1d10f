"""Group-aware InitProducerId at the coordinator: it waits for others' markers, and is answered once."""

import pytest

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.coordinator.parked import PARK_S_MAX
from fencepost.records.group_metadata import GroupMetadata
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.transaction_log import TopicPartitions
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.group_worlds import assignment
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import Answer
from tests.node.conftest import MakeStage

M = "member-1"
OLD = ("old-0", "old-1")


def moved(make_stage: MakeStage) -> Bench:
    """Two producers have a transaction open, each for a partition of its own; both move to another member."""
    bench = Bench(make_stage())
    bench.elect()
    level = FeatureLevelRecord(name=LOG_LEVEL, feature_level=LEVEL_MAX)
    bench.decide(lambda view, now_ms: Decision((level,), None))
    for broker_id in (1, 2):
        bench.register(broker_id)
    bench.create(TOPIC, 1, 2)
    for index, name in enumerate(OLD):
        rebalanced(bench, 1 + index, index)
        asked = ask(bench, index, of=name, generation=1 + index)
        bench.settle()
        pair = (asked.answered().producer_id, asked.answered().producer_epoch)
        bench.add(name, pair, index)
        bench.settle()
    rebalanced(bench, 3, 0, 1)
    return bench


def rebalanced(bench: Bench, generation: int, *indexes: int) -> None:
    record: GroupMetadata = group(member(M, assignment=assignment(*indexes)), generation=generation)
    bench.decide(lambda view, now_ms: Decision((record,), None))


def ask(bench: Bench, *indexes: int, of: str | None = "new", generation: int = 3) -> Answer:
    said = MemberAssignment(GROUP, generation, (TopicPartitions(TOPIC, indexes),), M)
    return bench.ask(bench.server.init_producer_id, InitProducerId(of, 60_000, init_version=6, member=said))


@pytest.mark.parametrize("of", ["new", None], ids=["an-id", "no-id"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "the-other-first"])
def test_it_is_parked_until_the_last_marker_is_written(
    make_stage: MakeStage, of: str | None, order: tuple[int, int]
) -> None:
    bench = moved(make_stage)
    asked = ask(bench, 0, 1, of=of)
    bench.settle()
    assert [bench.state(each) for each in OLD] == ["PrepareAbort", "PrepareAbort"]
    assert bench.server.counts.fenced == 2
    assert len(bench.sent) == 2, "markers are sent at once"
    for index in order:
        assert asked.answered() is ...
        bench.sent[index].answer()
        bench.settle()
    assert asked.answered().producer_epoch == 0
    assert asked.answered().transactional_id == (of or f"{GROUP}-{asked.answered().producer_id}")
    assert [bench.state(each) for each in OLD] == ["CompleteAbort", "CompleteAbort"]
    assert bench.server.counts.parked == 0


def test_it_is_a_51_when_markers_take_too_long_and_the_next_request_waits_as_well(
    make_stage: MakeStage,
) -> None:
    bench = moved(make_stage)
    asked = ask(bench, 0, 1)
    bench.wait(PARK_S_MAX + 0.1)
    assert asked.answered() == ErrorCode.CONCURRENT_TRANSACTIONS
    again = ask(bench, 0, 1)
    bench.settle()
    assert again.answered() is ...
    for sent in list(bench.sent):
        sent.answer()
    bench.settle()
    assert again.answered().producer_epoch == 0


def test_what_is_refused_is_answered_at_once_and_sends_no_marker(make_stage: MakeStage) -> None:
    bench = moved(make_stage)
    asked = ask(bench, 0, 1, generation=2)
    bench.settle()
    assert asked.answered() == ErrorCode.ILLEGAL_GENERATION
    assert (bench.sent, [bench.state(each) for each in OLD]) == ([], ["Ongoing", "Ongoing"])
