"""The epochs of transactional ids leap, as by tens of thousands of instances, in the stores of three nodes.

By requests such a leap costs ten seconds of CPU time. The nodes end cleanly, the row of each id gets its
epoch in each store, and they are started again: instances that follow find what all those had left. A row's
fields are counted, not named, so that this is true of every version whose rows begin with the same ones.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from fencepost.cluster import state
from fencepost.controller.transactions.states import TRANSACTIONS, Transaction
from fencepost.records.transaction_log import NO_EPOCH
from fencepost.snapshots.reader import MAP_BYTES
from fencepost.snapshots.rows import as_bytes, row_key
from fencepost.snapshots.sums import MODULUS, SEAL, SEAL_COPY, read_seal, row_hash
from tests.harness.nodes import Nodes, wait_for
from tests.processes import versions

_OF_PRODUCER: Final = Transaction.__struct_fields__.index("producer_epoch")
_OF_WHO_KEPT_IT: Final = Transaction.__struct_fields__.index("next_producer_epoch")


def leap(nodes: Nodes, epoch: int, *transactional_ids: str, tree: Path | None = None) -> None:
    """The newest epoch of these ids becomes ``epoch``. ``tree``: the source of the version that runs."""
    for each in transactional_ids:
        wait_for(f"every node has {each}", lambda: _is_everywhere(nodes, each))  # noqa: B023
    for node_id in nodes.node_ids:
        nodes.send(node_id, signal.SIGTERM)
    for node_id in nodes.node_ids:
        nodes.await_status(node_id, "dead")
    for home in map(nodes.home, nodes.node_ids):
        with _Image.opened(home, write=True) as image:
            for each in transactional_ids:
                image.leap(each, epoch)
    versions.start(nodes, tree, *nodes.node_ids)
    state.await_live(nodes.cluster, {}, lambda _words: None)
    nodes.await_followed()


def _is_everywhere(nodes: Nodes, transactional_id: str) -> bool:
    rows = []
    for home in map(nodes.home, nodes.node_ids):
        with _Image.opened(home, write=False) as image:
            rows.append(image.row(transactional_id))
    return rows[0] is not None and all(row == rows[0] for row in rows)


class _Image:
    """The rows of transactional ids in a node's store."""

    def __init__(self, txn: lmdb.Transaction, database: Any, generation: int) -> None:
        self._txn, self._database, self._generation = txn, database, generation
        self._difference = 0  # of the sum of its rows

    @classmethod
    @contextmanager
    def opened(cls, home: Path, *, write: bool) -> Iterator["_Image"]:
        """What was written is there when it is left."""
        with (
            lmdb.open(str(home / "store"), max_dbs=8, map_size=MAP_BYTES, readonly=not write) as env,
            env.begin(write=write) as txn,
        ):
            meta, rows = (env.open_db(name, txn, create=False) for name in (b"meta", b"image"))
            generation = txn.get(b"generation", db=meta)
            image = cls(txn, rows, 0 if generation is None else msgspec.msgpack.decode(generation))
            yield image
            if write:
                image.seal(meta)

    def _key(self, transactional_id: str) -> bytes:
        return row_key(self._generation, TRANSACTIONS.name, TRANSACTIONS.encode_key(transactional_id))

    def row(self, transactional_id: str) -> list[Any] | None:
        """Its fields, in the order of Transaction's; an earlier version has fewer."""
        raw = self._txn.get(self._key(transactional_id), db=self._database)
        return None if raw is None else msgspec.msgpack.decode(raw, type=list[Any])

    def leap(self, transactional_id: str, epoch: int) -> None:
        """See the module."""
        row = self.row(transactional_id)
        assert row is not None
        is_kept = len(row) > _OF_WHO_KEPT_IT and row[_OF_WHO_KEPT_IT] != NO_EPOCH
        at = _OF_WHO_KEPT_IT if is_kept else _OF_PRODUCER
        assert row[at] < epoch, f"{transactional_id} has epoch {row[at]} already"
        row[at] = epoch
        key = self._key(transactional_id)
        before, after = bytes(self._txn.get(key, db=self._database) or b""), msgspec.msgpack.encode(row)
        self._difference += row_hash(key, after) - row_hash(key, before)
        self._txn.put(key, after, db=self._database)

    def seal(self, meta: Any) -> None:
        """As the node would have: an image without its seal is a damaged one."""
        for name in (SEAL.encode(), SEAL_COPY.encode()):
            found = read_seal(as_bytes(self._txn.get(name, db=meta)))
            if found is not None:
                rows = (found.rows + self._difference) % MODULUS
                self._txn.put(name, found._replace(rows=rows).encode(), db=meta)
