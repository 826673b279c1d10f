"""The cause of a failed test: requests as the proxies keep them, and the sentence that names it."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencepost.client import IllegalState, RequestTimedOut
from fencepost.testing import NotExactlyOnce, assert_exactly_once
from fencepost.testing.causes import causes
from fencepost.testing.evidence import Evidence, instances
from fencepost.testing.exactly_once import Findings
from fencepost.testing.journal import Answer, Request
from fencepost.testing.timeline import ROWS_MAX, timeline
from fencepost.wire.k20065_explain_transaction import FenceExplained
from fencepost.wire.requests import ErrorCode
from tests.together import table

BEGAN_S = 1_000.0


class LibrdkafkaError:
    """As confluent-kafka has it in the arguments of its exception."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class KafkaError(Exception):
    pass


def librdkafka(name: str) -> KafkaError:
    return KafkaError(LibrdkafkaError(name))


def lost() -> NotExactlyOnce:
    with pytest.raises(NotExactlyOnce) as caught:
        assert_exactly_once([b"order"], [])
    return caught.value


def doubled(*writers: tuple[int, int]) -> NotExactlyOnce:
    findings = Findings(doubled=["b'order'"], writers=[("b'order'", [*writers])])
    return NotExactlyOnce(findings, 1, 2)


@dataclass
class Story:
    """Requests of a test, each a tenth of a second after the one before."""

    requests: list[Request] = field(default_factory=list)

    def add(self, api: str, name: str | None, pair: tuple[int, int] | None, **said: Any) -> Request:
        took_s = said.pop("took_s", 0.01)
        request = Request(api, BEGAN_S + len(self.requests) / 10, 1, "shop", name, pair=pair)
        request.answer, request.code = Answer.GIVEN, 0
        request.answered_s = request.at_s + took_s
        for key, value in said.items():
            setattr(request, key, value)
        if request.answer in (Answer.WAITING, Answer.LOST, Answer.CLOSED):
            request.code, request.answered_s = said.get("code"), None
        self.requests.append(request)
        return request

    def begins(
        self, name: str, given: tuple[int, int], pair: tuple[int, int] = (-1, -1), **said: Any
    ) -> "Story":
        self.add("InitProducerId", name, pair, given=given, **said)
        return self

    def produces(self, name: str, pair: tuple[int, int], **said: Any) -> "Story":
        self.add("Produce", name, pair, partitions=(("out", 0),), **said)
        return self

    def commits(self, name: str, pair: tuple[int, int], **said: Any) -> "Story":
        self.add("EndTxn", name, pair, committed=True, **said)
        return self

    def aborts(self, name: str, pair: tuple[int, int], **said: Any) -> "Story":
        self.add("EndTxn", name, pair, committed=False, **said)
        return self

    def commits_offsets(self, group: str, topic: str = "in", **said: Any) -> "Story":
        self.add("OffsetCommit", None, None, group=group, partitions=((topic, 0),), **said)
        return self

    def evidence(self, failure: BaseException | None = None, **more: Any) -> Evidence:
        return Evidence(began_s=BEGAN_S, requests=self.requests, failure=failure, **more)


A, B = (7, 0), (7, 1)
DROPPED = {"answer": Answer.DROPPED}
LOST = {"answer": Answer.LOST}
WAITING = {"answer": Answer.WAITING}
FENCED = {"code": ErrorCode.PRODUCER_FENCED}
AFTER = "; epoch 1 came after it"
TIMED_OUT = FenceExplained(1_060_000, "its timeout", 7, 0, timeout_ms=9)
BY_FAULT = "by the test's fault"
FENCED_TWICE = "PRODUCER_FENCED (2 times, the last)"
UNKNOWN = "The application ignored an unknown outcome: the commit of 'app' (producer 7, epoch 0), "
TWICE = "Two producers use the transactional id 'app' at the same time: one began at "


def written(name: str = "app", pair: tuple[int, int] = A) -> Story:
    return Story().begins(name, pair).produces(name, pair)


