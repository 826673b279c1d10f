"""A bit of any small file of a log directory flips: no answer is another one, no record is deleted."""

import random
import shutil
from pathlib import Path

from tests.broker.small_files import flipped, made, outcome, seen, small_files
from tests.examples import share


def test_no_flipped_bit_of_a_small_file_changes_an_answer(tmp_path: Path) -> None:
    """Drawn here, all of them by ``python -m tests.broker.small_files``."""
    home = made(tmp_path / "home")
    shutil.copytree(home, tmp_path / "sound")
    sound = seen(tmp_path / "sound")
    assert set(sound.answers) == {"orders", "cleaned"}
    rng = random.Random(5)
    for file in small_files(home):
        for _ in range(share(1 if file.suffix in (".checksums", ".snapshot") else 8)):
            at, bit = rng.randrange(file.stat().st_size), rng.randrange(8)
            found = outcome(sound, seen(flipped(home, tmp_path / "flipped", file, at, bit)))
            assert not found.startswith("WRONG"), f"{file.name}, byte {at}, bit {bit}: {found}"
