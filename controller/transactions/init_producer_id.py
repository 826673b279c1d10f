"""InitProducerId: a new (producer id, epoch) for a transactional id; older ones are fenced.

Instance    the life of one producer with a transactional id. It begins with an InitProducerId without an
            epoch, which fences the one before. Its later requests name the pair it holds:

            given epoch                     answer, in Empty and CompleteX
            none                            epoch + 1; the instance's first epoch is the new one
            the current one                 epoch + 1; the instance goes on
            instance's first .. current     the current one: a retry, or a producer that timed out
            anything else                   fenced

            An open transaction is aborted first, at epoch + 1, and the request is refused with 51, which
            clients retry. If the request names no epoch, that record already begins the new instance, or
            the fenced one would pass for a retry. A retry changes nothing, the open transaction included.
Given out   the epoch of such an abort, and of a timeout's, is given out by a record of its own: until the
            instance has requested it, nothing is accepted with it, this request neither.
Kept        with KeepPreparedTxn the open transaction stays, to be ended by the new instance: only the
            client's pair is bumped, and differs from the transaction's from then on (pairs.py). Nothing more
            is added to it. It keeps the timeout that it began with, but has none if the new instance uses
            two-phase commit. The timeout that is requested counts from the next transaction on.
Pairs       what is given is compared with the client's pair. Where nothing is open it is the only one.
Group       of a member of a group (KIP-447): others lose its partitions first (group_init.py). It begins an
            instance, whatever it was before; one that goes on by its pair keeps what it was assigned, and one
            that begins without a group has nothing.
Rotation    past epoch 32766 a new producer id at epoch 0. 32767 is left to the coordinator's own fencing.
Deviation   Kafka recognises one lost bump and forgets it at a failover (KIP-360 as proposed does not), and
            fences a live producer if a retry of its own arrives late.
Source      KIP-360, KIP-588; Kafka TransactionCoordinator.handleInitProducerId; docs/kafka-notes.md B2, B11.
"""

import enum
from typing import TypeAlias

import msgspec

from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    ProducerFenced,
)
from fencepost.controller.transactions import assignments, group_init
from fencepost.controller.transactions.ending import cost_of_end, records_of_end
from fencepost.controller.transactions.fencing import (
    fenced,
    fenced_open,
    is_current,
    is_given_out,
    is_last,
    of_known_instance,
)
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer, require_valid
from fencepost.controller.transactions.pairs import Pair, client_pair, transaction_pair
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    PREPARED_STATES,
    TWO_PHASE_TIMEOUT_MS,
    FenceCause,
    State,
    Transaction,
    get,
    is_key,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Fence,
    TransactionStateRecord,
)
from fencepost.records.types import ProducerId

InitDecision: TypeAlias = Decision[InitProducerIdAnswer | ConcurrentTransactions]


class _Case(enum.Enum):
    NEW = enum.auto()  # nothing is known of the id
    WAIT = enum.auto()  # its markers are still being written
    ABORT = enum.auto()  # a transaction is open
    KEEP = enum.auto()  # the same, and the new instance is to end it
    RETRY = enum.auto()
    GIVE_OUT = enum.auto()  # the epoch of an abort, to the instance that held the one before
    BUMP = enum.auto()
    ROTATE = enum.auto()


def needs_producer_id(view: View, request: InitProducerId, now_ms: int) -> bool:
    """Whether the decision needs a new producer id. A refused request wants none."""
    whose = request.transactional_id
    if whose is None and request.member is None:
        return True
    if whose is not None and not is_key(whose):
        return False
    try:
        row = None if whose is None else get(view, whose)
        case = _case(row, request)
        if request.member is not None:
            group_init.require_assigned(view, request.member)
            found = group_init.rivals(view, request.member, whose)
            if found.held or found.ending:
                return False
    except ApiError:
        return False
    if case is _Case.KEEP and row is not None:
        return client_pair(row).epoch >= CLIENT_EPOCH_MAX
    return case in (_Case.NEW, _Case.ROTATE)


