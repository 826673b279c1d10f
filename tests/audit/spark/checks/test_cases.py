"""Cases of the checks by hand, on Spark: what is found is what the embedded engine finds, and the cases
say."""

from typing import TYPE_CHECKING

import pytest

from tests.audit.checks.cases import CASES
from tests.audit.checks.judged import NAMES, Rules, expected_of, rules_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_one_fault_is_one_finding(few: "SparkSession") -> None:
    from fencepost.audit.engine.spark import SparkEngine

    judged: dict[bool, Rules] = {apart: rules_of(SparkEngine(few), apart=apart) for apart in (False, True)}
    found = {name: judged[CASES[name][2]].get(number, []) for number, name in enumerate(NAMES)}
    assert found == {name: expected_of(number) for number, name in enumerate(NAMES)}
