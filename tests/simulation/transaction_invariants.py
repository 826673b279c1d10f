"""I6 and I7 of docs/design.md 10, judged after every event.

I6   a (producer id, epoch) that a transactional id once left is never current again; a fenced epoch never
     writes again. None is given 32767, and none is fenced unless another instance took over (or the id
     expired): a client that repeats what was not answered goes on.
I7   every transaction ends in exactly one outcome, the same on every partition, the one its client asked for
     or was told.
"""

from fencepost.controller.transactions import states
from fencepost.controller.transactions.pairs import client_pair, transaction_pair
from fencepost.controller.transactions.states import PREPARED_STATES, FenceCause, State
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import ImageVersion
from tests.simulation.facts import (
    Acknowledged,
    Asked,
    Ended,
    Given,
    Identified,
    Marked,
    MarkedByHand,
    Pair,
    PassedOver,
    Prepared,
    Refused,
    TransactionFacts,
    Wrote,
)
from tests.simulation.invariants import Invariant, Violation, require
from tests.simulation.ledger import Ledger, News


def transactions_are_sound(ledger: Ledger, news: News) -> None:
    """I6 and I7. The log first: what a partition does follows from it; then what clients were told."""
    facts = ledger.transactions
    for seen in news.seen:
        if seen.index <= facts.judged:
            continue
        facts.judged = seen.index
        for record in seen.transactions:
            if isinstance(record, TransactionForgotten):
                _forgotten(facts, record)
            else:
                _recorded(facts, record, seen.after.version)
    for fact in news.facts:
        match fact:
            case Wrote():
                _wrote(facts, fact)
            case Marked() | PassedOver() | MarkedByHand():
                _answered_marker(facts, fact)
            case Identified() | Given() | Refused():
                _answered_client(facts, fact)
            case Acknowledged():
                require((fact.place, fact.number) in facts.written, "acknowledged, not written", fact=fact)
                facts.acknowledged.setdefault(fact.purpose, set()).add((fact.place, fact.number))
            case Asked():
                asked = facts.asked.get(fact.purpose, False)  # of what was kept by another instance, too
                facts.asked[fact.purpose] = asked or fact.committed
            case Ended():
                facts.ended[fact.purpose] = fact.committed
                _require_as_told(facts, fact)


# -- the log ---------------------------------------------------------------------------------------------


def _recorded(facts: TransactionFacts, record: TransactionStateRecord, version: ImageVersion) -> None:
    transactional_id, pair = record.transactional_id, client_pair(record)
    owner = facts.owners.setdefault(record.producer_id, transactional_id)
    require(owner == transactional_id, "I6: two ids have one producer id", record=record, owner=owner)
    _leave(facts, transactional_id, pair)
    for fence in record.fences:
        if fence.cause == FenceCause.NEW_INSTANCE:
            _take_over(facts, transactional_id, (fence.producer_id, fence.epoch))
    state = State(record.status)
    _require_fenced_by_markers(facts, record, state)
    before = facts.preparing.get(transactional_id)
    if state in PREPARED_STATES:
        prepared = Prepared(record, version)
        facts.preparing[transactional_id] = prepared
        facts.prepared[record.producer_id, version] = prepared
    elif before is not None:
        _completed(facts, before, record)
        del facts.preparing[transactional_id]


def _forgotten(facts: TransactionFacts, record: TransactionForgotten) -> None:
    transactional_id = record.transactional_id
    require(transactional_id not in facts.preparing, "I7: forgotten while it ends", record=record)
    pair = facts.current.pop(transactional_id, None)
    if pair is not None:
        _take_over(facts, transactional_id, pair)
        facts.left.setdefault(transactional_id, set()).add(pair)


def _take_over(facts: TransactionFacts, transactional_id: str, pair: Pair) -> None:
    """Pairs grow: a producer id is newer than all before it."""
    facts.taken_over[transactional_id] = max(pair, facts.taken_over.get(transactional_id, pair))


def _require_fenced_by_markers(facts: TransactionFacts, record: TransactionStateRecord, state: State) -> None:
    """What an instance keeps was begun by another one, which the markers fence."""
    transactional_id, pair = record.transactional_id, transaction_pair(record)
    begun = facts.open.pop(transactional_id, None)
    if state is State.ONGOING:
        if client_pair(record) != pair:
            facts.open[transactional_id] = pair
    elif state in PREPARED_STATES and begun is not None:
        require(pair > begun, "I6: markers fence none of what was kept", record=record, begun=begun)


def _leave(facts: TransactionFacts, transactional_id: str, pair: Pair) -> None:
    before = facts.current.get(transactional_id)
    if before == pair:
        return
    left = facts.left.setdefault(transactional_id, set())
    require(pair not in left, "I6: a pair came back", transactional_id=transactional_id, pair=pair)
    if before is not None:
        left.add(before)
    facts.current[transactional_id] = pair


