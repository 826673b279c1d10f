"""What a proposer remembers of an entry whose outcome it does not know yet."""

from dataclasses import dataclass

from fencepost.controller.view import Overlay
from fencepost.quorum.port import Submission
from fencepost.records.entry import Entry, LoggedBatch
from fencepost.records.types import NodeId, ProposalNumber, Term


@dataclass(slots=True)
class InFlight:
    """The one proposed entry whose outcome is not known yet."""

    epoch: Term
    proposal: ProposalNumber
    answers: list[Submission]
    batches: tuple[LoggedBatch, ...]
    overlay: Overlay  # the image with the entry's records replayed, its header still the image's
    since_s: float
    deferrable: int = 0  # answers to deferrable requests: no client waits to send its next one

    def is_in(self, entry: Entry, node_id: NodeId) -> bool:
        """The entry is the very one that ``node_id`` proposed."""
        named = (entry.proposal, entry.controller_epoch, entry.proposer)
        return named == (self.proposal, self.epoch, node_id)
