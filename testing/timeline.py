"""What happened in a test, line by line: who began, what ended, who was fenced by whom, which node died.

Left out   what went well within a transaction; transactions that ended well one after the other are one line,
           and so are lines that repeat. Refusals that clients answer by themselves are left out, too.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.client.fences import fence_text
from fencepost.testing.evidence import LATER, Evidence, code_name, pair_text
from fencepost.testing.journal import Answer, Request

ROWS_MAX: Final = 60
FIRST: Final = 10  # of more than ROWS_MAX these, and then the last
PARTITIONS_MAX: Final = 5

Row = tuple[float, str]


def timeline(evidence: Evidence) -> list[str]:
    """Lines in the order of time; times are seconds of the test."""
    rows = [row for name in evidence.ids() for row in _of_id(evidence, name)]
    rows += [row for group in _groups(evidence) for row in _of_group(evidence, group)]
    rows += [
        (each.at_ms / 1000, f"{name}: {fence_text(each)}")
        for name, fences in evidence.fences.items()
        for each in fences
    ]
    rows += evidence.events
    rows.sort(key=lambda row: row[0])
    lines = [f"{evidence.at(at_s)}  {text}" for at_s, text in _once(rows)]
    if len(lines) <= ROWS_MAX:
        return lines
    more = len(lines) - ROWS_MAX
    return [*lines[:FIRST], f"... {more} more ...", *lines[FIRST + more :]]


def _of_id(evidence: Evidence, name: str) -> Iterator[Row]:
    ended: list[Request] = []
    requests = evidence.of(name)
    for each in requests:
        if each.api == "EndTxn" and each.is_done and not each.delayed_ms:
            if ended and ended[0].committed != each.committed:
                yield _run(evidence, name, ended)
                ended = []
            ended.append(each)
        elif not _is_quiet(each):
            if ended:
                yield _run(evidence, name, ended)
                ended = []
            yield each.at_s, f"{name}: {_text(each)}"
    if ended:
        yield _run(evidence, name, ended)
    last = requests[-1]
    if last.api in ("Produce", "TxnOffsetCommit") and last.is_done:
        yield last.at_s, f"{name}: {last.api} of {_who(last)} to {_partitions(last)}: the last that it did"


def _run(evidence: Evidence, name: str, ended: Sequence[Request]) -> Row:
    what = "committed" if ended[0].committed else "aborted"
    if len(ended) == 1:
        return ended[0].at_s, f"{name}: a transaction of {_who(ended[0])} {what}"
    last = f"the last at {evidence.at(ended[-1].at_s)}"
    return ended[0].at_s, f"{name}: {len(ended)} transactions of {_who(ended[0])} {what}, {last}"


def _is_quiet(request: Request) -> bool:
    if request.answer is not Answer.GIVEN or request.delayed_ms:
        return False
    if request.code in LATER:
        return True
    return request.code == 0 and request.api not in ("InitProducerId", "EndTxn")


def _text(request: Request) -> str:
    if request.api == "InitProducerId" and request.is_done and request.given is not None:
        who = f"client id {request.client_id!r}, node {request.node}"
        return f"{pair_text(request.given)} began ({who})"
    kind = {True: " (commit)", False: " (abort)", None: ""}[request.committed]
    late = f", {request.delayed_ms:g} ms late by the test's fault" if request.delayed_ms else ""
    return f"{request.api}{kind} of {_who(request)}{late}: {_outcome(request)}"


def _outcome(request: Request) -> str:
    if request.answer is Answer.GIVEN and request.code:
        return f"refused with {code_name(request.code)}"
    if request.answer is Answer.REFUSED:
        return f"refused with {code_name(request.code)} by the test's fault; the node never saw it"
    if request.answer is Answer.GIVEN and request.answered_s is not None:
        return f"done, answered after {request.answered_s - request.at_s:.1f} s"
    if request.answer is Answer.DROPPED:
        done = "done" if request.code == 0 else f"refused with {code_name(request.code)}"
        return f"{done}, and its answer dropped by the test's fault"
    if request.answer is Answer.LOST:
        return f"no answer: its connection to node {request.node} ended"
    return str(request.answer.value)


def _who(request: Request) -> str:
    if request.pair is None or request.pair[0] < 0:
        return f"client id {request.client_id!r}"
    return pair_text(request.pair)


def _partitions(request: Request) -> str:
    named = [f"{topic}-{index}" for topic, index in request.partitions[:PARTITIONS_MAX]]
    return ", ".join(named) + (" and more" if len(request.partitions) > PARTITIONS_MAX else "")


def _groups(evidence: Evidence) -> list[str]:
    commits = (each for each in evidence.requests if each.api == "OffsetCommit" and each.group)
    return list(dict.fromkeys(each.group or "" for each in commits))


def _of_group(evidence: Evidence, group: str) -> Iterator[Row]:
    """Offsets that were committed outside of a transaction; those that went well are one line."""
    commits = [each for each in evidence.requests if each.api == "OffsetCommit" and each.group == group]
    well = [each for each in commits if each.is_done]
    if well:
        times = f"{len(well)} times, the last at {evidence.at(well[-1].at_s)}" if len(well) > 1 else "once"
        yield well[0].at_s, f"group {group}: commits offsets of {_partitions(well[0])} itself, {times}"
    for each in commits:
        if not each.is_done and not _is_quiet(each):
            yield each.at_s, f"group {group}: OffsetCommit of {_partitions(each)}: {_outcome(each)}"


def _once(rows: Sequence[Row]) -> Iterator[Row]:
    """Lines that repeat are one, with their number."""
    count = 0
    for index, (at_s, text) in enumerate(rows):
        count += 1
        if index + 1 < len(rows) and rows[index + 1][1] == text:
            continue
        yield at_s, text if count == 1 else f"{text} ({count} times, the last)"
        count = 0