def _completed(facts: TransactionFacts, before: Prepared, record: TransactionStateRecord) -> None:
    """CompleteX: of that outcome, after every marker."""
    committed = before.record.status == State.PREPARE_COMMIT
    expected = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
    require(record.status == expected, "I7: another outcome", prepared=before, now=record)
    for each in before.record.partitions or ():
        for place in each.partition_ids:
            marked = (place, before.record.producer_id, before.version) in facts.marked
            require(marked, "I7: complete before its markers", place=place, prepared=before)
    facts.over.update(facts.ending.pop(record.transactional_id, ()))


# -- partitions ------------------------------------------------------------------------------------------


def _wrote(facts: TransactionFacts, fact: Wrote) -> None:
    require((fact.place, fact.number) not in facts.written, "a batch was written twice", fact=fact)
    facts.written.add((fact.place, fact.number))
    producer_id, epoch = fact.pair
    floor = facts.floors.get(producer_id)
    if floor is not None:
        require(epoch >= floor[1], "I6: a fenced epoch writes", fact=fact, floor=floor)
    require(fact.purpose not in facts.over, "I7: written after its end", fact=fact)


def _answered_marker(facts: TransactionFacts, fact: Marked | PassedOver | MarkedByHand) -> None:
    match fact:
        case Marked():
            _marked(facts, fact)
        case PassedOver():
            require(not fact.still_open, "I7: NONE, and its transaction stays open", fact=fact)
            facts.marked.add((fact.place, fact.pair[0], fact.version))
        case MarkedByHand():
            require(not fact.closed, "I7: a stranger ended a transaction", fact=fact)


def _marked(facts: TransactionFacts, fact: Marked) -> None:
    """Of a PrepareX in the log, once for each partition, and everywhere the same."""
    producer_id, epoch = fact.pair
    prepared = facts.prepared.get((producer_id, fact.version))
    if prepared is None:
        raise Violation(f"I7: a marker without a decision: {fact}")
    committed = prepared.record.status == State.PREPARE_COMMIT
    require(fact.committed == committed, "I7: a marker of another outcome", fact=fact, prepared=prepared)
    require(epoch == prepared.record.producer_epoch, "I6: a marker's epoch", fact=fact, prepared=prepared)
    key = (fact.place, producer_id, fact.version)
    require(key not in facts.marked, "I7: a marker was appended twice", fact=fact)
    facts.marked.add(key)
    require(len(fact.closed) <= 1, "I7: one marker ends two transactions", fact=fact)
    for purpose in fact.closed:
        known = facts.outcomes.setdefault(purpose, fact.committed)
        facts.ending.setdefault(prepared.record.transactional_id, set()).add(purpose)
        require(known == fact.committed, "I7: two outcomes", fact=fact, first=known)
        if fact.committed:
            require(facts.asked.get(purpose, False), "I7: nobody asked to commit", fact=fact)
        told = facts.ended.get(purpose, fact.committed)
        require(told == fact.committed, "I7: its client was told otherwise", fact=fact, told=told)


# -- clients ---------------------------------------------------------------------------------------------


def _answered_client(facts: TransactionFacts, fact: Identified | Given | Refused) -> None:
    if isinstance(fact, Refused):
        _refused(facts, fact)
        return
    _given(facts, fact.transactional_id, fact.pair)
    if isinstance(fact, Identified):
        _identified(facts, fact)


def _given(facts: TransactionFacts, transactional_id: str, pair: Pair) -> None:
    owner = facts.owners.setdefault(pair[0], transactional_id)
    require(owner == transactional_id, "I6: two ids have one producer id", pair=pair, owner=owner)
    require(pair[1] < states.EPOCH_MAX, "I6: the last epoch is given to none", pair=pair)


def _refused(facts: TransactionFacts, fact: Refused) -> None:
    newest = facts.taken_over.get(fact.transactional_id)
    justified = newest is not None and newest >= fact.pair
    require(justified, "I6: fenced, and no instance took over", fact=fact, taken_over=newest)


def _identified(facts: TransactionFacts, fact: Identified) -> None:
    """Every pair of this id below the one that was answered is fenced from now on.

    But for that of a transaction that was kept: its partitions take its batches until its markers come.
    """
    producer_id, epoch = fact.pair
    if producer_id == fact.ongoing:
        return
    for known, (owner, floor) in list(facts.floors.items()):
        if known == fact.ongoing:
            continue
        if owner == fact.transactional_id and known < producer_id:
            facts.floors[known] = (owner, 1 << 16)
        elif known == producer_id:
            epoch = max(epoch, floor)
    newer = any(
        owner == fact.transactional_id and known > producer_id for known, (owner, _) in facts.floors.items()
    )
    facts.floors[producer_id] = (fact.transactional_id, 1 << 16 if newer else epoch)


def _require_as_told(facts: TransactionFacts, fact: Ended) -> None:
    known = facts.outcomes.get(fact.purpose, fact.committed)
    require(known == fact.committed, "I7: told otherwise than it is", fact=fact, outcome=known)


TRANSACTION_INVARIANTS: tuple[Invariant, ...] = (transactions_are_sound,)
