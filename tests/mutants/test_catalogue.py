"""The catalogue of mutants speaks of code and tests that are there. ``make mutants`` runs them."""

import re
from collections import Counter
from functools import cache

import pytest

from tests.conftest import COLLECTED
from tests.mutants.catalogue import MUTANTS
from tests.mutants.runner import ROOT, outcomes_of


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


@cache
def functions_of(file: str) -> set[str]:
    """The names of the functions at the top of a file, and of those of its classes."""
    return set(re.findall(r"^(?: {4})?def (\w+)\(", text_of(file), re.MULTILINE))


def test_the_text_of_each_is_there_once() -> None:
    assert not [
        each.name for each in MUTANTS if text_of(each.file).count(each.old) != 1 or each.old == each.new
    ]


def test_the_tests_of_each_are_there() -> None:
    assert not [each.name for each in MUTANTS if not each.tests]
    named = {(each.name, *test.split("[")[0].split("::")) for each in MUTANTS for test in each.tests}
    assert not sorted(test for test in named if test[-1] not in functions_of(test[1]))


def test_the_cases_of_each_are_there(request: pytest.FixtureRequest) -> None:
    """Of the files that this run was given whole."""
    collected = request.config.stash[COLLECTED]
    files = {test.partition("::")[0] for test in collected}
    files -= {argument.partition("::")[0] for argument in request.config.args if "::" in argument}
    cases = {test for each in MUTANTS for test in each.tests if test.endswith("]")}
    assert not sorted(test for test in cases if test.partition("::")[0] in files and test not in collected)


def test_names_are_unique() -> None:
    assert Counter(mutant.name for mutant in MUTANTS).most_common(1)[0][1] == 1


def test_product_code_is_broken_not_test_doubles() -> None:
    assert not [mutant.name for mutant in MUTANTS if mutant.file.startswith("tests/")]


def test_a_parametrized_test_fails_if_one_of_its_cases_does() -> None:
    summary = "PASSED a.py::one[1]\nFAILED a.py::one[2] - assert 1\nPASSED a.py::one[3]\nPASSED a.py::two\n"
    assert outcomes_of(summary) == {
        "a.py::one[1]": True,
        "a.py::one[2]": False,
        "a.py::one[3]": True,
        "a.py::one": False,
        "a.py::two": True,
    }
