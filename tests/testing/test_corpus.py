"""The corpus of known bugs: what it has, and that the kit tells a wrong application from a right one."""

import re

import pytest

from tests.clients.players import ROOT
from tests.testing.corpus.__main__ import CASES, main
from tests.testing.corpus.how_to import HOW_TOS

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")


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


def test_the_how_to_pages_have_the_files_that_are_run_and_the_versions_that_are_fetched() -> None:
    blocks = re.compile(r"^```(?:java|go|js|sh)$", re.MULTILINE)
    for page in HOW_TOS:
        assert len(page.files) == len(blocks.findall(page.text)) == 2, page.name
        assert page.command.startswith("fencepost fault run --topic orders ")
        assert f"make kit-corpus ARGS='--only {page.name}'" in page.text
    (java,) = re.findall(r"<dependency>.*?</dependency>", HOW_TOS[0].text, re.DOTALL)
    pom = (ROOT / "tests/clients/java/pom.xml").read_text("utf-8")
    assert "".join(java.split()) in "".join(pom.split())


@pytest.mark.slow
def test_wrong_applications_are_found_and_right_ones_pass(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("offsets-outside", "commits-anyway", "swallows", "retries")
    chosen = [word for name in names for word in ("--only", name)]
    main(["--nodes", "1", *chosen])  # its status is also of how long they take
    said = capsys.readouterr().out
    assert ("NOT FOUND" in said, said.count("1 of 1")) == (False, len(names)), said
