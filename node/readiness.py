"""Whether clients are well sent to this node: what ``/readyz`` of the metrics port says.

A quorum that is lost makes no node unready: it would take away the brokers that can still be read, and a
restart brings no quorum back.
"""

from fencepost.broker.main import Broker


class Readiness:
    """Set as the node starts and ends; ``broker`` where it has that role."""

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.is_started = self.is_leaving = False

    def reason(self) -> str:
        """Why no client is to be sent here, in words; empty if it may."""
        if self.is_leaving:
            return "the node is ending"
        if not self.is_started:
            return "the node is starting"
        if self.broker is not None and self.broker.is_fenced:
            return (
                "the broker is fenced: the active controller has not let it in yet, or has not heard from it"
            )
        return ""
