"""How numbers are found in a row of docs/limits.md."""

import pytest

from tests import limits_page
from tests.limits_page import missing
from tests.together import table


@table(
    ("number", "is_said"),
    [(64, True), (65, False), (6, False), (4, False), (4096, True), (4097, False), (2.0, True), (2.5, False),
     (512, False), (512 * 1024, True), (512 * 1024 + 1, False), (8 * 1024 * 1024, True), (8, False)],
)  # fmt: skip
def test_a_number_is_said_as_it_is_or_in_a_unit(number: float, is_said: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            limits_page, "PAGE", "| a frame | - | 64, 4096 and 2 s, 512 KiB of 8 MiB | closed |\n| other |"
        )
        assert missing("a frame", (number,)) == ([] if is_said else [number])
