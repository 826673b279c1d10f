"""What a transactional producer requests for a group: its offsets, and a pair for assigned partitions.

Fenced   an answer to a group-aware InitProducerId names the transactional id. Brokers that know nothing of it
         answer without: then no other producer was fenced, and the answer is refused here.
Source   KIP-447; wire/k22_init_producer_id.py.
"""

from typing import Final

from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import AbortableError, NotReachable, RequestTimedOut, number_of, refused
from fencepost.client.network import Network
from fencepost.client.transaction_errors import (
    code_of_offsets,
    from_coordinator,
    from_group,
    from_group_init,
)
from fencepost.wire.k10_find_coordinator import GROUP, TRANSACTION
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.requests import (
    AddOffsets,
    ApiError,
    CommitTransactionOffsets,
    ErrorCode,
    InitProducerId,
    InitProducerIdAnswer,
)

GROUPS_MAX: Final = 100
"""Groups whose coordinators one producer remembers; it commits offsets for one."""


class GroupCalls:
    """The coordinators of the groups for which one producer writes."""

    def __init__(self, network: Network, timeout_s: float) -> None:
        self._network = network
        self._timeout_s = timeout_s
        self._coordinators: dict[str, Coordinator] = {}

    async def add_offsets(self, coordinator: Coordinator, request: CommitTransactionOffsets) -> None:
        """V1: add what ``request`` commits to the transaction. Raises AbortableError, FatalError."""
        add = AddOffsets(
            request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
        )
        try:
            await coordinator.call(ADD_OFFSETS_TO_TXN, add, timeout_s=self._timeout_s)
        except ApiError as error:
            raise from_coordinator(error, "AddOffsetsToTxn") from error
        except (RequestTimedOut, NotReachable) as error:
            raise AbortableError(str(error), error.code) from error

    async def commit(self, request: CommitTransactionOffsets) -> None:
        """Commit offsets with a transaction. Raises AbortableError, FatalError."""
        try:
            await self._of(request.group_id).call(
                TXN_OFFSET_COMMIT, request, timeout_s=self._timeout_s, code_of=code_of_offsets
            )
        except ApiError as error:
            raise from_group(number_of(error), f"offsets of group {request.group_id!r}") from error
        except (RequestTimedOut, NotReachable) as error:
            raise AbortableError(str(error), error.code) from error

    async def init(self, request: InitProducerId, group_id: str) -> tuple[str, InitProducerIdAnswer]:
        """A group-aware InitProducerId: the transactional id, and the answer.

        Raises CommitFailed (the member is not of this generation any more), Refused, RequestTimedOut,
        NotReachable.
        """
        coordinator = Coordinator(self._network, TRANSACTION, group_id, by_group=True)
        what = f"InitProducerId of group {group_id!r}"
        try:
            answer = await coordinator.call(INIT_PRODUCER_ID, request, timeout_s=self._timeout_s)
        except ApiError as error:
            raise from_group_init(error, what) from error
        if answer.transactional_id is None:
            raise refused(ErrorCode.UNSUPPORTED_VERSION, f"{what}: these brokers fence no group")
        return answer.transactional_id, answer

    def _of(self, group_id: str) -> Coordinator:
        if group_id not in self._coordinators and len(self._coordinators) >= GROUPS_MAX:
            self._coordinators.clear()
        return self._coordinators.setdefault(group_id, Coordinator(self._network, GROUP, group_id))
