"""Bytes change: in a dead process's store, and in a running one's image, in memory and in its store.

Dead      a bit of a value of any table, or a value is another's, or is gone; or the last entries of the
          journal are: few, since of those that are applied the archive is a second trace (older_store.py).
          Archive and snapshots have checksums of their own, which other tests flip.
Running   a row of the image. In memory a cached one: what a leader answers between such a change and the
          next digest is outside of what is promised, so no producer id changes there, and of a leader only
          where a broker listens. In the store any row of which the node has a copy in memory.
"""

import random
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from fencepost.controller.brokers import BROKERS
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.quorum.replica import Replica
from fencepost.snapshots import rows as stored
from fencepost.snapshots.rows import row_key

TABLES: Final = (b"meta", b"image", b"journal", b"sums")
OF_A_VALUE: Final = ("bit", "bit", "gone", "another's")
OF_THE_JOURNAL: Final = (*OF_A_VALUE, "end", "end")  # one that is gone would hardly ever be the last
END_ENTRIES_MAX: Final = 2
BALLOT: Final = (b"raft.term", b"raft.vote")  # as the journal reads them; their copy is another value
BALLOT_SHARE: Final = 0.5  # of the flips in meta: a changed vote shows only where it is less than it was


def flip(directory: Path, rng: random.Random, tables: tuple[bytes, ...] = TABLES) -> str | None:
    """Damage the store of a node's directory; says what, None if there was nothing to damage."""
    if not (directory / "store" / "data.mdb").exists():
        return None
    env = lmdb.open(str(directory / "store"), max_dbs=8, map_size=1 << 40, sync=False)
    try:
        table = rng.choice(tables)
        db = env.open_db(table)
        with env.begin(write=True, db=db) as txn:
            keys = [bytes(key) for key in txn.cursor().iternext(keys=True, values=False)]
            if not keys:
                return None
            ballot = [key for key in keys if key in BALLOT] if table == b"meta" else []
            key = rng.choice(ballot if ballot and rng.random() < BALLOT_SHARE else keys)
            value = bytes(txn.get(key) or b"")
            kind = rng.choice(OF_THE_JOURNAL if table == b"journal" else OF_A_VALUE)
            if kind == "gone":
                txn.delete(key)
            elif kind == "end":
                for key in keys[-rng.randint(1, END_ENTRIES_MAX) :]:
                    txn.delete(key)
            elif kind == "another's":
                txn.put(key, bytes(txn.get(rng.choice(keys)) or b""))
            elif value:
                at, bit = rng.randrange(len(value)), rng.randrange(8)
                txn.put(key, value[:at] + bytes((value[at] ^ 1 << bit,)) + value[at + 1 :])
        return f"{kind} of {table.decode()} {key.hex()}"
    finally:
        env.close()


def change_memory(replica: Replica, rng: random.Random) -> tuple[str, Any] | None:
    """Change a row of a running replica's image in memory. Returns table and key; None if none could be.

    Only what is saved already: a row that changes in memory before it is saved goes to disk with a sum of its
    own, and if the node dies before the next digest nothing finds it. That is outside what is promised.
    """
    unsaved = replica.store.image._rows
    cache = replica.store.image._stored._cache
    rows = [at for at, value in cache.items() if value is not None and at[0] != PRODUCER_IDS.name]
    rows = [at for at in rows if at[1] not in unsaved.get(stored.TABLES[at[0]], {})]
    if replica.raft.is_leader:
        rows = [at for at in rows if at[0] == BROKERS.name]
    if not rows:
        return None
    at = rng.choice(rows)
    table, value = stored.TABLES[at[0]], cache[at]
    changed = _moved(value) if at[0] == BROKERS.name else _flipped(table, value, rng)
    if changed is None or changed == value:
        return None
    cache[at] = changed
    return at


def change_store(replica: Replica, rng: random.Random) -> str | None:
    """Change a row of a running replica's store; perhaps without a copy of it in memory."""
    store = replica.store
    rows = [at for at, _ in stored.scan_generation(store.txn, store.image_db, store.generation)]
    if not rows:
        return None
    name, encoded = rng.choice(rows)
    at = row_key(store.generation, name, encoded)
    key = stored.TABLES[name].decode_key(encoded)
    value = store.txn.get(at, db=store.image_db)
    if value is None:
        return None
    if rng.random() < 0.5:
        store.image._stored._cache.pop((name, key), None)
    if rng.random() < 0.3:
        store.txn.delete(at, db=store.image_db)
    else:
        where = rng.randrange(len(value))
        raw = bytes(value)
        changed = raw[:where] + bytes((raw[where] ^ 1 << rng.randrange(8),)) + raw[where + 1 :]
        store.txn.put(at, changed, db=store.image_db)
    store.dirty = True
    return f"store of {name} {key}"


def _flipped(table: Any, value: Any, rng: random.Random) -> Any:
    """Another value of a table's type, one bit away; None if there is none nearby."""
    raw = table.encode_value(value)
    for _ in range(8):
        where = rng.randrange(len(raw))
        try:
            changed = raw[:where] + bytes((raw[where] ^ 1 << rng.randrange(8),)) + raw[where + 1 :]
            return table.decode_value(changed)
        except (ValueError, msgspec.DecodeError):
            continue
    return None


def _moved(broker: Any) -> Any:
    """A broker's row with another host."""
    return msgspec.structs.replace(
        broker,
        endpoints=tuple(msgspec.structs.replace(each, host=f"{each.host}x") for each in broker.endpoints),
    )
