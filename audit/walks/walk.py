"""What a walk is, and how a sorted stream is taken apart by its keys.

Order       rows come sorted by ``keys``, then ``order``, nulls first, text by its UTF-8 bytes. A key's rows
            may span several batches; a batch may hold several keys.
Engines     a loop over an ORDER BY; or repartition by ``keys``, a sort within partitions, ``mapInArrow``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Batches = Iterator[pa.RecordBatch]
Key = tuple[Any, ...]


class Run(Protocol):
    """A function of a module: it can be pickled."""

    def __call__(self, batches: Batches) -> Batches:
        """Rows of the walk's ``result`` out of sorted rows of its ``source``."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A function over a sorted stream, with all that an engine needs to know to feed it."""

    name: str
    keys: tuple[str, ...]
    order: tuple[str, ...]
    source: pa.Schema
    result: pa.Schema
    run: Run


def by_key(batches: Batches, keys: Sequence[str]) -> Iterator[tuple[Key, Batches]]:
    """Each key of a sorted stream with its rows, as slices of the batches; empty batches are left out."""
    for key, slices in groupby(_slices(batches, keys), key=_key_of):
        yield key, (rows for _, rows in slices)


def _key_of(piece: tuple[Key, pa.RecordBatch]) -> Key:
    return piece[0]


def _slices(batches: Batches, keys: Sequence[str]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        edges = [0, *(key_changes(batch, keys) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(edges):
            yield tuple(batch.column(name)[start].as_py() for name in keys), batch.slice(start, end - start)


def key_changes(batch: pa.RecordBatch, keys: Sequence[str]) -> Any:
    """The rows after which another key begins. Keys have no nulls."""
    changed = np.zeros(max(batch.num_rows - 1, 0), np.bool_)
    for name in keys:
        column = batch.column(name)
        differs = pc.not_equal(column.slice(1), column.slice(0, batch.num_rows - 1))
        changed |= differs.to_numpy(zero_copy_only=False).astype(np.bool_)
    return np.flatnonzero(changed)
