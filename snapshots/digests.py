"""Digests of the rows that changed between two versions that all nodes have in common.

Versions   those divisible by ``DIGEST_EVERY``: nodes save their images at versions of their own.
Rows       each row that an entry after the last such version wrote or removed, once, as this node has it now:
           read again and encoded again. Entries past ``ROWS_MAX`` rows are left out, on every node alike.
Digest     BLAKE2b, 16 bytes, of the header and the sum of a hash for each row, in any order (sums.py).
"""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from fencepost.controller.view import DELETED, Overlay, Table, View
from fencepost.snapshots.rows import table_prefix
from fencepost.snapshots.sums import MODULUS, SUM_BYTES, row_hash

DIGEST_EVERY: Final = 64
ROWS_MAX: Final = 4_096  # in one digest, and those of one entry more: some 15 ms
DIGEST_BYTES: Final = 16


class ChangedRows:
    """Which rows were written since the last version that has a digest."""

    def __init__(self) -> None:
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {}
        self._is_whole = False  # it began at a version that has a digest

    def begin(self, version: int) -> None:
        """The image is another one, or was read from disk: what came before is not known."""
        self._rows, self._is_whole = {}, version % DIGEST_EVERY == 0

    def note(self, written: Overlay) -> None:
        """What an entry writes; before it is moved to the image."""
        if self._is_whole and sum(map(len, self._rows.values())) < ROWS_MAX:
            for table, rows in written.rows.items():
                self._rows.setdefault(table, {}).update(rows)

    def take(self, image: View) -> bytes | None:
        """The digest at ``image``'s version and begin anew; None: it has none, or what changed is not known.

        Raises CorruptData if a row cannot be read.
        """
        if image.header.version % DIGEST_EVERY:
            return None
        changed, was_whole = self._rows, self._is_whole
        self.begin(image.header.version)
        if not was_whole:
            return None
        total = 0
        for table, rows in changed.items():
            prefix, encode_key, encode_value = (
                table_prefix(0, table.name),
                table.encode_key,
                table.encode_value,
            )
            for key, value in rows.items():
                now = None if value is DELETED else image.get(table, key)
                total += row_hash(prefix + encode_key(key), b"" if now is None else encode_value(now))
        content = msgspec.msgpack.encode(image.header) + (total % MODULUS).to_bytes(SUM_BYTES, "big")
        return blake2b(content, digest_size=DIGEST_BYTES).digest()
