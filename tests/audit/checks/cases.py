"""Cases of the checks, by hand."""

from tests.audit.checks import election_cases, group_cases, id_cases, log_cases, marker_cases, sound_cases
from tests.audit.checks.case import CASES

__all__ = ["CASES", "election_cases", "group_cases", "id_cases", "log_cases", "marker_cases", "sound_cases"]
