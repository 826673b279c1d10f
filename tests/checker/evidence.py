"""What a run leaves behind, as the analysis reads it: what each client saw, and the logs at the end.

History   JSON lines, one object each, in the order of ``at`` (seconds of CLOCK_MONOTONIC, which all processes
          of a machine share). ``event`` names the kind; some kinds are there only for a person who reads it.
Source    of an output: the input record (topic, partition, offset, number) that it was made from.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

NO_OFFSET: Final = -1  # of a partition that the group has not committed


class Partition(NamedTuple):
    """An input partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Input(NamedTuple):
    """An input record; ``number`` is its producer's, and unique in the partition."""

    partition: Partition
    offset: int
    number: int

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset} (number {self.number})"


class Transaction(NamedTuple):
    """A transaction: the process of an application (one of each incarnation), and its number there."""

    application: str
    number: int

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.application}"


@dataclass(frozen=True, slots=True, order=True)
class Output:
    """An output record: its place, and the transaction that wrote it as its ``index``-th of ``size``."""

    partition: int
    offset: int
    transaction: Transaction
    index: int
    size: int  # how many outputs the transaction has
    generation: int  # of the group, as the application knew it; -1 without a group
    source: Input

    def __str__(self) -> str:
        return (
            f"output {self.partition} offset {self.offset} ({self.transaction}, generation {self.generation})"
        )


class Outcome(StrEnum):
    """How a transaction ended, as far as its application knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    REFUSED = "refused"  # as fenced, or for its generation or member id, before it was to commit
    ABANDONED = "abandoned"  # the process ended, or is stopped, before it was to commit
    IN_DOUBT = "in doubt"  # it was to commit, and no reply says how that ended


class Verdict(StrEnum):
    """Why a call of a producer hangs, by what its client sent and received."""

    UNANSWERED = "unanswered"  # a request has no response, and its connection stands
    ASKING = "asking"  # the coordinators are sent requests, and answer, and the call goes on
    LIBRARY = "library"  # all is answered, and nothing is sent: no node can end this


NEVER_COMMITTED: Final = (Outcome.ABORTED, Outcome.REFUSED, Outcome.ABANDONED)


@dataclass(slots=True)
class Attempt:
    """A transaction as its application saw it. ``ended_at`` is infinite until it returned."""

    transaction: Transaction
    generation: int
    began_at: float
    sources: tuple[Input, ...]
    outcome: Outcome = Outcome.ABANDONED
    ended_at: float = float("inf")

    def ends(self) -> dict[Partition, int]:
        """The offsets that it commits."""
        found: dict[Partition, int] = {}
        for source in self.sources:
            found[source.partition] = max(found.get(source.partition, 0), source.offset + 1)
        return found


class Sample(NamedTuple):
    """An OffsetFetch: sent after ``began_at``, answered before ``ended_at``."""

    began_at: float
    ended_at: float
    offsets: Mapping[Partition, int]


class Read(NamedTuple):
    """What a read_committed reader got of one partition, in its order, while the applications worked."""

    reader: str
    partition: int
    records: tuple[tuple[int, Transaction, int], ...]  # offset, transaction, index


class Hang(NamedTuple):
    """A call of a producer that did not return in time, and the requests that had no response."""

    transaction: Transaction
    call: str
    seconds: float
    verdict: Verdict
    requests: tuple[str, ...]


@dataclass(slots=True)
class Evidence:
    """All of a run. ``committed`` is None where there is no group; ``acknowledged``: when each was."""

    acknowledged: dict[Input, float] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    attempts: dict[Transaction, Attempt] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    hangs: list[Hang] = field(default_factory=list)
    committed: dict[Partition, int] | None = None


Event = Mapping[str, Any]


def events_of(folder: Path) -> list[dict[str, Any]]:
    """The events of all files of a run, by time; a line that a killed process left unfinished is none."""
    found = [event for file in sorted(folder.glob("*.jsonl")) for event in _lines(file.read_bytes())]
    return sorted(found, key=lambda event: float(event["at"]))


def evidence_of(events: Iterable[Event]) -> Evidence:
    """Read a history."""
    found = Evidence()
    reads: dict[tuple[str, int], list[tuple[int, Transaction, int]]] = {}
    for event in events:
        match event["event"]:
            case "inputs_acknowledged":
                found.acknowledged.update((_input(each), event["at"]) for each in event["inputs"])
            case "inputs_read":
                found.inputs += map(_input, event["inputs"])
            case "outputs_read":
                found.outputs += [output_of(*each) for each in event["outputs"]]
            case "transaction_began":
                transaction = Transaction(event["application"], event["number"])
                sources = tuple(map(_input, event["sources"]))
                found.attempts[transaction] = Attempt(transaction, event["generation"], event["at"], sources)
            case "transaction_committing":
                found.attempts[Transaction(event["application"], event["number"])].outcome = Outcome.IN_DOUBT
            case "transaction_ended":
                attempt = found.attempts[Transaction(event["application"], event["number"])]
                attempt.outcome, attempt.ended_at = Outcome(event["outcome"]), event["at"]
            case "call_hung":
                transaction = Transaction(event["application"], event["number"])
                verdict, requests = Verdict(event["verdict"]), tuple(event["open"])
                found.hangs.append(Hang(transaction, event["call"], event["seconds"], verdict, requests))
            case "offsets_fetched":
                found.samples.append(Sample(event["began_at"], event["at"], _offsets(event["offsets"])))
            case "offsets_at_end":
                found.committed = {**(found.committed or {}), **_offsets(event["offsets"])}
            case "outputs_seen":
                seen = reads.setdefault((event["reader"], event["partition"]), [])
                seen += [
                    (offset, Transaction(name, number), i) for offset, name, number, i in event["records"]
                ]
    found.reads = [Read(*where, tuple(records)) for where, records in reads.items()]
    return found


def output_of(partition: int, offset: int, value: Mapping[str, Any]) -> Output:
    """An output record, from the JSON that an application wrote."""
    return Output(
        partition,
        offset,
        Transaction(value["application"], value["transaction"]),
        value["index"],
        value["size"],
        value["generation"],
        _input(value["source"]),
    )


def _input(words: tuple[str, int, int, int]) -> Input:
    topic, partition, offset, number = words
    return Input(Partition(topic, partition), offset, number)


def _offsets(rows: Iterable[tuple[str, int, int]]) -> dict[Partition, int]:
    return {Partition(topic, partition): offset for topic, partition, offset in rows}


def _lines(raw: bytes) -> Iterator[dict[str, Any]]:
    for line in raw[: raw.rfind(b"\n") + 1].splitlines():
        yield json.loads(line)
