"""A bit of a dead process's store flips: in a value of any table, or a value is another's, or is gone.

Its archive and its snapshots have checksums of their own, which other tests flip.
"""

import random
from pathlib import Path
from typing import Final

import lmdb

TABLES: Final = (b"meta", b"image", b"journal", b"sums")


def flip(directory: Path, rng: random.Random) -> str | None:
    """Damage the store of a node's directory; says what, None if there was nothing to damage."""
    if not (directory / "store" / "data.mdb").exists():
        return None
    env = lmdb.open(str(directory / "store"), max_dbs=8, map_size=1 << 40, sync=False)
    try:
        table = rng.choice(TABLES)
        db = env.open_db(table)
        with env.begin(write=True, db=db) as txn:
            keys = [bytes(key) for key in txn.cursor().iternext(keys=True, values=False)]
            if not keys:
                return None
            key = rng.choice(keys)
            value = bytes(txn.get(key) or b"")
            kind = rng.choice(("bit", "bit", "gone", "another's"))
            if kind == "gone":
                txn.delete(key)
            elif kind == "another's":
                txn.put(key, bytes(txn.get(rng.choice(keys)) or b""))
            elif value:
                at, bit = rng.randrange(len(value)), rng.randrange(8)
                txn.put(key, value[:at] + bytes((value[at] ^ 1 << bit,)) + value[at + 1 :])
        return f"{kind} of {table.decode()} {key.hex()}"
    finally:
        env.close()
