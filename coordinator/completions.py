"""Completing transactions whose every marker is written: as one decision, or each by itself if that fails."""

from collections.abc import Callable
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.controller.decision import Decision
from fencepost.controller.transactions import markers
from fencepost.controller.transactions.markers import Marker
from fencepost.controller.view import View
from fencepost.coordinator.marker_job import Job
from fencepost.quorum.port import Submit
from fencepost.quorum.quarantine import Quarantine
from fencepost.quorum.sweep import Sweep

COMPLETION: Final = "transaction completion"
COMPLETIONS_MAX: Final = 200  # in one decision: some 10 ms of the loop, and little of an entry


class Completions:
    """Jobs that are done but for their record. Soft state of one leadership: ``begin`` starts anew.

    on_completing   the decision that completes this id is submitted: what waited for it comes right behind.
    on_decided      a job, and whether its completion is applied; if not, the walk finds it again.
    """

    def __init__(
        self,
        submit: Submit,
        quarantine: Quarantine,
        log: FilteringBoundLogger,
        *,
        on_completing: Callable[[str], None],
        on_decided: Callable[[Job, bool], None],
    ) -> None:
        # Deferrable: readers see the markers, and a request that waits for it follows in the same entry.
        self._sweep = Sweep(COMPLETION, _decide, submit, quarantine, log, key_text=_key_text, deferrable=True)
        self._on_completing = on_completing
        self._on_decided = on_decided
        self._leadership = 0
        self.begin()

    def begin(self) -> None:
        """Start with nothing finished: a new leadership begins."""
        self._finished: list[Job] = []
        self._leadership += 1  # what an earlier one submitted is void

    def add(self, job: Job) -> None:
        """Nothing of its markers is missing any more."""
        self._finished.append(job)

    def passed_by(self) -> frozenset[str]:
        """Ids whose completion failed a moment ago: not to be tried now."""
        return self._sweep.passed_by()

    def submit(self) -> None:
        """Submit the completion of all that was added, then what waited for it."""
        while self._finished:
            jobs, self._finished = self._finished[:COMPLETIONS_MAX], self._finished[COMPLETIONS_MAX:]
            for job in jobs:
                job.completing = True
            done = tuple(job.marker for job in jobs)
            self._sweep.run(done, partial(self._decided, self._leadership, jobs))
            for marker in done:
                self._on_completing(marker.transactional_id)

    def _decided(self, leadership: int, jobs: list[Job], outcomes: tuple[tuple[str, ...], ...]) -> None:
        if leadership != self._leadership:
            return
        completed = {transactional_id for outcome in outcomes for transactional_id in outcome}
        for job in jobs:
            self._on_decided(job, job.marker.transactional_id in completed)


def _decide(view: View, now_ms: int, done: tuple[Marker, ...]) -> Decision[tuple[str, ...]]:
    """Complete them all; the response names those that were not complete before.

    Each transaction is there once, so that none sees what another one writes.
    """
    decided = [
        (each, markers.decide_complete(view, each.transactional_id, each.version, now_ms=now_ms))
        for each in done
    ]
    records = tuple(record for _, decision in decided for record in decision.records)
    return Decision(records, tuple(each.transactional_id for each, decision in decided if decision.response))


def _key_text(marker: Marker) -> str:
    return marker.transactional_id
