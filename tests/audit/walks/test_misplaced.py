"""Of a transactional id: the partition of its coordinator, and records in another one."""

import pytest

from fencepost.audit.walks.story import partition_of
from tests.audit.walks.feed import said
from tests.audit.walks.states import States, outcomes, rows_of


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        pytest.param("x", 13, 3, id="of-one-letter"),
        pytest.param("hello", 50, 22, id="of-several"),
        pytest.param("polygenelubricants", 50, 0, id="whose-hash-has-no-absolute-value"),
        pytest.param("\U0001f600", 50, 49, id="of-a-surrogate-pair"),
        pytest.param("payments-of-berlin-7", 1, 0, id="of-one-partition"),
    ],
)
def test_which_partition_an_id_belongs_to(name: str, count: int, expected: int) -> None:
    assert partition_of(name, count) == expected


def test_a_record_in_another_partition_says_nothing_else() -> None:
    states = States(partition_count=13)
    states.transaction()
    states.transaction(name="y")
    assert said(rows_of(states)) == ["states.misplaced"]
    assert len(outcomes(states)) == 1