def decide_init_producer_id(
    view: View, request: InitProducerId, *, now_ms: int, fresh: ProducerId | None, max_timeout_ms: int
) -> InitDecision:
    """The pair that the producer holds from now on. ``fresh``: see ``needs_producer_id``.

    Raises   UnsupportedVersion (the log level is too low for two-phase commit), InvalidRequest,
             InvalidTransactionTimeout, ProducerFenced, ConcurrentTransactions (nothing is written),
             CoordinatorLoadInProgress (no fresh id); of a member of a group: see group_init.py.
    Answers  ConcurrentTransactions with a record that aborts what is open: retry when it is aborted.
    """
    if request.transactional_id is None and request.member is None:
        return Decision((), InitProducerIdAnswer(allocated(fresh), 0))
    require_valid(view, request, max_timeout_ms)
    row = None if request.transactional_id is None else get(view, request.transactional_id)
    case = _case(row, request)
    if request.member is not None:
        group_init.require_assigned(view, request.member)
        fencing = (
            None if case in (_Case.WAIT, _Case.ABORT) else _fencing(view, request, request.member, now_ms)
        )
        if fencing is not None:
            return fencing
    if row is None:
        whose = request.transactional_id or _made_id(view, request, allocated(fresh))
        return _written(view, _instance(_brand_new(whose, allocated(fresh)), request, now_ms), request)
    if case is _Case.WAIT:
        raise ConcurrentTransactions(f"{row.transactional_id!r} is in {row.state.wire_name}: retry later")
    if case is _Case.RETRY:
        return Decision((), InitProducerIdAnswer(*client_pair(row)))
    if case is _Case.KEEP:
        return _kept(view, row, request, fresh, now_ms)
    if case is _Case.ABORT:
        aborting = _aborting(row, request, now_ms)
        come_back = ConcurrentTransactions(
            f"the open transaction of {row.transactional_id!r} is being aborted"
        )
        return Decision(records_of_end(view, aborting), come_back, extra_cost=cost_of_end(view, aborting))
    if case is _Case.ROTATE:
        return _written(view, _rotated(row, request, allocated(fresh), now_ms), request)
    if case is _Case.GIVE_OUT:
        return _written(view, given_out(row, request, fresh, now_ms), request)
    return _written(view, _bumped(row, request, now_ms), request)


def _fencing(
    view: View, request: InitProducerId, member: MemberAssignment, now_ms: int
) -> InitDecision | None:
    """What fences other producers of the partitions. None: there is no other any more.

    Raises   RivalsEnding: none is left to fence, but one is not at its end.
    """
    found = group_init.rivals(view, member, request.transactional_id)
    if not found.held and not found.ending:
        return None
    written = group_init.fence(view, member, found, now_ms=now_ms, by=request.client_id)
    names = (*written.transactional_ids, *found.ending)
    rivals = group_init.RivalsEnding(
        f"{len(names)} other producers of group {member.group_id!r} end first, {names[0]!r} is one of them",
        names,
    )
    if not written.records:
        raise rivals
    return Decision(written.records, rivals, extra_cost=written.extra_cost)


def _made_id(view: View, request: InitProducerId, fresh: ProducerId) -> str:
    """A transactional id of our own. Raises CoordinatorLoadInProgress if it is in use: retry."""
    group_id = "" if request.member is None else request.member.group_id
    made = f"{group_id}-{fresh}"
    if get(view, made) is not None:
        raise CoordinatorLoadInProgress(f"transactional id {made!r} is in use: retry")
    return made


