"""Cases of the checks, by hand."""

from tests.audit.checks import group_cases, id_cases, log_cases, marker_cases, sound_cases
from tests.audit.checks.case import CASES

__all__ = ["CASES", "group_cases", "id_cases", "log_cases", "marker_cases", "sound_cases"]
