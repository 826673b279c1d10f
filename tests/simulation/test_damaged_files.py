"""What damages files beside a store: of a segment no byte that nothing could have told from a sound one."""

import random
from pathlib import Path

import pytest

from fencepost.records.batch_layout import LEADER_EPOCH_AT
from tests.simulation.files import EPOCH_BYTES, damage_file
from tests.snapshots.archives import BATCH_BYTES, filled, segment

SEEDS = 300


@pytest.mark.parametrize("is_summed", [True, False], ids=["summed", "not-summed"])
def test_epochs_change_only_where_a_sum_covers_them(tmp_path: Path, is_summed: bool) -> None:
    home = tmp_path / "node"
    filled(home / "archive", 4).close()
    path = segment(home / "archive", 0)
    before = path.read_bytes()
    sums = path.with_suffix(".checksums")
    summed = sums.read_bytes() if is_summed else b""
    epochs = set()
    for seed in range(SEEDS):
        path.unlink(missing_ok=True)
        path.write_bytes(before)
        sums.write_bytes(summed)
        what = damage_file(home, random.Random(seed))
        if what is not None and what.startswith("bit") and path.exists():
            after = path.read_bytes()
            for at in (at for at, byte in enumerate(before) if after[at] != byte):
                if 0 <= at % BATCH_BYTES - LEADER_EPOCH_AT < EPOCH_BYTES:
                    epochs.add(at // BATCH_BYTES)
    assert epochs == ({0, 1, 2, 3} if is_summed else set())
