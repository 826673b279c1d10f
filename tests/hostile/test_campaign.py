"""Tens of thousands of hostile frames against real nodes; ``python -m tests.hostile`` sends a million.

Goal        no traceback, no halt, bounded logs; then the demo's transactions run on the same nodes.
Replay      the seed is in the test's id; frames are the same again, but nodes meet them in another order.
"""

from pathlib import Path

import pytest

from tests.harness.nodes import running
from tests.hostile.campaign import NODE_SETTINGS, assert_clean, campaign, transactions_run
from tests.wire.every_api import EVERY_API, NEVER_ANSWERED

pytestmark = pytest.mark.slow

FRAMES = 20_000


@pytest.mark.row("card.7")
@pytest.mark.parametrize("seed", [11], ids="seed-{}".format)
def test_hostile_frames_stop_no_node(tmp_path: Path, seed: int) -> None:
    with running(tmp_path / "cluster", *NODE_SETTINGS) as nodes:
        tally = campaign(nodes, FRAMES, seed, print)
        endings = tally.endings
        assert endings["answered"] > FRAMES / 100
        assert endings["closed"] > FRAMES / 100
        assert endings["stays open"] == 0
        assert set(tally.answered) >= {api.key for api in EVERY_API} - NEVER_ANSWERED
        transactions_run(nodes, print)
        assert_clean(nodes)
