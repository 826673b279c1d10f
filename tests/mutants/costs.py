"""What is broken on purpose where a request is made cheaper."""

from typing import Final

from tests.mutants.mutant import Mutant

COSTS: Final = (
    Mutant(
        "rows-mixed-up",
        "what decisions of one entry read is remembered by its table and its key",
        "controller/view.py",
        "        at = (table, key)\n",
        "        at = (table, 0)\n",
        ("tests/controller/test_view.py::test_an_overlay_of_one_entry_reads_as_any_other",),
    ),
)
