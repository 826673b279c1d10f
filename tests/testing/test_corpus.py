"""The corpus of known bugs: what it has, and that the kit tells a wrong application from a right one."""

import re
from pathlib import Path

import pytest

from tests.testing.corpus.__main__ import CASES, main

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")


def test_it_has_twenty_bugs_and_the_page_lists_them() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 20
    libraries = {
        "confluent-kafka",
        "aiokafka",
        "kafka-python",
        "fencepost.client",
        "kafkajs",
        "java",
        "sarama",
    }
    assert {case.library for case in CASES} == libraries
    listed = re.findall(r"^\| `([a-z-]+)` \| ([\w. -]+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert listed == [(case.name, case.library, case.bug, case.way) for case in CASES]


@pytest.mark.slow
def test_wrong_applications_are_found_and_right_ones_pass(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("offsets-outside", "commits-anyway", "swallows", "retries")
    chosen = [word for name in names for word in ("--only", name)]
    main(["--nodes", "1", *chosen])  # its status is also of how long they take
    said = capsys.readouterr().out
    assert ("NOT FOUND" in said, said.count("1 of 1")) == (False, len(names)), said
