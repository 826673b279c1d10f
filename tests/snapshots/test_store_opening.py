"""What opening a store does beside reading it: it makes its directory, and clears readers that died."""

import subprocess
import sys
from pathlib import Path

from fencepost.snapshots.store import Store

READS = """
import os, sys
from pathlib import Path
from fencepost.snapshots.reader import read_store

with read_store(Path(sys.argv[1])) as store:
    print(os.getpid(), flush=True)
    if sys.argv[2] == "dies":
        os._exit(0)
    sys.stdin.read()
"""


def reading(directory: Path, until: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", READS, str(directory), until],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == str(process.pid)
    return process


def test_the_directories_above_a_new_store_are_made(tmp_path: Path) -> None:
    Store.open(tmp_path / "of" / "a" / "node", sync=False).close()
    assert (tmp_path / "of" / "a" / "node" / "data.mdb").exists()


def test_a_reader_that_died_pins_no_page(tmp_path: Path) -> None:
    """Beside one that is still open: without one LMDB begins its table of readers anew."""
    Store.open(tmp_path, sync=False).close()
    living = reading(tmp_path, "lives")
    dead = reading(tmp_path, "dies")
    dead.communicate()
    store = Store.open(tmp_path, sync=False)
    readers = store.env.readers().split()
    store.close()
    living.communicate()
    assert str(living.pid) in readers
    assert str(dead.pid) not in readers
