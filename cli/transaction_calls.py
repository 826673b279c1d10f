"""Requests of the commands to transaction coordinators: lists, descriptions, explanations.

Lists are requested from every broker, as Kafka's tools do: each returns the transactional ids that it
coordinates. Those that coordinate none say NOT_COORDINATOR here; at least one broker must coordinate.
"""

import asyncio
from typing import Final, NamedTuple

from fencepost.cluster.brokers import Brokers
from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    NotCoordinator,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.states import TWO_PHASE_TIMEOUT_MS
from fencepost.records.invariant import InvariantViolation
from fencepost.wire.errors import error_for
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId, InitProducerIdAnswer
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForceMarkers
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION, ExplainTransaction, Explanation
from fencepost.wire.k20066_list_set_aside import LIST_SET_ASIDE, WEDGED, ListSetAside, SetAsideList

TIMEOUT_MS: Final = 60_000  # the default of Kafka's producers
ANY_ID: Final = "any"
"""One node coordinates every id."""


class Listed(NamedTuple):
    """A transaction, and the broker that coordinates it."""

    coordinator_id: int
    transaction: ListedTransaction


class Described(NamedTuple):
    """As ``Listed``. ``explanation`` is None where none can be had: from a broker that is not ours."""

    coordinator_id: int
    transaction: DescribedTransaction
    explanation: Explanation | None

    @property
    def wedged(self) -> tuple[str, ...]:
        """The partitions that refuse its marker."""
        rows = () if self.explanation is None else self.explanation.set_aside
        return tuple(each.partition for each in rows if each.kind == WEDGED)


class Terminated(NamedTuple):
    """``before``: as it was described. ``now`` None: a dry run, nothing was done."""

    before: Described
    now: InitProducerIdAnswer | None


async def list_transactions(brokers: Brokers, request: ListTransactions) -> list[Listed]:
    """By transactional id. Raises ApiError: UnknownStateFilter in words, or what no broker would do."""

    async def ask() -> list[Listed]:
        nodes = sorted(await brokers.nodes())
        answers = await asyncio.gather(*(_listed_by(brokers, node_id, request) for node_id in nodes))
        if all(answer is None for answer in answers):
            raise NotCoordinator("no broker coordinates transactions now")
        found = [each for answer in answers if answer is not None for each in answer]
        return sorted(found, key=lambda each: each.transaction.transactional_id)

    return await brokers.with_retries(ask)


async def _listed_by(brokers: Brokers, node_id: int, request: ListTransactions) -> list[Listed] | None:
    """None: this broker coordinates nothing."""
    try:
        answer = await brokers.ask_node(node_id, LIST_TRANSACTIONS, request)
    except NotCoordinator:
        return None
    if not isinstance(answer, ListTransactionsAnswer):
        raise InvariantViolation(f"a list came as {type(answer).__name__}, which only servers make")
    if answer.unknown_state_filters:
        raise error_for(
            ErrorCode.INVALID_REQUEST, f"no such state: {', '.join(answer.unknown_state_filters)}"
        )
    return [Listed(node_id, each) for each in answer.transactions]


async def describe_transaction(brokers: Brokers, transactional_id: str) -> Described:
    """The state of one transaction. Raises TransactionalIdNotFound."""
    request = DescribeTransactions((transactional_id,))

    async def ask() -> tuple[int, DescribedTransaction]:
        coordinator_id, answer = await brokers.ask_coordinator(
            transactional_id, DESCRIBE_TRANSACTIONS, request
        )
        (described,) = answer.transactions
        if described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        if described.error_code != ErrorCode.NONE:
            raise error_for(described.error_code, f"{transactional_id}: {described.error_code.name}")
        return coordinator_id, described

    coordinator_id, described = await brokers.with_retries(ask)
    return Described(coordinator_id, described, await _explained(brokers, transactional_id))


async def describe_if_known(brokers: Brokers, transactional_id: str) -> DescribedTransaction | None:
    """None if the id is not known (any more)."""
    try:
        return (await describe_transaction(brokers, transactional_id)).transaction
    except TransactionalIdNotFound:
        return None


async def _explained(brokers: Brokers, transactional_id: str) -> Explanation | None:
    request = ExplainTransaction(transactional_id)
    try:
        answer = await brokers.with_retries(
            lambda: brokers.ask_coordinator(transactional_id, EXPLAIN_TRANSACTION, request)
        )
    except UnsupportedVersion:
        return None
    except ApiError as error:  # what it explains was described already: that is worth printing
        if error.code in (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return None
        raise
    return answer[1]


async def list_set_aside(brokers: Brokers) -> SetAsideList:
    """What the coordinator has set aside; empty where it is of a version that does not say."""
    try:
        _, listed = await brokers.with_retries(
            lambda: brokers.ask_coordinator(ANY_ID, LIST_SET_ASIDE, ListSetAside())
        )
    except UnsupportedVersion:
        return SetAsideList()
    return listed


async def force_terminate(brokers: Brokers, transactional_id: str, *, dry_run: bool) -> Terminated:
    """End the id's transaction and fence its producer, as another instance of the producer would.

    The id must be known: InitProducerId would make a new one of a typing error. Its timeout stays what it is;
    one without a timeout (two-phase commit) has TIMEOUT_MS from then on.
    Raises ApiError; CONCURRENT_TRANSACTIONS: it is ending, and did not in time.
    """
    before = await describe_transaction(brokers, transactional_id)
    if dry_run:
        return Terminated(before, None)
    if before.wedged:  # its outcome stays: the marker that is refused is sent again, forced
        await brokers.with_retries(
            lambda: brokers.ask_coordinator(transactional_id, FORCE_MARKERS, ForceMarkers(transactional_id))
        )
    timeout_ms = before.transaction.transaction_timeout_ms
    two_phase = timeout_ms == TWO_PHASE_TIMEOUT_MS
    request = InitProducerId(transactional_id, TIMEOUT_MS if two_phase else timeout_ms)
    _, now = await brokers.with_retries(
        lambda: brokers.ask_coordinator(transactional_id, INIT_PRODUCER_ID, request)
    )
    return Terminated(before, now)
