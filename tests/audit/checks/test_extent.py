"""Up to where the metadata log tells of ids, where bytes of it cannot be read."""

from typing import TYPE_CHECKING

import pytest

from tests.audit.checks.judged import rules_of
from tests.audit.checks.rows import Story, relations

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine

FOREIGN = 10**9


@pytest.mark.parametrize(
    ("hidden", "rule"),
    [
        pytest.param(0, "ids.outside_blocks", id="before-a-block"),
        pytest.param(1, "?ids.outside_blocks", id="where-there-may-be-a-block-above-all"),
    ],
)
def test_bytes_that_cannot_be_read_hide_blocks_behind_the_last_one_only(
    engine: "Engine", hidden: int, rule: str
) -> None:
    story = Story(0)
    blocks = [story.block(100), story.block(200)]
    story.hide(blocks[hidden], "unreadable")
    story.data(producer=FOREIGN, transactional=False)
    found = rules_of(relations(engine, [story]))
    assert [each for rules in found.values() for each in rules if each.endswith("outside_blocks")] == [rule]