CASES: dict[str, tuple[Evidence, list[str]]] = {
    "the answer is dropped and another producer begins": (
        written().commits("app", A, **DROPPED).begins("app", B).evidence(lost()),
        [
            UNKNOWN + "sent at +0.200 s, was done, and the test's fault dropped its answer, so it was",
            "At +0.300 s the application began another producer of that id (producer 7, epoch 1), instead of",
            "It was committed: what the application sends again is there twice.",
        ],
    ),
    "a commit comes behind another producer's beginning": (
        written().commits("app", A, **FENCED, took_s=2, delayed_ms=1900).begins("app", B).evidence(lost()),
        [
            UNKNOWN + "sent at +0.200 s, was answered only 2.0 s later, after the test's fault delayed it by",
            "It was aborted by that producer: what it had written is lost, unless it is sent again.",
        ],
    ),
    "a node dies with the commit and another producer begins": (
        written().commits("app", A, **LOST).begins("app", B).evidence(lost()),
        [
            UNKNOWN + "sent at +0.200 s, had no answer: its connection to node 1 ended, so it was neither",
            "It was committed before that, or aborted by that producer.",
        ],
    ),
    "the client of an unknown outcome repeats its commit: its id is not used twice": (
        written().commits("app", A, **LOST).begins("app", B).commits("app", A, **FENCED).evidence(lost()),
        [UNKNOWN, "It was aborted by that producer"],
    ),
    "the commit of a later transaction of the same epoch has no answer": (
        written()
        .commits("app", A)
        .produces("app", A)
        .commits("app", A, **LOST)
        .begins("app", B)
        .evidence(lost()),
        [UNKNOWN + "sent at +0.400 s, had no answer: its connection", "It was committed before that, or"],
    ),
    "a later transaction of the same epoch is under way": (
        written().commits("app", A).commits("app", A, **WAITING).evidence(librdkafka("_CONFLICT")),
        [UNKNOWN + "sent at +0.300 s, had no answer when the test ended."],
    ),
    "librdkafka is used while its commit is under way": (
        written().commits("app", A, **WAITING).evidence(librdkafka("_CONFLICT")),
        [
            UNKNOWN + "sent at +0.200 s, had no answer when the test ended. The application went on as if ",
            "and its client refused that (_CONFLICT: ",
        ],
    ),
    "librdkafka is used while its commit has not been sent": (
        written().evidence(librdkafka("_CONFLICT")),
        [UNKNOWN + "which had written at +0.100 s, was not sent before the call's time was over."],
    ),
    "a commit that took long and a call out of order": (
        written().commits("app", A, took_s=1.5).evidence(IllegalState("no transaction is open")),
        [UNKNOWN + "sent at +0.200 s, was answered only 1.5 s later.", "(IllegalState: no transaction is"],
    ),
    "a commit that timed out ends the application": (
        written().commits("app", A, **WAITING).evidence(RequestTimedOut("no answer in 1 s")),
        [UNKNOWN, "The application gave up (RequestTimedOut: no answer in 1 s). A commit that timed out is"],
    ),
    "the producer that is fenced goes on": (
        Story().begins("app", A).begins("app", B).produces("app", A, **FENCED).evidence(KafkaError("x")),
        [
            TWICE + "+0.010 s (client id 'shop', producer 7, epoch 0); another began at +0.110 s (client id "
            "'shop', producer 7, epoch 1), and so fenced the first. The first went on: its Produce at +0.2",
            "was refused with PRODUCER_FENCED. The id was reused",
        ],
    ),
    "the producer that is fenced ends what it had open": (
        written().begins("app", B).commits("app", A, **FENCED).evidence(lost()),
        [TWICE, "its EndTxn at +0.300 s was refused with PRODUCER_FENCED."],
    ),
    "two begin together, and the one that is fenced goes on before the other has its answer": (
        Story()
        .begins("app", A)
        .begins("app", B, took_s=0.5)
        .produces("app", A, **FENCED)
        .produces("app", B)
        .commits("app", B)
        .evidence(lost()),
        [TWICE, "another began at +0.600 s ", "The first went on: its Produce at +0.200 s was refused with"],
    ),
    "a commit that its client repeats is given up, and the next producer sends the same again": (
        written()
        .commits("app", A, **LOST)
        .aborts("other", (8, 0))
        .aborts("other", (8, 0))
        .commits("app", A)
        .begins("app", B)
        .produces("app", B)
        .commits("app", B)
        .evidence(doubled(A, B)),
        [
            UNKNOWN + "sent at +0.200 s, was answered only 0.3 s later, when its client had repeated it. At ",
            "+0.610 s the application began another producer of that id, which wrote b'order' once more. A ",
        ],
    ),
    "what an instance committed is sent again by the next": (
        written()
        .commits("app", A)
        .begins("app", B)
        .produces("app", B)
        .commits("app", B)
        .evidence(doubled(A, B)),
        ["The application sent again what was committed: the commit of 'app' (producer 7, epoch 0), sent"],
    ),
    "a commit takes long, its error is caught, and the client refuses the rest": (
        written().commits("app", A, took_s=3, delayed_ms=2900).evidence(lost()),
        [
            "Perhaps the application ignored an unknown outcome: the commit of 'app' (producer 7, epoch 0), ",
            "was answered only 3.0 s later, after the test's fault delayed it by 2900 ms, and is the last ",
        ],
    ),
    "the same, and the application goes on with later ones": (
        written()
        .commits("app", A, took_s=3, delayed_ms=2900)
        .produces("app", A)
        .commits("app", A)
        .evidence(lost()),
        ["Perhaps the application ", "delayed it by 2900 ms. Where an application does not wait for it"],
    ),
    "a last commit takes long as a leader dies, and the rest is lost": (
        written().commits("app", A, took_s=3).evidence(lost()),
        ["Perhaps the application ", "was answered only 3.0 s later, and is the last that its producer did."],
    ),
    "offsets are committed by the consumer, first": (
        Story().begins("app", A).commits_offsets("g").produces("app", A).commits("app", A).evidence(lost()),
        [
            "The group 'g' committed its offsets of in-0 outside of a transaction (OffsetCommit at +0.100 ",
            "before the record that came of it was produced: what the application reads is lost if it ends",
        ],
    ),
    "offsets are committed by the consumer, afterwards": (
        written().commits("app", A).commits_offsets("g").evidence(lost()),
        [
            "The group 'g' committed ",
            "after the record was produced: ",
            "is written twice if it ends between",
        ],
    ),
    "a commit comes before its produce": (
        Story().begins("app", A).evidence(librdkafka("_STATE")),
        [
            "The application committed before it produced, or did not begin: its client refused a call",
            "the order is begin, produce, commit. Seen by the cluster: 'app' (producer 7, epoch 0, since ",
            "has produced nothing in a transaction.",
        ],
    ),
    "a commit comes before its produce and the refusal is ignored": (
        Story().begins("app", A).evidence(lost()),
        [
            "Nothing was ever produced in a transaction of one producer: 'app' ",
            "The application committed before it produced, did not begin, or ignores what its client refused",
        ],
    ),
    "a transaction times out": (
        written().evidence(lost(), fences={"app": [TIMED_OUT]}),
        [
            "The transaction of 'app' (producer 7, epoch 0) was aborted by its coordinator at +60.000 s, ",
            "as it was open for longer than its timeout of 9 ms: what it had written is not there",
        ],
    ),
    "a transaction is left open": (
        written().evidence(AssertionError(), open={"app": "it is open for 2 s."}),
        ["'app' still has an open transaction: it is open for 2 s."],
    ),
}
"""By name: the evidence, and parts of the one sentence that it makes, in their order."""


