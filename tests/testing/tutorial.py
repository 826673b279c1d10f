"""docs/tutorial.md as its reader follows it: the application, its test, and the three bugs to put in."""

import re
from pathlib import Path
from typing import Final

PAGE: Final = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
PRODUCE: Final = "            self.producer.produce(self.topic, order)\n"
COMMIT: Final = "            while not self.committed():\n                pass\n"
BUGS: Final = {
    "early_commit": (PRODUCE + COMMIT, COMMIT + PRODUCE),
    "unknown_ignored": ("            return False\n", "            return True\n"),
    "id_reused": ('"transactional.id": f"{topic}-{shop}"', '"transactional.id": topic'),
}
"""By name: a text of the application, and what the page says to make of it."""

CAUSES: Final = {
    "early_commit": r"The application committed before it produced, .* \(_STATE: .* 'orders-[-\d]+-north' "
    r"\(producer \d+, epoch 0, since \+[\d.]+ s\) has produced nothing in a transaction",
    "unknown_ignored": r"The application ignored an unknown outcome: the commit of 'orders-[-\d]+-north' "
    r"\(producer \d+, epoch 0\), .* \(_CONFLICT: ",
    "id_reused": r"Two producers use the transactional id 'orders-[-\d]+' at the same time: .*, epoch 0\); "
    r".*, epoch 1\), and so fenced the first\. .* was refused with INVALID_PRODUCER_EPOCH\.",
}
"""What the report of each has to say."""

FENCED: Final = r"orders-[-\d]+: producer \d+, epoch 0 was fenced by a new instance \(client id 'rdkafka'\)"
"""What happened, of the reused id."""


def write_files(folder: Path) -> None:
    """The files of the page, and of each bug a copy: ``shop_BUG.py`` and ``test_BUG.py``."""
    application, test = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (folder / "shop.py").write_text(application)
    (folder / "test_shop.py").write_text(test)
    for name, (right, wrong) in BUGS.items():
        assert application.count(right) == 1, name
        (folder / f"shop_{name}.py").write_text(application.replace(right, wrong))
        (folder / f"test_{name}.py").write_text(test.replace("from shop ", f"from shop_{name} "))


def report_of(output: str, test_file: str) -> str:
    """What pytest printed of the failed test of a file, on one line."""
    (report,) = [each for each in re.split(r"\n_{5,} test_\w+ _{5,}\n", output) if f"\n{test_file}:" in each]
    return " ".join(report.split())
