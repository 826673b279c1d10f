"""The upgrade's row of the log as steps use it: looked at, decided on, and waited for."""

from collections.abc import Callable

from fencepost.bridge.steps import Call
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.migration_phase import Migration, current
from fencepost.controller.view import View
from fencepost.quorum.port import Decide, Outcome, R, Submit

DecideRow = Callable[[View], Decision[Migration]]


class UpgradeLog:
    """Decisions of the active controller on the upgrade."""

    def __init__(self, image: Callable[[], View], submit: Submit) -> None:
        self.image = image
        self._submit = submit

    @property
    def row(self) -> Migration:
        """Where the upgrade stands now."""
        return current(self.image())

    async def applied(self, decide: DecideRow) -> Migration:
        """Decide, and wait until it is applied. Raises ApiError."""
        return await self.submitted(lambda view, _now_ms: decide(view))

    async def preview(self, decide: DecideRow) -> Migration:
        """What would come of it; nothing is written. Raises ApiError."""
        return await self.submitted(lambda view, _now_ms: Decision((), decide(view).response))

    async def submitted(self, decide: Decide[R]) -> R:
        """The response to any decision. Raises ApiError."""

        def submit(applied: Callable[[Outcome[R]], None]) -> None:
            self._submit(decide, lambda outcome, _ms: applied(outcome))

        outcome = await Call(submit)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome
