"""Sweeps: decisions of timers over many rows, as one decision where that works, and row by row where not.

A row that cannot be decided by itself either is set aside (quorum/quarantine.py); all others are done.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, UnknownServerError
from fencepost.controller.view import View
from fencepost.quorum.draft import DecisionTooLarge
from fencepost.quorum.port import Outcome, R, Submit
from fencepost.quorum.quarantine import Quarantine

K = TypeVar("K")

DecideRows = Callable[[View, int, tuple[K, ...]], Decision[R]]
"""(view, now_ms, keys of rows) -> what is written of them. It looks again: a row may have changed."""

Done = Callable[[tuple[R, ...]], None]
"""Called once, with the responses of what is applied: one, or one for each row, or none."""


class Sweep(Generic[K, R]):
    """One kind of rows. ``concern`` names it in the quarantine; ``key_text`` says a row's key there."""

    def __init__(
        self,
        concern: str,
        decide: DecideRows[K, R],
        submit: Submit,
        quarantine: Quarantine,
        log: FilteringBoundLogger,
        *,
        key_text: Callable[[K], str] = str,
        deferrable: bool = False,
    ) -> None:
        self.concern = concern
        self._decide = decide
        self._submit = submit
        self._quarantine = quarantine
        self._log = log
        self._key_text = key_text
        self._deferrable = deferrable

    def passed_by(self) -> frozenset[str]:
        """The keys, as text, of the rows that are not to be tried now."""
        return self._quarantine.passed_by(self.concern)

    def run(self, keys: tuple[K, ...], done: Done[R]) -> None:
        """Decide the rows of these keys."""

        def decide(view: View, now_ms: int) -> Decision[R]:
            return self._decide(view, now_ms, keys)

        decide.__qualname__ = self.concern

        def reply(outcome: Outcome[R], _throttle_ms: int) -> None:
            self._decided(keys, done, outcome)

        self._submit(decide, reply, deferrable=self._deferrable)

    def _decided(self, keys: tuple[K, ...], done: Done[R], outcome: Outcome[R]) -> None:
        if not isinstance(outcome, ApiError):
            for key in keys:
                self._quarantine.remove(self.concern, self._key_text(key))
            done((outcome,))
        elif not isinstance(outcome, UnknownServerError | DecisionTooLarge):
            done(())  # not decided, or not known to be: the next sweep looks again
        elif len(keys) == 1:
            self._set_aside(keys[0], outcome)
            done(())
        else:
            self._one_by_one(keys, done)

    def _one_by_one(self, keys: tuple[K, ...], done: Done[R]) -> None:
        responses: list[R] = []
        left = [len(keys)]

        def decided(response: tuple[R, ...]) -> None:
            responses.extend(response)
            left[0] -= 1
            if not left[0]:
                done(tuple(responses))

        for key in keys:
            self.run((key,), decided)

    def _set_aside(self, key: K, failure: ApiError) -> None:
        row = self._quarantine.add(self.concern, self._key_text(key), str(failure))
        self._log.error(
            "row_quarantined", concern=self.concern, key=row.key, reason=row.reason, failures=row.failures
        )