def _case(row: Transaction | None, request: InitProducerId) -> _Case:
    """Which case the request is. Raises ProducerFenced: its instance does not hold the id."""
    if request.producer_epoch > CLIENT_EPOCH_MAX:
        raise ProducerFenced(f"epoch {request.producer_epoch} is given to no producer")
    if row is None:
        return _Case.NEW  # an id that expired is begun anew, whatever pair is given (row 360.4)
    given = request.producer_id != NO_PRODUCER_ID
    current = given and is_current(row, request.producer_id, request.producer_epoch)
    if given and not current and not _is_retry(row, request):
        has = client_pair(row)
        raise ProducerFenced(
            f"{row.transactional_id!r} has ({has.producer_id}, {has.epoch}) since epoch "
            f"{row.instance_epoch}, not ({request.producer_id}, {request.producer_epoch})"
        )
    if row.state in PREPARED_STATES:
        return _Case.WAIT
    if given and not current and is_given_out(row):
        return _Case.RETRY
    if row.state is State.ONGOING:
        return _Case.KEEP if request.keeps_prepared else _Case.ABORT
    if given and not current:
        return _Case.ROTATE if row.producer_epoch > CLIENT_EPOCH_MAX else _Case.GIVE_OUT
    exhausted = row.producer_epoch >= CLIENT_EPOCH_MAX
    return _Case.ROTATE if exhausted else _Case.BUMP


def _is_retry(row: Transaction, request: InitProducerId) -> bool:
    """The same instance, with a pair that it held before."""
    if is_last(row, request.producer_id, request.producer_epoch):
        return True
    client = client_pair(row)
    if request.producer_id != client.producer_id or row.instance_epoch == NO_EPOCH:
        return False  # a row imported from Kafka does not say which epochs were one instance's
    return row.instance_epoch <= request.producer_epoch < client.epoch


def allocated(fresh: ProducerId | None) -> ProducerId:
    """The id that a decision needs. Raises CoordinatorLoadInProgress if there is none."""
    if fresh is None:
        raise CoordinatorLoadInProgress("no producer id is at hand; retry soon")
    return fresh


def given_out(
    row: Transaction, request: InitProducerId, fresh: ProducerId | None, now_ms: int
) -> Transaction:
    """``row``, of an abort that bumped the epoch, with the pair that its instance is answered with.

    Raises   CoordinatorLoadInProgress if that takes a fresh id: the epoch is 32767.
    """
    if row.producer_epoch > CLIENT_EPOCH_MAX:
        return _rotated(row, request, allocated(fresh), now_ms)
    return _instance(row, request, now_ms)


def _written(view: View, row: Transaction, request: InitProducerId) -> InitDecision:
    record, cost = _assigned(view, record_of(row), request)
    answer = InitProducerIdAnswer(
        row.producer_id,
        row.producer_epoch,
        transactional_id=None if request.member is None else row.transactional_id,
    )
    return Decision((record,), answer, extra_cost=cost)


def _assigned(
    view: View, record: TransactionStateRecord, request: InitProducerId
) -> tuple[TransactionStateRecord, int]:
    """``record`` with what its id works on from now on, and what replaying that takes beside its bytes."""
    before = assignments.assigned(view, record.transactional_id)
    if request.member is not None:
        given = group_init.recorded(request.member)
        if record.status == State.ONGOING:  # kept: what is open is still for the partitions of before
            given = assignments.with_keys(given, -1, assignments.keys_of(before))
        cost = group_init.cost_of_recording(request.member)
        return msgspec.structs.replace(record, assignments=given), cost
    begins = request.producer_id == NO_PRODUCER_ID and record.status != State.ONGOING
    return (msgspec.structs.replace(record, assignments=()) if begins and before else record), 0


def _brand_new(transactional_id: str, fresh: ProducerId) -> Transaction:
    return Transaction(transactional_id, fresh, 0, 0, State.EMPTY)


def _instance(row: Transaction, request: InitProducerId, now_ms: int) -> Transaction:
    """``row``, whose pair is new, in Empty, held by the instance that sent the request."""
    given = request.producer_id != NO_PRODUCER_ID
    first = row.instance_epoch if given and row.producer_epoch > 0 else row.producer_epoch
    return msgspec.structs.replace(
        row,
        transaction_timeout_ms=_timeout_ms(request),
        state=State.EMPTY,
        partitions=(),
        updated_ms=now_ms,
        started_ms=-1,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        client_transaction_version=0,
        instance_epoch=first,
        init_version=request.init_version,
    )


