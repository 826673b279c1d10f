"""What every test shares: reproducible runs of Hypothesis.

Markers (pyproject.toml): ``row("730.1")`` ties an end-to-end test to a row of tests/rows.tsv; ``slow`` keeps
a test out of ``make check``.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
