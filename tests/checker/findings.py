"""What a history shows that must not be: pure, from ``Evidence`` to findings, one per fault.

input-lost       an acknowledged input is not in the input log
input-duplicate  a number is twice in an input partition
aborted-seen     outputs of a transaction are visible that was aborted, or that was never to commit
zombie           outputs of a fenced application are visible: its transaction was refused, or outputs of a
                 later generation lie before them, of the same input partition
torn             some outputs of a transaction are visible, and some are not
no-input         an output names an input that no read_committed reader of the input sees
duplicate        two outputs of one input
reorder          an output of an earlier input lies behind one of a later input of that partition
loss             an input without an output
offset-ahead     a committed offset is past the outputs: at the end, or before the transaction began that
                 wrote the last of them
offset-behind    a committed offset is before the outputs: at the end, or after the commit of a later one
backwards        a committed offset is lower than one that was fetched before
unstable-read    a reader saw what is not in the log at the end
missed-read      a reader passed over what is in the log at the end
hung             a call of a producer did not return, and the nodes may be why: not if the client waits
                 for no response and sends nothing (``Verdict.LIBRARY``), which no node can end
stall            inputs of a topic waited for more than STALL_SECONDS_MAX, and none of it was committed

Precedence   a record is blamed once: for the first of these that explains it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tests.checker.evidence import (
    NEVER_COMMITTED,
    NO_OFFSET,
    Attempt,
    Evidence,
    Input,
    Outcome,
    Output,
    Partition,
    Transaction,
    Verdict,
)

STALL_SECONDS_MAX: Final = 60.0
"""Sessions, rebalances and the timeouts of transactions are in it, and deaths of leaders among them."""


class Finding(NamedTuple):
    """A fault: its name, and the least that shows it."""

    name: str
    facts: str


def find(evidence: Evidence) -> list[Finding]:
    """All faults of a run; empty means that none was found."""
    outputs = sorted(evidence.outputs)
    aborted = list(_aborted(evidence, outputs))
    blamed = {transaction for transaction, _ in aborted}
    zombies = list(_zombies([each for each in outputs if each.transaction not in blamed]))
    blamed |= {transaction for transaction, _ in zombies}
    live = [each for each in outputs if each.transaction not in blamed]
    torn = list(_torn(evidence, live))
    blamed |= {transaction for transaction, _, _ in torn}
    duplicates = dict(_duplicates(live))
    offsets, ahead = _offsets_at_end(evidence, outputs)
    missing = {source for _, sources, _ in torn for source in sources}
    return [
        *_inputs(evidence),
        *(finding for _, finding in aborted),
        *(finding for _, finding in zombies),
        *(finding for _, _, finding in torn),
        *_without_input(evidence, live),
        *duplicates.values(),
        *_reordered([each for each in live if each.source not in duplicates]),
        *_lost(evidence, outputs, missing, ahead),
        *offsets,
        *_samples(evidence, outputs),
        *_reads(evidence, outputs, blamed),
        *_hangs(evidence),
        *_stalls(evidence),
    ]


def _inputs(evidence: Evidence) -> Iterator[Finding]:
    there = set(evidence.inputs)
    for each in evidence.acknowledged:
        if each not in there:
            yield Finding("input-lost", f"{each} was acknowledged and is not in the log")
    places: dict[tuple[Partition, int], Input] = {}
    for each in sorted(evidence.inputs):
        first = places.setdefault((each.partition, each.number), each)
        if first is not each:
            yield Finding("input-duplicate", f"{each} is in the log at offset {first.offset}, too")


def _aborted(evidence: Evidence, outputs: Iterable[Output]) -> Iterator[tuple[Transaction, Finding]]:
    for transaction, records in _by_transaction(outputs).items():
        attempt = evidence.attempts.get(transaction)
        outcome = attempt.outcome if attempt else Outcome.IN_DOUBT
        if outcome in NEVER_COMMITTED:
            name = "zombie" if outcome is Outcome.REFUSED else "aborted-seen"
            yield transaction, Finding(name, f"{records[0]} is visible, and the transaction was {outcome}")


def _zombies(outputs: Iterable[Output]) -> Iterator[tuple[Transaction, Finding]]:
    latest: dict[tuple[int, Partition], Output] = {}
    found: dict[Transaction, Finding] = {}
    for each in outputs:
        before = latest.setdefault((each.partition, each.source.partition), each)
        if each.generation >= before.generation:
            latest[each.partition, each.source.partition] = each
        else:
            facts = f"{each} of {each.source} lies behind {before} of {before.source}"
            found.setdefault(each.transaction, Finding("zombie", facts))
    yield from found.items()


def _torn(
    evidence: Evidence, outputs: Iterable[Output]
) -> Iterator[tuple[Transaction, frozenset[Input], Finding]]:
    for transaction, records in _by_transaction(outputs).items():
        indexes = {each.index for each in records}
        missing = sorted(set(range(records[0].size)) - indexes)
        if missing:
            attempt = evidence.attempts.get(transaction)
            sources = frozenset(attempt.sources if attempt else ())
            seen = f"{len(indexes)} of {records[0].size} outputs are visible, such as {records[0]}"
            yield transaction, sources, Finding("torn", f"{seen}; outputs {missing} are not")


def _without_input(evidence: Evidence, outputs: Iterable[Output]) -> Iterator[Finding]:
    inputs = set(evidence.inputs)
    for each in outputs:
        if each.source not in inputs:
            yield Finding("no-input", f"{each} names {each.source}, which no reader sees")


def _duplicates(outputs: Iterable[Output]) -> Iterator[tuple[Input, Finding]]:
    for source, records in _by_source(outputs).items():
        if len(records) > 1:
            yield source, Finding("duplicate", f"{source} has {' and '.join(map(str, records))}")


def _reordered(outputs: Iterable[Output]) -> Iterator[Finding]:
    last: dict[tuple[int, Partition], Output] = {}
    for each in outputs:
        before = last.setdefault((each.partition, each.source.partition), each)
        if each.source.offset < before.source.offset:
            facts = f"{each} of {each.source} lies behind {before} of {before.source}"
            yield Finding("reorder", facts)
        else:
            last[each.partition, each.source.partition] = each


def _lost(
    evidence: Evidence, outputs: Iterable[Output], missing: set[Input], ahead: dict[Partition, int]
) -> Iterator[Finding]:
    """One finding per run of inputs; not what torn transactions or an offset past the last output explain."""
    answered = {each.source for each in outputs}
    run: list[Input] = []
    for each in [*sorted(set(evidence.inputs)), None]:
        lost = (
            each is not None
            and each not in answered
            and each not in missing
            and not each.offset >= ahead.get(each.partition, each.offset + 1)
        )
        if run and not (lost and each is not None and each.partition == run[-1].partition):
            acknowledged = len(set(run).intersection(evidence.acknowledged))
            facts = f"{len(run)} inputs from {run[0]} to {run[-1]} have no output"
            yield Finding("loss", f"{facts}; {acknowledged} of them were acknowledged to their producer")
            run = []
        if lost and each is not None:
            run.append(each)


def _offsets_at_end(
    evidence: Evidence, outputs: Iterable[Output]
) -> tuple[list[Finding], dict[Partition, int]]:
    """Findings, and for each partition whose offset is past its outputs where those end."""
    if evidence.committed is None:
        return [], {}
    ends: dict[Partition, int] = {}
    for each in outputs:
        partition = each.source.partition
        ends[partition] = max(ends.get(partition, 0), each.source.offset + 1)
    found, ahead = [], {}
    for partition, offset in sorted(evidence.committed.items()):
        end = ends.get(partition, NO_OFFSET)
        facts = f"at the end {partition} has the committed offset {offset}, its outputs end at {end}"
        if offset > max(end, 0):  # 0 is committed before the first application starts
            ahead[partition] = end
            found.append(Finding("offset-ahead", facts))
        elif offset < end:
            found.append(Finding("offset-behind", facts))
    return found, ahead


def _samples(evidence: Evidence, outputs: Iterable[Output]) -> Iterator[Finding]:
    """At most one finding per partition and name."""
    answers = _by_source_end(outputs)
    found: dict[tuple[Partition, str], Finding] = {}
    floors = _Floors(evidence)
    for sample in sorted(evidence.samples):
        floors.advance(sample.began_at)
        for partition, offset in sorted(sample.offsets.items()):
            when = f"{partition} has the committed offset {offset} at {sample.ended_at:.3f}"
            fetched, committed = floors.fetched.get(partition, NO_OFFSET), floors.committed.get(partition)
            attempts = [evidence.attempts.get(each) for each in answers.get((partition, offset), ())]
            began = [each.began_at for each in attempts if each is not None]
            if offset < fetched:
                finding = Finding("backwards", f"{when}, and had {fetched} before")
            elif committed is not None and offset < committed[0]:
                finding = Finding("offset-behind", f"{when}, after {committed[1]} committed {committed[0]}")
            elif began and min(began) > sample.ended_at:
                finding = Finding("offset-ahead", f"{when}, its last output is of {min(began):.3f}")
            else:
                continue
            found.setdefault((partition, finding.name), finding)
    yield from found.values()


class _Floors:
    """The highest offset of each partition that was fetched, or committed, before a moment."""

    def __init__(self, evidence: Evidence) -> None:
        self.fetched: dict[Partition, int] = {}
        self.committed: dict[Partition, tuple[int, Transaction]] = {}
        self._samples = sorted(evidence.samples, key=lambda each: each.ended_at, reverse=True)
        self._commits: list[Attempt] = sorted(
            (each for each in evidence.attempts.values() if each.outcome is Outcome.COMMITTED),
            key=lambda each: each.ended_at,
            reverse=True,
        )

    def advance(self, now: float) -> None:
        """To a later moment."""
        while self._samples and self._samples[-1].ended_at < now:
            for partition, offset in self._samples.pop().offsets.items():
                self.fetched[partition] = max(offset, self.fetched.get(partition, NO_OFFSET))
        while self._commits and self._commits[-1].ended_at < now:
            attempt = self._commits.pop()
            for partition, end in attempt.ends().items():
                before = self.committed.get(partition)
                if before is None or end > before[0]:
                    self.committed[partition] = (end, attempt.transaction)


def _reads(evidence: Evidence, outputs: list[Output], blamed: set[Transaction]) -> Iterator[Finding]:
    log = {(each.partition, each.offset): (each.transaction, each.index) for each in outputs}
    places: dict[int, list[int]] = defaultdict(list)
    for each in outputs:
        places[each.partition].append(each.offset)
    for read in evidence.reads:
        seen: set[int] = set()
        end = -1
        who = f"{read.reader} of output {read.partition}"
        for offset, transaction, index in read.records:
            seen.add(offset)
            if log.get((read.partition, offset)) == (transaction, index):
                end = max(end, offset)
                continue
            if transaction in blamed:
                continue
            attempt = evidence.attempts.get(transaction)
            aborted = attempt is not None and attempt.outcome in NEVER_COMMITTED
            name = "aborted-seen" if aborted else "unstable-read"
            yield Finding(name, f"{who} saw offset {offset} of {transaction}, which is not there at the end")
        for before, after in pairwise(each[0] for each in read.records):
            if after <= before:
                yield Finding("unstable-read", f"{who} saw offset {after} after {before}")
        missed = [each for each in places[read.partition] if each < end and each not in seen]
        if missed:
            yield Finding("missed-read", f"{who} saw offset {end}, and never {missed[:5]}")


def _hangs(evidence: Evidence) -> Iterator[Finding]:
    for each in evidence.hangs:
        if each.verdict is not Verdict.LIBRARY:
            facts = f"{each.call} of {each.transaction} did not return for {each.seconds:.0f} s"
            waits = ", ".join(each.requests) or "none"
            yield Finding("hung", f"{facts} ({each.verdict}); requests without a response: {waits}")


def _stalls(evidence: Evidence) -> Iterator[Finding]:
    """From a commit, or the acknowledgement of the oldest input that is left, to the next commit."""
    commits: dict[str, list[tuple[float, float]]] = defaultdict(list)  # when, and since when it could be
    for attempt in evidence.attempts.values():
        if attempt.outcome is Outcome.COMMITTED and attempt.sources:
            since = min(evidence.acknowledged.get(each, attempt.began_at) for each in attempt.sources)
            commits[attempt.sources[0].partition.topic].append((attempt.ended_at, since))
    for topic, rows in sorted(commits.items()):
        oldest = float("inf")
        for (before, _), (after, since) in reversed(list(pairwise(sorted(rows)))):
            oldest = min(oldest, since)
            waited = after - max(before, oldest)
            if waited > STALL_SECONDS_MAX:
                yield Finding("stall", f"nothing of {topic} was committed for {waited:.1f} s to {after:.3f}")


def _by_transaction(outputs: Iterable[Output]) -> dict[Transaction, list[Output]]:
    found: dict[Transaction, list[Output]] = defaultdict(list)
    for each in outputs:
        found[each.transaction].append(each)
    return found


def _by_source(outputs: Iterable[Output]) -> dict[Input, list[Output]]:
    found: dict[Input, list[Output]] = defaultdict(list)
    for each in outputs:
        found[each.source].append(each)
    return found


def _by_source_end(outputs: Iterable[Output]) -> dict[tuple[Partition, int], list[Transaction]]:
    """Whose output the last one is that an offset covers."""
    found: dict[tuple[Partition, int], list[Transaction]] = defaultdict(list)
    for each in outputs:
        found[each.source.partition, each.source.offset + 1].append(each.transaction)
    return found