def _bumped(row: Transaction, request: InitProducerId, now_ms: int) -> Transaction:
    given = request.producer_id != NO_PRODUCER_ID
    bumped = msgspec.structs.replace(
        row,
        producer_epoch=row.producer_epoch + 1,
        previous_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=row.producer_epoch if given else NO_EPOCH,
        timed_out=False,
        fences=row.fences if given else _taken_over(row, request, now_ms),
    )
    return _instance(bumped, request, now_ms)


def _rotated(row: Transaction, request: InitProducerId, fresh: ProducerId, now_ms: int) -> Transaction:
    """The instance's last epoch is 32766, whatever the row has: 32767 is never handed out."""
    given = request.producer_id != NO_PRODUCER_ID
    rotated = msgspec.structs.replace(
        row,
        producer_id=fresh,
        producer_epoch=0,
        previous_producer_id=row.producer_id,
        last_producer_epoch=CLIENT_EPOCH_MAX if given else NO_EPOCH,
        timed_out=row.timed_out and given and not is_given_out(row),  # else the instance bumps past it
        fences=row.fences if given else _taken_over(row, request, now_ms),
    )
    return _instance(rotated, request, now_ms)


def _aborting(row: Transaction, request: InitProducerId, now_ms: int) -> Transaction:
    """PrepareAbort at the next epoch, which no producer has yet. Without a given one an instance begins."""
    given, was_given_out = request.producer_id != NO_PRODUCER_ID, is_given_out(row)
    row = of_known_instance(row)
    if not given:
        return fenced_open(row, FenceCause.NEW_INSTANCE, now_ms, request.client_id)
    return msgspec.structs.replace(
        fenced_open(row, FenceCause.SAME_INSTANCE, now_ms, request.client_id),
        last_producer_epoch=client_pair(row).epoch if was_given_out else row.last_producer_epoch,
        instance_epoch=row.instance_epoch,
    )


def _kept(
    view: View, row: Transaction, request: InitProducerId, fresh: ProducerId | None, now_ms: int
) -> InitDecision:
    """The open transaction as it is, and a new instance with a pair of its own that alone may end it."""
    client, ongoing = client_pair(row), transaction_pair(row)
    exhausted = client.epoch >= CLIENT_EPOCH_MAX
    pair = Pair(allocated(fresh), 0) if exhausted else Pair(client.producer_id, client.epoch + 1)
    wanted_ms = _timeout_ms(request)
    timeout_ms = row.transaction_timeout_ms
    if request.enables_two_phase:
        timeout_ms = TWO_PHASE_TIMEOUT_MS
    elif not row.is_two_phase:
        timeout_ms = min(timeout_ms, TWO_PHASE_TIMEOUT_MS - 1)
    kept = msgspec.structs.replace(
        row,
        transaction_timeout_ms=timeout_ms,
        updated_ms=now_ms,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=pair.producer_id,
        next_producer_epoch=pair.epoch,
        instance_epoch=pair.epoch,
        last_producer_epoch=NO_EPOCH,
        init_version=request.init_version,
        timed_out=False,
        fences=fenced(row, FenceCause.NEW_INSTANCE, now_ms, request.client_id),
    )
    record = record_of(kept)
    if wanted_ms != timeout_ms:
        record = msgspec.structs.replace(record, next_timeout_ms=wanted_ms)
    record, cost = _assigned(view, record, request)
    whose = None if request.member is None else row.transactional_id
    return Decision((record,), InitProducerIdAnswer(*pair, *ongoing, whose), extra_cost=cost)


def _timeout_ms(request: InitProducerId) -> int:
    """What is stored: the largest number says that there is none, which no other request may."""
    if request.enables_two_phase:
        return TWO_PHASE_TIMEOUT_MS
    return min(request.transaction_timeout_ms, TWO_PHASE_TIMEOUT_MS - 1)


def _taken_over(row: Transaction, request: InitProducerId, now_ms: int) -> tuple[Fence, ...]:
    """The row's fences after a new instance took over. One that was never answered is not fenced."""
    if row.init_version < 0 and row.instance_epoch == row.producer_epoch:
        return row.fences
    return fenced(row, FenceCause.NEW_INSTANCE, now_ms, request.client_id)
