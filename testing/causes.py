"""Why a test of exactly-once failed, in plain words: bugs of applications that leave a trace.

Each      is a function of the evidence that returns sentences; nothing is guessed that was not seen. Where
          what was seen has two readings, the sentence says perhaps.
Order     the surest first. What the rest can only suspect is left out once one of them is sure.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from fencepost.testing.evidence import (
    FENCED,
    LATER,
    Evidence,
    Instance,
    code_name,
    error_name,
    instances,
    pair_text,
)
from fencepost.testing.journal import Answer, Pair, Request
from fencepost.wire.k20065_explain_transaction import UNKNOWN

SLOW_S: Final = 0.2  # an answer that took longer may have come after the client's call had timed out
CAUSES_MAX: Final = 10
ORDER: Final = "the order is begin, produce, commit"
UNKNOWN_COMMIT: Final = "A commit that timed out is neither done nor failed: repeat it until it is answered."
UNENDED: Final = frozenset({"_CONFLICT", "_TIMED_OUT"})  # librdkafka: a commit or abort has not returned yet
WRITES: Final = frozenset({"Produce", "AddPartitionsToTxn"})


def causes(evidence: Evidence) -> list[str]:
    """What explains the failure; empty if nothing of it left a trace."""
    sure: Sequence[Callable[[Evidence], list[str]]] = (_unknown_outcomes, _reused_ids, _offsets_outside)
    found = [sentence for look in sure for sentence in look(evidence)]
    for look in (_unwaited_commits, _sent_again):
        found += [] if found else look(evidence)
    found += _timed_out(evidence)
    for look in (_commits_before_produces, _late_commits):
        found += [] if found else look(evidence)
    ids = evidence.ids()
    found += [
        f"{name!r} still has an open transaction: {evidence.open[name]}"
        for name in ids
        if name in evidence.open
    ]
    return found[:CAUSES_MAX]


def _unknown_outcomes(evidence: Evidence) -> list[str]:
    """A commit without an answer, and then another producer of the same id."""
    found = []
    for name in evidence.ids():
        requests = evidence.of(name)
        producers = instances(requests)
        for older, newer in pairwise(producers):
            left = _left_unknown(requests, older, newer)
            if left:
                found.append(_unknown_outcome(evidence, name, left, newer))
    return found


def _left_unknown(requests: Sequence[Request], older: Instance, newer: Instance) -> list[Request]:
    """Attempts to commit one transaction that had no answer when ``newer`` was begun, in their order."""
    before_s = newer.init.at_s
    ends = [each for each in requests if each.api == "EndTxn" and each.pair in older.pairs]
    count = sum(each.at_s < before_s for each in ends)
    if count == 0 or _is_known(ends[count - 1], before_s) or not ends[count - 1].committed:
        return []
    known = [index for index, each in enumerate(ends[:count]) if _is_known(each, before_s)]
    return ends[known[-1] + 1 if known else 0 :]


def _is_known(end: Request, by_s: float) -> bool:
    """The client had an answer by then that says what became of the transaction."""
    if end.answer not in (Answer.GIVEN, Answer.REFUSED) or end.code in LATER:
        return False
    return end.answered_s is None or end.answered_s <= by_s


def _unknown_outcome(evidence: Evidence, name: str, attempts: list[Request], newer: Instance) -> str:
    codes = {each.code for each in attempts}
    if 0 in codes:
        became = "It was committed: what the application sends again is there twice"
    elif codes & FENCED:
        became = "It was aborted by that producer: what it had written is lost, unless it is sent again"
    else:
        became = "It was committed before that, or aborted by that producer"
    first = attempts[0]
    return (
        f"The application ignored an unknown outcome: the commit of {name!r} ({pair_text(first.pair)}), sent "
        f"at {evidence.at(first.at_s)}, {_unanswered(first)}, so it was neither done nor failed. At "
        f"{evidence.at(newer.init.at_s)} the application began another producer of that id "
        f"({pair_text(newer.init.given)}), instead of repeating the commit until it is answered. {became}."
    )


def _unanswered(end: Request) -> str:
    late = f", after the test's fault delayed it by {end.delayed_ms:g} ms" if end.delayed_ms else ""
    if end.answer is Answer.GIVEN and end.answered_s is not None:
        return f"was answered only {end.answered_s - end.at_s:.1f} s later{late}"
    if end.answer is Answer.WAITING:
        return f"had no answer when the test ended{late}"
    said = {
        Answer.DROPPED: "was done, and the test's fault dropped its answer",
        Answer.LOST: f"had no answer: its connection to node {end.node} ended",
        Answer.CLOSED: "was never seen by a node: the test's fault closed its connection",
    }
    return said.get(end.answer, f"was refused with {code_name(end.code)}") + late


def _unwaited_commits(evidence: Evidence) -> list[str]:
    """A commit that had no answer for a while, and a client that was then used as if it had."""
    error = evidence.out_of_state or evidence.gave_up
    if error is None and not evidence.is_lost_or_doubled:
        return []
    for name in evidence.ids():
        ends = [each for each in evidence.of(name) if each.api == "EndTxn"]
        if not ends:
            continue
        done = [index for index, each in enumerate(ends[:-1]) if each.is_done]
        first = ends[done[-1] + 1 if done else 0]
        is_open = ends[-1].answer is Answer.WAITING
        if is_open or (error is not None and not _is_prompt(first, ends[-1])):
            sent = f"({pair_text(first.pair)}), sent at {evidence.at(first.at_s)}, {_unanswered(first)}"
            return [_unwaited(evidence, "commit" if first.committed else "abort", f"{name!r} {sent}")]
    if error is None or error_name(error) not in UNENDED:
        return []
    unsent = [
        f"{name!r} ({pair_text(writes[-1].pair)}), which had written at {evidence.at(writes[-1].at_s)}, was "
        "not sent before the call's time was over"
        for name in evidence.ids()
        if (writes := _written_since_end(evidence.of(name)))
    ]
    return [_unwaited(evidence, "commit", each) for each in unsent[:1]]


def _written_since_end(requests: Sequence[Request]) -> list[Request]:
    """What a transaction has written whose end was not sent."""
    ends = [index for index, each in enumerate(requests) if each.api == "EndTxn"]
    return [each for each in requests[ends[-1] + 1 if ends else 0 :] if each.api in WRITES]


def _is_prompt(first: Request, last: Request) -> bool:
    return last.is_done and last.answered_s is not None and last.answered_s - first.at_s < SLOW_S


def _unwaited(evidence: Evidence, what: str, of: str) -> str:
    did = "The application went on as if the transaction had ended"
    if evidence.out_of_state is not None:
        did += f", and its client refused that ({_error(evidence.out_of_state)})"
    elif evidence.gave_up is not None:
        did = f"The application gave up ({_error(evidence.gave_up)})"
    return (
        f"The application ignored an unknown outcome: the {what} of {of}. {did}. A {what} that timed out is "
        "neither done nor failed: repeat it until it is answered."
    )


def _last_commit(requests: Sequence[Request], pairs: Sequence[Pair]) -> list[Request]:
    """The attempts to commit the last transaction of these pairs, if it is committed; else empty."""
    ends = [each for each in requests if each.api == "EndTxn" and each.pair in pairs]
    if not ends or not ends[-1].committed or not ends[-1].is_done or ends[-1].answered_s is None:
        return []
    known = [index for index, each in enumerate(ends[:-1]) if _is_known(each, ends[-1].at_s)]
    return ends[known[-1] + 1 if known else 0 :]


def _sent_again(evidence: Evidence) -> list[str]:
    """What one producer of a transactional id had committed, and the next one wrote again."""
    for shown, writers in evidence.doubled:
        for name in evidence.ids():
            requests = evidence.of(name)
            for older, newer in pairwise(instances(requests)):
                commit = _last_commit(requests, older.pairs)
                if commit and {*writers} & {*older.pairs} and {*writers} & {*newer.pairs}:
                    return [_again(evidence, name, shown, commit, newer)]
    return []


def _again(evidence: Evidence, name: str, shown: str, commit: Sequence[Request], newer: Instance) -> str:
    first, last = commit[0], commit[-1]
    what = f"the commit of {name!r} ({pair_text(first.pair)}), sent at {evidence.at(first.at_s)}, was "
    then = (
        f"At {evidence.at(newer.began_s)} the application began another producer of that id, which wrote "
        f"{shown} once more."
    )
    if _is_prompt(first, last):
        return (
            f"The application sent again what was committed: {what}answered. {then} How far it got belongs "
            "into the transaction (send_offsets_to_transaction), or is looked up."
        )
    return f"The application ignored an unknown outcome: {what}{_late(first, last)}. {then} {UNKNOWN_COMMIT}"


def _late(first: Request, last: Request) -> str:
    said = f"answered only {(last.answered_s or last.at_s) - first.at_s:.1f} s later"
    if first.delayed_ms:
        return f"{said}, after the test's fault delayed it by {first.delayed_ms:g} ms"
    return said if first is last else f"{said}, when its client had repeated it"


def _late_commits(evidence: Evidence) -> list[str]:
    """Something is lost, and a commit was answered late: by the test's fault, or the last of its id."""
    for name in evidence.ids() if evidence.is_lost else ():
        requests = evidence.of(name)
        for commit in _slow_commits(requests):
            if not _is_prompt(commit[0], commit[-1]):
                return [_perhaps(evidence, name, commit, is_last=commit[-1] is requests[-1])]
    return []


