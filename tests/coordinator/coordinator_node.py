"""The node on which a coordinator is tested: one voter on a stage. Time passes when a test says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.controller.errors import ApiError
from fencepost.node.driver import Obligations
from fencepost.quorum.proposer import PATIENCE_S
from fencepost.wire.dispatch import Context
from tests.node.stage import ONE, Stage

CLIENT = Context("User:ANONYMOUS", "PLAINTEXT", "client-1", "127.0.0.1:50000")
ROUNDS_MAX = 200


class Answer:
    """The reply to one client: once, or not yet."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def __call__(self, outcome: Any, throttle_ms: int = 0, /) -> None:
        assert not self.outcomes, f"answered twice: {self.outcomes[0]!r}, then {outcome!r}"
        self.outcomes.append(outcome)

    def close(self, reason: str, /) -> None:
        self.outcomes.append(ConnectionError(reason))

    def answered(self) -> Any:
        """The response, the error's code, or ``...`` while it waits."""
        if not self.outcomes:
            return ...
        outcome = self.outcomes[0]
        return outcome.code if isinstance(outcome, ApiError) else outcome


@dataclass
class CoordinatorNode:
    """``stage[1]`` drives the voter. ``entries``: how many were proposed."""

    stage: Stage

    def __post_init__(self) -> None:
        self.driver = self.stage[1]
        self.replica = self.driver.replica
        self.entries = 0
        propose = self.replica.proposer._propose

        def counting(*what: Any) -> None:
            self.entries += 1
            propose(*what)

        self.replica.proposer._propose = counting  # type: ignore[assignment, method-assign]

    def carry_out(self, obligations: Obligations) -> None:
        self.stage.carry_out(1, obligations)

    def submit(self, decide: Any, reply: Any, **how: Any) -> None:
        self.carry_out(self.driver.submit(decide, reply, **how))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.carry_out(self.driver.call_later(seconds, call))

    def decide(self, decide: Any) -> Any:
        """Any decision; returns its response. Raises its ApiError."""
        answer = Answer()
        self.submit(decide, lambda outcome, _ms: answer(outcome))
        self.settle()
        if isinstance(answer.outcomes[0], ApiError):
            raise answer.outcomes[0]
        return answer.outcomes[0]

    def ask(self, endpoint: Callable[..., None], request: Any, context: Context = CLIENT) -> Answer:
        """Send a request, as the listener would. The node takes no turn yet."""
        answer = Answer()
        try:
            endpoint(request, context, answer)
        except ApiError as error:
            answer(error)
        return answer

    # -- time ---------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Make the node an active leader."""
        self.stage.elect(1)
        self.settle()

    def settle(self) -> None:
        """What is due now, until nothing is left to do: deferrable decisions are made, too."""
        proposer = self.replica.proposer
        for _ in range(ROUNDS_MAX):
            self.stage.rest()
            if not proposer.active or proposer.idle:
                assert "service_failed" not in self.stage.lines[ONE].events, "a step of a service failed"
                return
            self.stage.now += PATIENCE_S
            self.stage.tick(1)
        raise AssertionError("never comes to rest")

    def wait(self, seconds: float, step_s: float = 0.05) -> None:
        """Time passes; timers and maintenance ticks come."""
        until = self.stage.now + seconds
        while self.stage.now < until - 1e-9:
            self.stage.now += min(step_s, until - self.stage.now)
            self.maintain()

    def maintain(self) -> None:
        """The maintenance tick, and what follows from it."""
        self.carry_out(self.driver.maintain())
        self.settle()
