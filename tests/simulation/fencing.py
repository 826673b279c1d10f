"""Sessions of brokers, as node/server.py keeps them."""

from typing import TYPE_CHECKING

from fencepost.controller import brokers

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Fencing:
    """A service: the active controller fences brokers that fell silent."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    def activated(self, now_ms: int) -> None:
        """See quorum.driver.Service."""
        self._process.activated(now_ms)

    def deposed(self) -> None:
        """See quorum.driver.Service."""

    def maintain(self, now_ms: int) -> None:
        """See quorum.driver.Service."""

    def sweep(self, now_ms: int) -> None:
        """See quorum.driver.Service."""
        process, contacts = self._process, self._process.contacts
        if (
            process.replica is not None
            and brokers.decide_expire(process.replica.image, contacts, now_ms).records
        ):
            process.submit(
                lambda view, decided_ms: brokers.decide_expire(view, contacts, decided_ms),
                lambda _answer, _ms: None,
            )
