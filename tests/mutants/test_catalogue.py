"""The catalogue of mutants speaks of code and tests that are there. ``make mutants`` runs them."""

import re
from collections import Counter

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.runner import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text("utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_tests_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, function = test.partition("::")
        name = re.escape(function.partition("[")[0])
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), test


def test_names_are_unique() -> None:
    assert Counter(mutant.name for mutant in MUTANTS).most_common(1)[0][1] == 1


def test_product_code_is_broken_not_test_doubles() -> None:
    assert not [mutant.name for mutant in MUTANTS if mutant.file.startswith("tests/")]
