"""Some of the requests of ``python -m tests.hostile.insiders``."""

import asyncio
import os

from tests.hostile.insiders import EFFECTS, LEARNED, campaign, unreached

REQUESTS = int(os.environ.get("FENCEPOST_INSIDERS", "1500"))
REACHED_MIN = 6


def test_a_principal_does_and_learns_nothing_without_its_right() -> None:
    """The whole campaign reaches every effect; so few requests reach some of them."""
    insiders = asyncio.run(campaign(REQUESTS, 5))
    assert insiders.broken == []
    reached = {*EFFECTS, *LEARNED} - set(unreached(insiders))
    assert len(reached) >= REACHED_MIN, insiders.reached
