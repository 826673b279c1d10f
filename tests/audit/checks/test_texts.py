"""The texts of the checks: what holds of each of them, whatever the logs are."""

import re

import pytest

from fencepost.audit.checks.catalogue import ANSWERS, CHECKS
from fencepost.audit.checks.relation import Text, Walked
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.jobs.source import RELATIONS

TEXTS = {name: relation for name, relation in RELATIONS.items() if isinstance(relation, Text)}
WITH_NAMES = re.compile(r"(?:\bWITH|,)\s+([a-z_]+) AS \(")
GIVEN = {*TABLES, "moments"}


@pytest.mark.parametrize("name", RELATIONS)
def test_what_is_read_is_there(name: str) -> None:
    relation = RELATIONS[name]
    own = set(WITH_NAMES.findall(relation.sql)) if isinstance(relation, Text) else set()
    assert relation.reads <= {*RELATIONS, *GIVEN, *own}
    assert own.isdisjoint({*RELATIONS, *GIVEN}), "a part of a text would be taken for the relation"


@pytest.mark.parametrize("name", TEXTS)
def test_no_window_is_without_a_partition(name: str) -> None:
    """One without runs on one core and dies on one machine's memory."""
    text = TEXTS[name].sql
    windows = re.findall(r"\bOVER\s*\(\s*(\w+ ?\w*)|\bWINDOW \w+ AS \(\s*(\w+ ?\w*)", text)
    assert {"".join(each) for each in windows} <= {"PARTITION BY"}


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_stands_in_a_text_that_one_dialect_would_read_otherwise(name: str) -> None:
    literals = re.findall(r"'[^']*'", TEXTS[name].sql)
    assert not [each for each in literals if '"' in each or "`" in each or "\\" in each or "unnest(" in each]


def test_every_check_has_its_answer() -> None:
    named = {each for name in CHECKS for each in ANSWERS[name]}
    assert named <= set(RELATIONS)


def test_a_walk_reads_one_relation() -> None:
    walked = [each for each in RELATIONS.values() if isinstance(each, Walked)]
    assert walked
    assert all(each.reads == {each.source} for each in walked)