def _slow_commits(requests: Sequence[Request]) -> Iterator[list[Request]]:
    for each in requests:
        if each.api == "EndTxn" and each.committed and each.is_done and each.delayed_ms:
            yield [each]
    for producer in instances(requests)[-1:]:
        commit = _last_commit(requests, producer.pairs)
        if commit and commit[-1] is requests[-1]:
            yield commit


def _perhaps(evidence: Evidence, name: str, commit: Sequence[Request], *, is_last: bool) -> str:
    first, last = commit[0], commit[-1]
    return (
        "Perhaps the application ignored an unknown outcome: the commit of "
        f"{name!r} ({pair_text(first.pair)}), sent at {evidence.at(first.at_s)}, was {_late(first, last)}"
        f"{', and is the last that its producer did' if is_last else ''}. Where an application does not wait "
        "for it, and catches the error, its client refuses what comes next, and that is lost. "
        f"{UNKNOWN_COMMIT}"
    )


def _reused_ids(evidence: Evidence) -> list[str]:
    """A producer that is used after another one with its transactional id began."""
    found = []
    for name in evidence.ids():
        requests = evidence.of(name)
        producers = instances(requests)
        for older, newer in pairwise(producers):
            refused = _refused_after(requests, older, newer)
            if refused is not None:
                found.append(_reused_id(evidence, name, older, newer, refused))
                break
    return found