@table("name", CASES)
def test_the_cause_is_named(name: str) -> None:
    evidence, parts = CASES[name]
    (found,) = causes(evidence)
    assert re.match(".*".join(map(re.escape, parts)), found), found


RIGHT = {
    "a commit is repeated until it is answered": written().commits("app", A, **DROPPED).commits("app", A),
    "another test's transaction is open": written().commits("app", A),
    "a commit is repeated in another leader's time, and then another producer begins": written()
    .commits("app", A, **LOST)
    .commits("app", A, code=ErrorCode.NOT_COORDINATOR)
    .commits("app", A)
    .begins("app", B),
    "an instance follows another one that has ended": written().commits("app", A).begins("app", B),
    "an instance is fenced and says no more": Story().begins("app", A).begins("app", B).produces("app", B),
    "what was under way as an instance began is refused": Story()
    .begins("app", A)
    .produces("app", A, **FENCED)
    .begins("app", B)
    .produces("app", B),
    "InitProducerId's answer was lost": Story().begins("app", B).produces("app", B).commits("app", B),
    "it asks again with its own pair": written().aborts("app", A).begins("app", B, A).produces("app", B),
    "each transaction has an epoch of its own": written().commits("app", A, given=B).produces("app", B),
    "a commit takes long as a leader dies, and its producer goes on": written()
    .commits("app", A, **LOST)
    .commits("app", A, **LOST)
    .commits("app", A, **LOST)
    .commits("app", A)
    .produces("app", A)
    .commits("app", A),
    "a commit takes long as a leader dies, and its producer begins the next transaction": written()
    .commits("app", A, **LOST)
    .commits("app", A, **LOST)
    .commits("app", A, **LOST)
    .commits("app", A)
    .produces("app", A),
    "an abort takes long by the test's fault": written().aborts("app", A, took_s=3, delayed_ms=2900),
    "an abort has no answer, and another producer begins": written()
    .aborts("app", A, **LOST)
    .begins("app", B),
    "what reads the output commits its offsets": written().commits("app", A).commits_offsets("g", "out"),
}


