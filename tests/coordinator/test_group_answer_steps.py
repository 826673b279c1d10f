"""The answers that one record gives to a whole group: in which order, and in how many steps."""

from typing import Any

import pytest

from fencepost.coordinator.groups import group_operations
from tests.coordinator.coordinator_node import Answer
from tests.coordinator.group_bench import Groups
from tests.node.conftest import MakeStage


@pytest.fixture
def groups(make_stage: MakeStage) -> Groups:
    """A coordinator that leads, with an initial delay of 0."""
    return Groups(make_stage()).lead()


def test_the_loop_is_free_between_answers_and_the_leader_is_answered_first(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record ends a phase of any size; its answers are given two by two here."""
    leader, *others = groups.stable("alice", "bob", "carol", "dave", "erin")
    monkeypatch.setattr(group_operations, "ANSWERS_MAX", 2)
    later: list[Any] = []
    monkeypatch.setattr(groups.server.operations, "_call_later", lambda _seconds, call: later.append(call))
    generation = groups.row.generation
    rejoined = {each: groups.join(each, protocols=(("range", b"other"),)) for each in (*others, leader)}

    def answered(answers: dict[str, Answer]) -> list[list[str]]:
        """Who is answered at once, and then by each step."""
        steps = [[each for each, answer in answers.items() if answer.answered() is not ...]]
        while later:
            later.pop()()
            steps.append([each for each, answer in answers.items() if answer.answered() is not ...])
        return steps

    assert answered(rejoined) == [[others[0], leader], [*others[:3], leader], [*others, leader]]
    assert {answer.answered().generation for answer in rejoined.values()} == {generation + 1}
    synced = {each: groups.sync(each, generation + 1) for each in others}
    synced[leader] = groups.sync(leader, generation + 1, {each: each.encode() for each in rejoined})
    assert [len(each) for each in answered(synced)] == [2, 4, 5]
    assert {each: answer.answered().assignment.decode() for each, answer in synced.items()} == {
        each: each for each in synced
    }
