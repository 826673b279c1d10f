"""The named invariants of docs/design.md 10, judged after every event of a simulation.

Each takes the ledger and what the event added, and raises Violation. The first to show a fact is its
witness; whoever shows another is named beside it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from fencepost.records.batch import stamped_ms
from fencepost.records.types import Term
from tests.simulation.config import SESSION_MS
from tests.simulation.ledger import Ledger, News


class Violation(AssertionError):
    """An invariant does not hold. Says which, and who showed what."""


Invariant = Callable[[Ledger, News], None]


def require(holds: bool, claim: str, **facts: object) -> None:
    """Raise Violation unless ``holds``."""
    if not holds:
        raise Violation(f"{claim}: " + ", ".join(f"{name}={fact!r}" for name, fact in facts.items()))


def blocks_are_disjoint(ledger: Ledger, news: News) -> None:
    """I1. No producer id is handed out twice, over everything that anyone was ever told."""
    for attempt in news.told:
        if attempt.kind not in ("allocate", "direct") or attempt.outcome != "done":
            continue
        block = (attempt.answer.first, attempt.answer.first + attempt.answer.length)
        at = bisect_left(ledger.told_blocks, block)
        for other in ledger.told_blocks[max(0, at - 1) : at + 1]:
            require(
                block[1] <= other[0] or other[1] <= block[0],
                "I1: ids handed out twice",
                block=block,
                other=other,
            )
        insort(ledger.told_blocks, block)


def logs_agree(ledger: Ledger, news: News) -> None:
    """I2. What was applied at an index is what everybody applies there, restarts and failovers included."""
    for seen in news.seen:
        known = ledger.entries.setdefault(seen.index, seen)
        require(
            (known.term, known.command) == (seen.term, seen.command),
            "I2: a committed entry was replaced",
            index=seen.index,
            first=(known.node, known.term, known.claim),
            now=(seen.node, seen.term, seen.claim),
        )


def what_was_told_is_committed(ledger: Ledger, news: News) -> None:
    """I2. An acknowledged record is in the committed log (and ``logs_agree`` keeps it there)."""
    for attempt in news.told:
        if attempt.outcome != "done":
            continue
        if attempt.kind in ("allocate", "register"):
            require(attempt.mark in ledger.marks, "I2: told done, not committed", attempt=attempt)
        if attempt.kind == "allocate":
            block = (attempt.answer.first, attempt.answer.first + attempt.answer.length)
            require(block in ledger.blocks, "I2: a block that the log does not have", block=block)


def images_agree_at_a_version(ledger: Ledger, news: News) -> None:
    """I3. Same image version, same digest: applied, installed or found at a start."""
    shown = [(seen.node, seen.after, seen.digest) for seen in news.seen if seen.digest]
    for node, header, digest in (*shown, *news.installed):
        known = ledger.digests.setdefault(header.version, digest)
        require(known == digest, "I3: images differ", node=node, version=header.version, header=header)


def one_leader_per_term(ledger: Ledger, news: News) -> None:
    """I4. At most one leader per term."""
    for term, node in news.led:
        known = ledger.leaders.setdefault(term, node)
        require(known == node, "I4: two leaders", term=term, first=known, second=node)


def commit_index_never_goes_back(ledger: Ledger, news: News) -> None:
    """I4. In one life of a process; what it forgets by dying, ``logs_agree`` judges."""
    for node, life, index in news.committed:
        known = ledger.commit_index.get((node, life), 0)
        require(index >= known, "I4: the commit index went back", node=node, was=known, now=index)
        ledger.commit_index[node, life] = index


def one_winner_per_version(ledger: Ledger, news: News) -> None:
    """I5. Of entries with one base version at most one applies, and everybody agrees which."""
    for seen in news.seen:
        known = ledger.entries[seen.index]
        require(
            known.applied == seen.applied,
            "I5: applied here, superseded there",
            index=seen.index,
            first=known.node,
            now=seen.node,
        )
        if seen.applied and seen.entry is not None and seen.claim is not None:
            base = seen.before.version if seen.changes_leader else seen.entry.base_version
            winner = ledger.winners.setdefault(base, seen.claim)
            require(winner == seen.claim, "I5: two winners", base=base, first=winner, second=seen.claim)


def refused_is_never_done(ledger: Ledger, news: News) -> None:
    """Nothing that was answered as refused or not-leader is ever in the log."""
    for attempt in news.told:
        if attempt.outcome == "refused":
            require(attempt.mark not in ledger.marks, "refused, but done before", attempt=attempt)
    for seen in news.seen:
        for mark in seen.marks:
            require(mark not in ledger.refused, "refused, but done later", attempt=ledger.refused.get(mark))


def answers_are_fresh(ledger: Ledger, news: News) -> None:
    """An answer knows everything that anyone had been told when its question was asked (linearizable)."""
    for attempt in news.told:
        if attempt.outcome == "done" and attempt.kind == "read":
            require(attempt.answer >= attempt.told_end, "a stale read", attempt=attempt)
        if attempt.outcome == "done" and attempt.kind == "allocate":
            require(attempt.answer.first >= attempt.told_end, "a block from the past", attempt=attempt)


def a_full_disk_takes_nothing(ledger: Ledger, news: News) -> None:
    """A node that knows that its disk is full decides no request: each is refused, and never done later."""
    for attempt in news.told:
        if attempt.full:
            require(attempt.outcome == "refused", "decided with a full disk", attempt=attempt)


def one_vote_per_term(ledger: Ledger, news: News) -> None:
    """A directory votes once in a term, whatever it forgot; and only once it is bound (docs/design.md 4)."""
    for node, directory, term, candidate in news.votes:
        known = ledger.votes.setdefault((node, directory, term), candidate)
        require(known == candidate, "two votes", voter=node, term=term, first=known, second=candidate)
        require((node, directory) in ledger.bindings, "an unbound directory votes", voter=node, term=term)


def who_does_not_count_does_not_campaign(ledger: Ledger, news: News) -> None:
    """A directory campaigns once it is bound, and with an image that it does not know to be a bad one."""
    for each in news.campaigns:
        bound = (each.node, each.directory) in ledger.bindings
        require(bound, "an unbound directory campaigns", node=each.node, term=each.term)
        require(not each.image_is_bad, "a bad image campaigns", node=each.node, term=each.term)


def sessions_are_whole(ledger: Ledger, news: News) -> None:
    """A leader fences a broker that it did not hear for a whole session; its activation counts as hearing."""
    for seen in news.seen:
        if ledger.entries[seen.index] is not seen or seen.entry is None:
            continue
        term = Term(seen.entry.controller_epoch)
        for broker_id in seen.fenced:
            if (term, broker_id) in ledger.fences_wanted:
                continue
            decided_ms = stamped_ms(seen.entry.batches[0][1])
            heartbeat_ms = ledger.heartbeat_ms.get((term, broker_id), ledger.active_ms[term])
            require(
                decided_ms - heartbeat_ms >= SESSION_MS,
                "fenced before its session ended",
                broker=broker_id,
                term=term,
                silent_ms=decided_ms - heartbeat_ms,
            )
    for attempt in news.told:
        if attempt.kind == "heartbeat" and attempt.outcome == "done" and attempt.leader_ms is not None:
            term, taken_ms = attempt.leader_ms
            ledger.heartbeat_ms[term, attempt.broker_id] = taken_ms


INVARIANTS: tuple[Invariant, ...] = (
    blocks_are_disjoint,
    logs_agree,
    what_was_told_is_committed,
    images_agree_at_a_version,
    one_leader_per_term,
    commit_index_never_goes_back,
    one_winner_per_version,
    refused_is_never_done,
    answers_are_fresh,
    a_full_disk_takes_nothing,
    one_vote_per_term,
    who_does_not_count_does_not_campaign,
    sessions_are_whole,
)
