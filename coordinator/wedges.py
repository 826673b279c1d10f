"""Markers that partitions refuse: which, with what code, since when, and when they are tried again.

Wedged      a partition answers 47 or 52: it holds an open transaction of a newer epoch of that producer,
            which nothing of ours wrote. The transaction stays prepared, other partitions get their markers,
            and an operator sees it (``transactions describe``, ``find-hanging``, ``health``, a metric).
Retried     from RETRY_S to RETRY_S_MAX apart, as what stands in the way may go; at once, and over the higher
            epoch, when it is forced. The outcome is the decided one in every case.
Soft        of one leadership: the next one sends every marker again, and meets the same refusal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.controller.errors import ErrorCode
from fencepost.coordinator.marker_job import Job, TopicPartition, txn_marker
from fencepost.wire.k27_write_txn_markers import TxnMarker
from fencepost.wire.k20066_list_set_aside import WEDGED, SetAside

WEDGED_MAX: Final = 10_000  # transactions; past it the oldest is dropped, which the walk then tries again
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 600.0


@dataclass(slots=True)
class Wedge:
    """One partition of one transaction. ``forcing``: the forced marker is on its way."""

    code: int
    since_ms: int
    tries: int = 0
    forcing: bool = False


class Wedges:
    """Of all jobs of a leadership, the oldest first."""

    def __init__(self, now_ms: Callable[[], int], log: FilteringBoundLogger) -> None:
        self._now_ms = now_ms
        self._log = log
        self._jobs: dict[str, tuple[Job, dict[TopicPartition, Wedge]]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def refused(self, broker_id: int, job: Job, part: TopicPartition, code: int) -> tuple[float, int]:
        """A partition refused the marker. Returns the seconds until the next try, and what to ask it by."""
        _, wedges = self._jobs.setdefault(job.marker.transactional_id, (job, {}))
        wedge = wedges.get(part)
        if wedge is None:
            wedge = wedges[part] = Wedge(int(code), self._now_ms())
            self._log.error(
                "marker_wedged",
                transactional_id=job.marker.transactional_id,
                partition=f"{part[0]}-{part[1]}",
                broker_id=broker_id,
                code=int(code),
                next="fencepost transactions force-terminate ends it as it was decided",
            )
        delay_s = min(RETRY_S * 2 ** min(wedge.tries, 20), RETRY_S_MAX)
        wedge.code, wedge.forcing, wedge.tries = int(code), False, wedge.tries + 1
        return delay_s, wedge.tries

    def is_due(self, job: Job, part: TopicPartition, turn: int) -> bool:
        """The try that was put off is still the next one: none was forced in between."""
        wedge = self._of(job).get(part)
        return wedge is not None and wedge.tries == turn and not wedge.forcing

    def ended(self, job: Job, part: TopicPartition) -> None:
        """The marker is written there, or no longer needed."""
        known = self._jobs.get(job.marker.transactional_id)
        if known is None or known[0] is not job:
            return
        known[1].pop(part, None)
        if not known[1]:
            del self._jobs[job.marker.transactional_id]

    def forget(self, transactional_id: str) -> None:
        """Drop the wedges of a transaction that has ended."""
        self._jobs.pop(transactional_id, None)

    def force(self, transactional_id: str) -> tuple[Job, tuple[TopicPartition, ...]] | None:
        """Force the markers that are refused: the partitions not forced yet. None: none is refused."""
        known = self._jobs.get(transactional_id)
        if known is None:
            return None
        job, wedges = known
        parts = tuple(part for part, wedge in sorted(wedges.items()) if not wedge.forcing)
        for part in parts:
            wedges[part].forcing = True
        return job, parts

    def parts(self, job: Job) -> tuple[TopicPartition, ...]:
        """The partitions that refuse, or refused before they were forced."""
        return tuple(sorted(self._of(job)))

    def markers(self, job: Job, parts: list[TopicPartition]) -> list[TxnMarker]:
        """The markers for these partitions of one broker: forced where an operator has requested it."""
        wedges = self._of(job)
        forced = [part for part in parts if part in wedges and wedges[part].forcing]
        plain = [part for part in parts if part not in forced]
        made = [txn_marker(job.marker, plain)] if plain else []
        return [*made, txn_marker(job.marker, forced, forced=True)] if forced else made

    def is_stuck(self, transactional_id: str) -> bool:
        """A partition of it refuses, and it is not forced."""
        known = self._jobs.get(transactional_id)
        return known is not None and any(not wedge.forcing for wedge in known[1].values())

    def past_the_bound(self) -> Job | None:
        """The oldest job, taken out, if there are too many."""
        if len(self._jobs) <= WEDGED_MAX:
            return None
        job, _ = self._jobs.pop(next(iter(self._jobs)))
        return job

    def rows(self, transactional_id: str | None = None) -> Iterator[SetAside]:
        """Of one transaction or of all, the oldest first."""
        for each, (_, wedges) in self._jobs.items():
            if transactional_id in (None, each):
                yield from (_row(each, part, wedge) for part, wedge in sorted(wedges.items()))

    @property
    def partitions(self) -> int:
        """How many markers are refused."""
        return sum(len(wedges) for _, wedges in self._jobs.values())

    def _of(self, job: Job) -> dict[TopicPartition, Wedge]:
        known = self._jobs.get(job.marker.transactional_id)
        return known[1] if known is not None and known[0] is job else {}


def _row(transactional_id: str, part: TopicPartition, wedge: Wedge) -> SetAside:
    name = ErrorCode(wedge.code).name if wedge.code in _KNOWN else f"error {wedge.code}"
    return SetAside(
        kind=WEDGED,
        concern="marker",
        key=transactional_id,
        partition=f"{part[0]}-{part[1]}",
        code=wedge.code,
        reason=f"the partition refuses its marker with {name}: it holds a newer epoch of that producer",
        since_ms=wedge.since_ms,
    )


_KNOWN: Final = frozenset(map(int, ErrorCode))
