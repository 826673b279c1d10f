"""What stands around a voter on a bench: clients that keep their answers, a log that is not read."""

from typing import Any

from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import ProducerIdBlock


class Answers:
    """The answers of one client, in order: a response, or the ApiError."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, answer: Any, _throttle_ms: int) -> None:
        self.all.append(answer)

    def close(self, reason: str, /) -> None:
        """See dispatch.Reply."""
        self.all.append(ConnectionError(reason))

    @property
    def codes(self) -> list[str]:
        """Errors by name, blocks as [first, end), anything else as it is."""
        return [as_text(answer) for answer in self.all]


def as_text(answer: Any) -> str:
    """An answer as a script says it."""
    if isinstance(answer, ApiError):
        return type(answer).__name__
    if isinstance(answer, ProducerIdBlock):
        return f"[{answer.first}, {answer.first + answer.length})"
    return str(answer)


class Silence:
    """A log that is not read."""

    def info(self, event: str, **facts: object) -> None: ...
    def warning(self, event: str, **facts: object) -> None: ...
    def error(self, event: str, **facts: object) -> None: ...
