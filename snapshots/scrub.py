"""The background scrub: a store's rows are read again, some at a time, while others are written.

Pass      a cursor goes over the keys of the image's generation, with the sum of rows at or before it. A row
          written there meanwhile changes that sum by its difference, as it does the image's own (image.py);
          at the end the two are equal. No reader is open in between, and the image is never copied.
Anew      after the last row, and where another image takes the place of this one.
"""

import struct
from itertools import islice
from typing import Any

from fencepost.snapshots.rows import scan_rows
from fencepost.snapshots.sums import GENERATION_BYTES, MODULUS, row_hash


class Scrub:
    """Where a pass is."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a pass."""
        self.cursor = b""  # the key of the last row that was read; empty: none
        self.sum = 0  # of the rows at or before it, as they are now

    def step(self, txn: Any, db: Any, generation: int, rows_max: int) -> int | None:
        """Read up to ``rows_max`` rows; ``txn`` is lmdb's. The sum of all rows if the pass ends here."""
        prefix = struct.pack(">I", generation)
        if self.cursor[:GENERATION_BYTES] != prefix:
            self.restart()
        after = self.cursor[GENERATION_BYTES:] or None
        rows = list(islice(scan_rows(txn, db, prefix, after), rows_max))
        self.sum = (self.sum + sum(row_hash(prefix + key, value) for key, value in rows)) % MODULUS
        if len(rows) == rows_max:
            self.cursor = prefix + rows[-1][0]
            return None
        whole = self.sum
        self.restart()
        return whole
