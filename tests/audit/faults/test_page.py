"""The page of faults: it says of each what its planter expects, and each has a place in some logs."""

from pathlib import Path

import pytest

from tests.audit.conftest import Recorded
from tests.audit.faults import page
from tests.audit.faults.kinds import ALL
from tests.audit.faults.words import WORDS

VARIANTS = [(kind, variant) for kind, variants in ALL.items() for variant in variants]
IDS = [f"{kind}, {variant}".replace(" ", "-") for kind, variant in VARIANTS]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, recorded: Recorded) -> page.Sources:
    """Clean logs of each kind."""
    return page.unpacked(tmp_path_factory.mktemp("sources"), recorded)


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], str]:
    """What the page says."""
    return page.rows_of(page.PAGE.read_text("utf-8"))


def test_the_page_has_each_fault_in_its_words(rows: dict[tuple[str, str], str]) -> None:
    assert list(rows) == VARIANTS
    assert set(WORDS) == set(ALL)
    text = page.PAGE.read_text("utf-8")
    assert text.startswith(page.HEAD)
    assert [words for words in WORDS.values() if words not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "variant"), VARIANTS, ids=IDS)
def test_a_fault_is_planted_and_expected_as_the_page_says(
    kind: str, variant: str, sources: page.Sources, rows: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    fault = page.planted(sources, kind, variant, tmp_path / "copy")
    assert fault is not None, "no logs have a place for it"
    assert page.expected(fault) == rows[kind, variant]
    for path, position in fault.places():
        assert 0 <= position < path.stat().st_size
    assert fault.places() or fault.files
