"""What a decision says of the rows that its records write is what they write."""

from typing import Any

import pytest

from fencepost.controller import acls, levels
from fencepost.controller.acl_types import Acl, CreateAcls
from fencepost.controller.decision import Decision
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.groups import offset_deletion
from fencepost.controller.replay import replay_record
from fencepost.controller.view import EmptyView, Overlay, View
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.logged import ROW_COST
from tests.controller.test_scram import decide as decide_scram
from tests.controller.test_scram import sets


def rows_written(view: View, decision: Decision[Any]) -> int:
    over = Overlay(view)
    for record in decision.records:
        replay_record(over, record)
    return sum(len(rows) for rows in over.rows.values())


@pytest.fixture
def view() -> Overlay:
    made = Overlay(EmptyView())
    made.put(FEATURES, levels.LOG_LEVEL, FeatureLevel(LEVEL_MAX))
    return made


def test_of_an_acl(view: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once so many changes were kept, each takes the place of one."""
    monkeypatch.setattr(acls, "CHANGES_KEPT", 1)
    for name in ("a", "b"):
        decision = acls.decide_create(view, CreateAcls((Acl(2, 3, name, "User:a", "*", 3, 3),)))
        for record in decision.records:
            replay_record(view, record)
    decision = acls.decide_create(view, CreateAcls((Acl(2, 3, "c", "User:a", "*", 3, 3),)))
    assert decision.extra_cost == ROW_COST * rows_written(view, decision) == ROW_COST * 5


def test_of_a_credential(view: Overlay) -> None:
    decision = decide_scram(view, sets("a"))
    assert decision.extra_cost == ROW_COST * rows_written(view, decision) == ROW_COST * 2


def test_of_an_offset() -> None:
    """Its row, the index by time and that by topic, the group's counts, and one more for what is pending."""
    assert offset_deletion.FORGOTTEN_COST == 5 * ROW_COST
