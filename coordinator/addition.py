"""An AddPartitionsToTxn of one transaction: decided, and what to announce once that is applied."""

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxnAnswer,
    decide_add_partitions,
)
from fencepost.controller.view import View
from fencepost.wire.k20024_announce_partitions import Announcement


class Addition:
    """Decides the request, and remembers the last decision."""

    __slots__ = ("_added", "_version", "request")

    def __init__(self, request: AddPartitions) -> None:
        self.request = request
        self._added: AddPartitionsAnswer | None = None
        self._version = 0

    def __call__(self, view: View, now_ms: int, /) -> Decision[AddPartitionsToTxnAnswer]:
        """Implements ``Decide``."""
        request = self.request
        decided = decide_add_partitions(view, request, now_ms=now_ms)
        self._added = decided.response
        self._version = view.header.version + 1  # the image's once this entry is applied
        answer = AddPartitionsToTxnAnswer(((request.transactional_id, decided.response),))
        return Decision(decided.records, answer)

    def announcement(self) -> Announcement:
        """The partitions that the transaction holds, as of the decision's image."""
        added = () if self._added is None else self._added.errors
        held = (
            (topic, tuple(index for index, code in codes if code == ErrorCode.NONE)) for topic, codes in added
        )
        return Announcement(
            self.request.producer_id,
            self.request.producer_epoch,
            self._version,
            tuple((topic, indexes) for topic, indexes in held if indexes),
        )
