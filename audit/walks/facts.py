"""What is said of a copy and of its log beside their batches: facts, as rows of rank 0.

Source      ``columns.COPY_SOURCE`` lists the items.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

METADATA: Final = "__cluster_metadata"
NO_NODE: Final = -1
_ALWAYS: Final = 2**63 - 1  # a time that is not known: all that a coordinator decided may be older


@dataclass(slots=True)
class CopyFacts:
    """Of one directory. ``epoch_starts`` and ``epochs``: the lines of leader-epoch-checkpoint, ascending."""

    node: int = NO_NODE
    log_start: int | None = None
    segment_first: int | None = None  # of the names of its segments, and the last
    segment_last: int | None = None
    last_path: str | None = None  # of that segment
    high_watermark: int | None = None
    is_compacted: bool = False
    is_stopped: bool = False
    is_clean: bool = False  # its broker wrote what it knew when it ended
    torn: dict[str, tuple[int, bool]] = field(default_factory=dict)  # valid end, is it the last segment
    holes: list[tuple[int, int]] = field(default_factory=list)
    first: int = 0
    end: int = 0  # of its "span"
    read_end: int = 0  # of all that was read, deleted records included
    epoch_starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    epochs: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    epoch_path: str = ""

    @property
    def start(self) -> int:
        """Where it begins, by its checkpoint and by the names of its segments."""
        return max(self.log_start or 0, self.segment_first or 0)

    @property
    def is_beyond_itself(self) -> bool:
        """Whether its checkpoint says that it begins behind the end of what it has."""
        return self.log_start is not None and self.log_start > self.read_end > 0


@dataclass(slots=True)
class LogFacts:
    """Of one log and its copies, in the order of their names."""

    copies: dict[str, CopyFacts] = field(default_factory=dict)
    is_compacted: bool = False
    is_tiered: bool = False
    is_untold: bool = False
    knows_elections: bool = False
    unclean: dict[int, int] = field(default_factory=dict)  # by leader epoch, when it was elected
    unseen: int = -1  # up to this leader epoch no record of an election is kept: each may have been unclean
    unseen_ms: int = _ALWAYS  # by when that one was elected
    replicas: set[int] = field(default_factory=set)
    voters: set[int] = field(default_factory=set)

    def unclean_between(self, before: int, epoch: int) -> list[int]:
        """The leader epochs above ``before``, up to ``epoch``, whose elections were unclean."""
        return [each for each in self.unclean if before < each <= epoch]

    def is_unseen_between(self, before: int, epoch: int) -> bool:
        """Whether one above ``before`` and up to ``epoch`` may have been.

        Epoch 0 is not elected, and a log of one replica has no other to elect.
        """
        return len(self.replicas) != 1 and max(before, 0) < min(epoch, self.unseen)


def read_facts(batches: Iterable[pa.RecordBatch]) -> CopyFacts:
    """The facts of one copy."""
    copies = read_log_facts(batches).copies
    return next(iter(copies.values()), CopyFacts())


def read_log_facts(batches: Iterable[pa.RecordBatch]) -> LogFacts:
    """The facts of a log and of all its copies; an item that is not known is left alone."""
    log = LogFacts()
    lines: dict[str, list[tuple[int, int]]] = {}
    for batch in batches:
        for row in batch.select(["copy", "node", "path", "item", "first", "second"]).to_pylist():
            copy = log.copies.setdefault(row["copy"], CopyFacts(node=row["node"]))
            if row["item"] == "leader-epoch":
                lines.setdefault(row["copy"], []).append((row["second"], row["first"]))
                copy.epoch_path = row["path"]
            elif not _read_of_log(log, row["item"], row["first"], row["second"]):
                _read_of_copy(copy, row["item"], row["path"], row["first"], row["second"])
    for name, copy in log.copies.items():
        copy.is_compacted = log.is_compacted
        ascending = sorted(lines.get(name, []))
        copy.epoch_starts = np.array([start for start, _ in ascending], np.int64)
        copy.epochs = np.array([epoch for _, epoch in ascending], np.int64)
    return log


def _read_of_log(log: LogFacts, item: str, first: int | None, second: int | None) -> bool:
    if item in ("compacted", "cleaned"):  # whatever metadata says, a log cleaner has it in its list
        log.is_compacted = True
    elif item == "tiered":
        log.is_tiered = True
    elif item == "untold":
        log.is_untold = True
    elif item == "metadata":
        log.knows_elections = True
    elif first is None:
        return False
    elif item == "unclean":
        log.unclean[first] = _ALWAYS if second is None else second
    elif item == "unseen":
        log.unseen, log.unseen_ms = first, _ALWAYS if second is None else second
    elif item == "replica":
        log.replicas.add(first)
    elif item == "voter":
        log.voters.add(first)
    else:
        return False
    return True


def _read_of_copy(copy: CopyFacts, item: str, path: str, first: int | None, second: int | None) -> None:
    if item == "stopped":
        copy.is_stopped = True
        copy.is_clean |= first is not None
    elif first is None:
        return
    elif item == "segment":
        copy.segment_first = first if copy.segment_first is None else min(copy.segment_first, first)
        if copy.segment_last is None or first >= copy.segment_last:
            copy.segment_last, copy.last_path = first, path or None
    elif item == "torn":
        copy.torn[path] = (first, bool(second))
    elif item == "hole" and second is not None:
        copy.holes.append((first, second))
    elif item == "log-start":
        copy.log_start = first
    elif item == "high-watermark":
        copy.high_watermark = first
    elif item == "read":
        copy.read_end = first
    elif item == "span" and second is not None:
        copy.first, copy.end = first, second