@table("name", RIGHT)
def test_what_is_right_is_no_cause(name: str) -> None:
    assert causes(RIGHT[name].evidence(lost(), open={"other": "open"}, fences={"other": [TIMED_OUT]})) == []


def test_a_failure_that_left_no_trace_has_no_cause() -> None:
    assert causes(Story().begins("app", A).evidence(AssertionError("1 == 2"))) == []


def test_an_instance_keeps_the_pairs_that_it_is_given() -> None:
    story = written().commits("app", A, given=B).begins("app", (7, 2), B).begins("app", (7, 4))
    assert [each.pairs for each in instances(story.requests)] == [[A, B, (7, 2)], [(7, 4)]]


def test_the_timeline_says_who_fenced_whom_when() -> None:
    story = Story().begins("app", A)
    for _ in range(3):
        story.produces("app", A).commits("app", A)
    story.produces("app", A).commits("app", A, **DROPPED).begins("app", B)
    story.commits("app", A, **FENCED).commits("app", A, **FENCED).produces("app", B)
    fence = FenceExplained(1_000_950, "a new instance", 7, 0, "shop", 7, 1)
    evidence = story.evidence(fences={"app": [fence]}, events=[(BEGAN_S + 0.5, "node 2 was killed")])
    assert timeline(evidence) == [
        "+0.000 s  app: producer 7, epoch 0 began (client id 'shop', node 1)",
        "+0.200 s  app: 3 transactions of producer 7, epoch 0 committed, the last at +0.600 s",
        "+0.500 s  node 2 was killed",
        "+0.800 s  app: EndTxn (commit) of producer 7, epoch 0: done, and its answer dropped "
        + BY_FAULT,
        "+0.900 s  app: producer 7, epoch 1 began (client id 'shop', node 1)",
        "+0.950 s  app: producer 7, epoch 0 was fenced by a new instance (client id 'shop')" + AFTER,
        "+1.100 s  app: EndTxn (commit) of producer 7, epoch 0: refused with " + FENCED_TWICE,
        "+1.200 s  app: Produce of producer 7, epoch 1 to out-0: the last that it did",
    ]  # fmt: skip


def test_a_long_timeline_keeps_its_beginning_and_its_end() -> None:
    story = Story()
    for number in range(100):
        story.begins("app", (7, number))
    lines = timeline(story.evidence())
    assert (len(lines), lines[0][:8], lines[-1][:8]) == (ROWS_MAX + 1, "+0.000 s", "+9.900 s")
    assert lines[10] == "... 40 more ..."


def test_groups_that_commit_by_themselves_are_in_the_timeline() -> None:
    story = Story().commits_offsets("g").commits_offsets("g").commits_offsets("g", code=25)
    assert timeline(story.evidence()) == [
        "+0.000 s  group g: commits offsets of in-0 itself, 2 times, the last at +0.100 s",
        "+0.200 s  group g: OffsetCommit of in-0: refused with UNKNOWN_MEMBER_ID",
    ]
