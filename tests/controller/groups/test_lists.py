"""Which groups a list selects."""

import pytest

from fencepost.controller.groups.describe import Filters, ListedGroup, ListGroups
from tests.together import table

GROUP = ListedGroup("readers", "consumer", "Stable")


@table(
    ("states", "types", "selected"),
    [
        pytest.param((), (), True, id="no-filter"),
        pytest.param(("stable",), (), True, id="its-state-in-any-case"),
        pytest.param(("Empty", "Stable"), (), True, id="one-of-two-states"),
        pytest.param(("Empty",), (), False, id="another-state"),
        pytest.param((), ("Classic",), True, id="its-type"),
        pytest.param((), ("consumer",), False, id="another-type"),
        pytest.param(("Stable",), ("consumer",), False, id="its-state-and-another-type"),
        pytest.param(("Empty",), ("classic",), False, id="its-type-and-another-state"),
        pytest.param(("no such state",), (), False, id="an-unknown-state"),
    ],
)
def test_a_list_selects_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], selected: bool
) -> None:
    assert Filters(ListGroups(states, types)).select(GROUP) is selected