def _refused_after(requests: Sequence[Request], older: Instance, newer: Instance) -> Request | None:
    """The first request of ``older`` that was sent after ``newer`` had begun, and was refused.

    Or while it began, if it was refused as one that is fenced: two that begin together.
    """
    pending = {each.pair for each in _left_unknown(requests, older, newer)}
    for each in requests:
        began_s = newer.init.at_s if each.code in FENCED else newer.began_s
        if each.at_s < began_s or each.pair not in older.pairs or each.code in (None, 0):
            continue
        if each.api == "EndTxn" and each.pair in pending:  # repeated by the client of the unknown outcome
            continue
        return each
    return None


def _reused_id(evidence: Evidence, name: str, older: Instance, newer: Instance, refused: Request) -> str:
    return (
        f"Two producers use the transactional id {name!r} at the same time: one {_began(evidence, older)}; "
        f"another {_began(evidence, newer)}, and so fenced the first. The first went on: its {refused.api} "
        f"at {evidence.at(refused.at_s)} was refused with {code_name(refused.code)}. The id was reused: each "
        "producer that runs beside others needs one of its own. What a fenced producer had open is aborted."
    )


def _began(evidence: Evidence, producer: Instance) -> str:
    who = f"client id {producer.init.client_id!r}, {pair_text(producer.pairs[0])}"
    return f"began at {evidence.at(producer.began_s)} ({who})"


def _offsets_outside(evidence: Evidence) -> list[str]:
    """Offsets of an input that a consumer commits by itself."""
    outputs = {each.partitions for each in evidence.requests if each.api in WRITES}
    written = {topic for partitions in outputs for topic, _ in partitions}
    first: dict[str, Request] = {}
    for each in evidence.requests:
        if each.api == "OffsetCommit" and each.group and each.code in (None, 0):
            if not written.intersection(topic for topic, _ in each.partitions):
                first.setdefault(each.group, each)
    if not evidence.is_lost_or_doubled:
        return []
    produced_s = [each.at_s for each in evidence.requests if each.api == "Produce"]
    return [_outside(evidence, group, commit, produced_s) for group, commit in first.items()]


def _outside(evidence: Evidence, group: str, commit: Request, produced_s: list[float]) -> str:
    named = ", ".join(f"{topic}-{index}" for topic, index in commit.partitions[:5])
    early = not produced_s or commit.at_s < produced_s[0]
    when = "before the record that came of it was produced" if early else "after the record was produced"
    risk = "lost" if early else "written twice"
    return (
        f"The group {group!r} committed its offsets of {named} outside of a transaction (OffsetCommit at "
        f"{evidence.at(commit.at_s)}), {when}: what the application reads is {risk} if it ends between the "
        "two. Send the offsets with the transaction (send_offsets_to_transaction) between produce and commit."
    )


def _timed_out(evidence: Evidence) -> list[str]:
    return [
        f"The transaction of {name!r} (producer {each.producer_id}, epoch {each.epoch}) was aborted by its "
        f"coordinator at {evidence.at(each.at_ms / 1000)}, as it was open for longer than its timeout"
        f"{f' of {each.timeout_ms} ms' if each.timeout_ms != UNKNOWN else ''}: what it had written is not "
        "there, unless the application sends it again."
        for name in evidence.ids()
        for each in evidence.fences.get(name, ())
        if each.cause == "its timeout"
    ]


def _commits_before_produces(evidence: Evidence) -> list[str]:
    """A client that refused a call, or a producer of which nothing came."""
    refused = evidence.out_of_state
    seen = [
        f"{name!r} ({pair_text(producer.pairs[0])}, since {evidence.at(producer.began_s)}) has produced "
        "nothing in a transaction"
        for name in evidence.ids()
        if not any(each.api in WRITES for each in evidence.of(name))
        for producer in instances(evidence.of(name))[-1:]
    ]
    if refused is not None:
        wire = f" Seen by the cluster: {'; '.join(seen)}." if seen else ""
        said = (
            "The application committed before it produced, or did not begin: its client refused a call "
            f"outside of a transaction ({_error(refused)}); {ORDER}.{wire}"
        )
        return [said]
    if not evidence.is_lost or not seen:
        return []
    said = (
        f"Nothing was ever produced in a transaction of one producer: {'; '.join(seen)}. The application "
        f"committed before it produced, did not begin, or ignores what its client refused; {ORDER}."
    )
    return [said]


def _error(error: BaseException) -> str:
    return f"{error_name(error)}: {error!s:.200}"
