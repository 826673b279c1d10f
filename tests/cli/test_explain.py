"""``explain``: what a bare name is, the commands that are printed, sentences, exit statuses."""

import asyncio
import dataclasses
import shlex
import subprocess
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.cli import explain as command
from fencepost.cli.explain import Subject
from fencepost.cli.explain_commands import Cluster, commands_for
from fencepost.cli.explain_output import document, sentences
from fencepost.cli.output import ago, when
from fencepost.client.errors import ClientError
from fencepost.client.explain import Explained, Held, PartitionHeld, Wedged
from fencepost.client.inquiry import Unanswered
from fencepost.client.types import TopicPartition
from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.cluster.target import target_at
from fencepost.controller.transactions.describe import ListedTransaction, ListTransactionsAnswer
from fencepost.records.open_transactions import (
    Coordinated,
    Holding,
    Judged,
    OpenTransaction,
)
from fencepost.records.printable import printable
from fencepost.wire.errors import error_for
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, ListOffsetsAnswer, OffsetFound
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20065_explain_transaction import FenceExplained
from fencepost.wire.requests import ErrorCode
from tests.cli.fake_broker import BROKER_ID, FakeBroker
from tests.cli.transaction_cluster import NOW_MS, OPEN, TOPICS, described_as, producers
from tests.harness.command import Result, contents, here
from tests.together import table

Capture = pytest.CaptureFixture[str]
OPENED = OpenTransaction("orders", 3, 42, 0, 100, NOW_MS - 90_000, 5)
OWNER = Coordinated(
    transactional_id="bill ing",
    state="Ongoing",
    producer_id=42,
    producer_epoch=0,
    timeout_ms=60_000,
    started_ms=NOW_MS - 10_000,
    partitions=frozenset({("orders", 3)}),
    coordinator=2,
)


class Known:
    """What a cluster says of names."""

    def __init__(self, partitions: Collection[str] = (), ids: Collection[str] = (), fault: str = "") -> None:
        self._partitions, self._ids, self._fault = partitions, ids, fault

    async def is_partition(self, where: TopicPartition) -> bool:
        return str(where) in self._partitions

    async def is_transactional_id(self, name: str) -> bool:
        if self._fault:
            raise ClientError(self._fault)
        return name in self._ids


@table(
    ("name", "known", "expected"),
    [
        pytest.param("a-1", Known({"a-1"}), Subject("topic-partition", "a-1"), id="a-partition"),
        pytest.param("topic-0", Known(ids={"topic-0"}), Subject("transactional-id", "topic-0"), id="an-id"),
        pytest.param(
            "a-1", Known({"a-1"}, {"a-1"}), "--topic-partition a-1 or --transactional-id a-1", id="both"
        ),
        pytest.param("a-1-0", Known({"a-1-0"}), Subject("topic-partition", "a-1-0"), id="a-topic-a-1"),
        pytest.param("42", Known(), Subject("producer-id", "42"), id="a-number"),
        pytest.param("42", Known(ids={"42"}), "--producer-id 42 or --transactional-id 42", id="a-numeric-id"),
        pytest.param(
            "007", Known(ids={"007"}), Subject("transactional-id", "007"), id="no-number-as-we-write-it"
        ),
        pytest.param(
            "a-01", Known({"a-1"}, {"a-01"}), Subject("transactional-id", "a-01"), id="no-partition"
        ),
        pytest.param("ü-1", Known(ids={"ü-1"}), Subject("transactional-id", "ü-1"), id="no-topic-s-name"),
        pytest.param("nothing", Known(), Unreadable, id="neither"),
        pytest.param("9999999999999999999", Known(), Unreadable, id="no-producer-id-is-so-large"),
        pytest.param("nothing-3", Known(), Unreadable, id="neither-with-a-number"),
        pytest.param(
            "a-1", Known({"a-1"}, fault="away"), Subject("topic-partition", "a-1"), id="one-is-unknown"
        ),
        pytest.param("b-1", Known({"a-1"}, fault="away"), Unreadable, id="the-only-one-is-unknown"),
    ],
)
def test_what_a_bare_name_is(name: str, known: Any, expected: Any) -> None:
    if isinstance(expected, Subject):
        assert asyncio.run(command._read(known, name)) == expected
    elif expected is Unreadable:
        with pytest.raises(Unreadable):
            asyncio.run(command._read(known, name))
    else:
        with pytest.raises(WrongUsage, match=expected):
            asyncio.run(command._read(known, name))


CLUSTER = Cluster("b1:9092,b2:9092", "client.properties")
ABORT = "abort --topic orders --partition 3 --start-offset 100"
FORCED = "force-terminate --bootstrap-server b1:9092,b2:9092 --command-config client.properties"


@table(
    ("holding", "owner", "is_wedged", "kafka", "ours"),
    [
        pytest.param(Holding.HANGING, None, False, ABORT, "abort ", id="hanging"),
        pytest.param(Holding.HANGING, OWNER, False, ABORT, "abort ", id="hanging-and-its-id-is-known"),
        pytest.param(
            Holding.ONGOING, OWNER, False, "forceTerminateTransaction --transactionalId 'bill ing'", FORCED,
            id="under-way",
        ),
        pytest.param(
            Holding.TWO_PHASE, OWNER, False, "forceTerminateTransaction", FORCED, id="two-phase"
        ),
        pytest.param(Holding.ENDING, OWNER, False, None, None, id="a-decided-one-is-never-aborted"),
        pytest.param(Holding.ENDING, OWNER, True, None, FORCED, id="wedged"),
        pytest.param(Holding.UNKNOWN, OWNER, False, None, None, id="unknown"),
        pytest.param(Holding.UNKNOWN, None, False, None, None, id="unknown-without-owner"),
    ],
)  # fmt: skip
def test_the_commands_that_end_it(
    holding: Holding, owner: Coordinated | None, is_wedged: bool, kafka: str | None, ours: str | None
) -> None:
    found = commands_for(OPENED, holding, owner, CLUSTER, is_wedged=is_wedged)
    for tool, expected in (("kafka-transactions.sh", kafka), ("fencepost", ours)):
        assert (tool in found) == (expected is not None)
        if expected is not None:
            assert expected in found[tool]
            assert shlex.split(found[tool])[0] == tool


@table(
    "name",
    [
        pytest.param("a\x1b[2Jb", id="a-terminal-s-escape"),
        pytest.param("x'\nrm -rf ~ #", id="a-line-of-its-own"),
        pytest.param("\u202eevil\\", id="text-that-turns-around"),
        pytest.param("$(touch x) `y` ü", id="what-a-shell-would-do"),
        pytest.param("--help\n", id="what-looks-like-an-option"),
    ],
)
def test_a_clients_word_is_one_word_of_the_command(name: str) -> None:
    owner = dataclasses.replace(OWNER, transactional_id=name)
    found = commands_for(OPENED, Holding.ONGOING, owner, CLUSTER, is_wedged=False)
    hanging = explained(Holding.HANGING, owner)
    *_, last = sentences(document("transactional-id", name, {"Directories": ["/logs"]}, hanging, CLUSTER, 0))
    again = last.partition("confirm it: ")[2].removesuffix(" --bootstrap-server HOST:PORT")
    for printed in (*found.values(), printable(again)):
        assert printed.isprintable()
        script = f"set -- {printed}; printf '%s' \"${{!#}}\""
        said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert (said.stdout.partition("=")[2] if name.startswith("-") else said.stdout) == name
    hung = commands_for(OPENED._replace(topic="-t"), Holding.HANGING, None, CLUSTER, is_wedged=False)
    assert all(" --topic=-t --partition 3 " in each for each in hung.values())
    assert printable(f"{name}\n").isprintable()


def explained(holding: Holding, owner: Coordinated | None = OWNER, **rest: Any) -> Explained:
    held = Held(OPENED, Judged(holding, "as it is"), owner)
    partition = PartitionHeld(
        topic="orders", partition=3, leader=1, last_stable_offset=100, high_watermark=150, held=(held,)
    )
    return Explained(partitions=(partition,), **rest)


NOTHING = Explained(
    partitions=(PartitionHeld(topic="orders", partition=3, last_stable_offset=7, high_watermark=7),)
)
TIMED_OUT = FenceExplained(NOW_MS, "its timeout", 4, 2, "", 4, 3, 9)
ROTATED = FenceExplained(NOW_MS, "a new instance", 4, 3, "b", 5, 0)
BEHIND = PartitionHeld(topic="orders", partition=3, last_stable_offset=7, high_watermark=8)
AWAY = Unanswered("broker 2 (b2:9092)", "no answer: timed out")


@table(
    ("found", "said"),
    [
        pytest.param(NOTHING, ["nothing is open; read_committed", "end, offset 7"], id="nothing"),
        pytest.param(
            explained(Holding.HANGING, None),
            ["stop before offset 100; the end is 150, 50 offsets further", "holds the last stable offset",
             "1 min ago", "It is hanging: as it is.", "Nothing will end it by itself"],
            id="hanging",
        ),
        pytest.param(
            explained(Holding.ONGOING),
            ["under way", "Coordinator 2 has it", "its timeout of 60000 ms is over at", "Kafka 4.1 or newer"],
            id="under-way",
        ),
        pytest.param(explained(Holding.ENDING), ["do not abort it here"], id="ending"),
        pytest.param(
            explained(Holding.ENDING, wedged=(Wedged("bill ing", "orders-3", "epoch", NOW_MS),)),
            ["This forces that marker", "orders-3 refuses its marker since"],
            id="wedged",
        ),
        pytest.param(
            explained(Holding.ONGOING, fences={"bill ing": (TIMED_OUT, ROTATED)}),
            ["bill ing, ", "(0 s ago): producer 4, epoch 2 was fenced by its timeout of 9 ms; epoch 3 came",
             "producer 4, epoch 3 was fenced by a new instance (client id 'b'); producer 5, epoch 0 came"],
            id="fenced",
        ),
        pytest.param(
            explained(Holding.UNKNOWN, None, unanswered=(AWAY,)),
            ["Do not abort it before that is known", "Not known of broker 2 (b2:9092)", "start that broker"],
            id="unknown",
        ),
        pytest.param(Explained(partitions=(BEHIND,)), ["1 offset further", "No open transaction"], id="lag"),
        pytest.param(
            Explained(partitions=(PartitionHeld(topic="orders", partition=3),), unanswered=(AWAY,)),
            ["orders-3: its offsets are not known"],
            id="no-leader",
        ),
    ],
)  # fmt: skip
def test_sentences(found: Explained, said: list[str]) -> None:
    row = document("topic-partition", "orders-3", {}, found, CLUSTER, NOW_MS)
    text = "\n".join(sentences(row))
    assert [each for each in said if each not in text] == []


@table(
    ("found", "said"),
    [
        pytest.param(
            Explained(remembered=0), ["no coordinator has it", "0 partitions remember"], id="unknown"
        ),
        pytest.param(
            Explained(owner=OWNER, missing=(("orders", 3),), remembered=0),
            ["'bill ing' is Ongoing", "includes orders-3, where nothing of it is open"],
            id="missing",
        ),
        pytest.param(Explained(remembered=2, unanswered=(AWAY,)), ["Not known of broker 2"], id="not-whole"),
        pytest.param(
            Explained(partitions=(BEHIND,), remembered=1, unanswered=(AWAY,)),
            ["Another transaction holds it", "--topic-partition orders-3", "1 partition remembers"],
            id="behind-another",
        ),
    ],
)
def test_sentences_of_a_producer_id(found: Explained, said: list[str]) -> None:
    text = "\n".join(sentences(document("producer-id", "42", {}, found, CLUSTER, NOW_MS)))
    assert [each for each in said if each not in text] == []
    assert "it has ended meanwhile" not in text
    assert ("has no transaction open" in text) == (not found.unanswered)


def test_times() -> None:
    assert when(1_760_000_000_000) == "2025-10-09T08:53:20+00:00"
    assert when(2**62) == f"{2**62} ms since 1970"
    assert [ago(each) for each in (-1, 999, 60_000, 7_200_000, 200_000_000)] == [
        "in the future, by this machine's clock",
        "0 s ago",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]


# -- the command --------------------------------------------------------------------------------------------


class Fake:
    """The command on a broker that coordinates all: on t-0 42, which is "orders", and 43 are open."""

    def __init__(self, stack: ExitStack, capsys: Capture) -> None:
        self._stack, self._capsys = stack, capsys

    def run(self, *words: object, **answers: Any) -> Result:
        broker = FakeBroker(
            {
                DESCRIBE_PRODUCERS: answers.get("producers", producers),
                LIST_OFFSETS: self._offsets,
                LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), (_LISTED,)),
                DESCRIBE_TRANSACTIONS: answers.get("described", described_as(OPEN)),
            },
            (*TOPICS, COORDINATORS),
        )
        bootstrap = self._stack.enter_context(broker.serving())
        return here(self._capsys, "explain", *words, "--bootstrap-server", bootstrap)

    def _offsets(self, request: ListOffsets) -> ListOffsetsAnswer:
        rows = (
            OffsetFound(
                each.topic, each.index, offset=100 if request.isolation_level and not each.index else 300
            )
            for each in request.partitions
        )
        return ListOffsetsAnswer(tuple(rows))


COORDINATORS = TopicMetadata(
    name="__transaction_state",
    is_internal=True,
    partitions=(PartitionMetadata(partition_index=0, leader_id=BROKER_ID, replica_nodes=(BROKER_ID,)),),
)
_LISTED = ListedTransaction(OPEN.transactional_id, OPEN.producer_id, OPEN.state)


@pytest.fixture
def fake(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setattr("fencepost.client.explain.CONFIRM_S", 0.0)
    monkeypatch.setattr(command, "_now_ms", lambda: NOW_MS)
    with ExitStack() as stack:
        yield Fake(stack, capsys)


def test_a_partition_as_a_document(fake: Fake) -> None:
    said = fake.run("--topic-partition", "t-0", "--format", "json")
    assert said.status == 1
    found = contents(said.stdout)
    (partition,) = found["partitions"]
    assert (found["is_open"], found["is_complete"], partition["behind"]) == (True, True, 200)
    assert [(each["producer_id"], each["holding"]) for each in partition["open"]] == [
        (42, "ongoing"),
        (43, "hanging"),
    ]


def test_nothing_is_open_is_0(fake: Fake) -> None:
    said = fake.run("--topic-partition", "t-1")
    assert (said.status, said.stdout) == (
        0, "t-1: nothing is open; read_committed consumers read to the end, offset 300.\n"
    )  # fmt: skip


def refuses(code: int) -> Any:
    return lambda request: error_for(code)


@table(
    ("words", "answers", "status", "said"),
    [
        pytest.param((), {}, 2, "expected one name", id="no-name"),
        pytest.param(("t-0", "--producer-id", 1), {}, 2, "expected one name", id="two-names"),
        pytest.param(("--topic-partition", "t"), {}, 2, "expected TOPIC-NUMBER", id="no-number"),
        pytest.param(("--topic-partition", "u-0"), {}, 3, "there is no topic 'u'", id="no-topic"),
        pytest.param(("--topic-partition", "t-9"), {}, 3, "has 2 partitions, no 9", id="no-partition"),
        pytest.param(
            ("--transactional-id", "x"), {"described": refuses(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)},
            3, "no coordinator knows a transactional id 'x'", id="no-id",
        ),
        pytest.param(
            ("--transactional-id", "x"), {"described": refuses(53)},
            3, "needs DESCRIBE on the transactional id", id="may-not-be-described",
        ),
        pytest.param(
            ("--topic-partition", "t-1"), {"producers": refuses(ErrorCode.TOPIC_AUTHORIZATION_FAILED)},
            3, "needs READ on the topic", id="may-not-be-read",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(
    fake: Fake, words: tuple[object, ...], answers: dict[str, Any], status: int, said: str
) -> None:
    ended = fake.run(*words, **answers)
    assert ended.status == status
    assert said in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr


@table(
    ("text", "expected"),
    [
        pytest.param(
            "kafka-1.example:9092, 10.0.0.2:9093", "kafka-1.example:9092,10.0.0.2:9093", id="any-host"
        ),
        pytest.param("[2001:db8::1]:9092", "[2001:db8::1]:9092", id="ipv6"),
        pytest.param("kafka-1", None, id="no-port"),
        pytest.param("kafka-1:0", None, id="port-0"),
        pytest.param(":9092", None, id="no-host"),
        pytest.param("a:1,", None, id="a-comma-at-the-end"),
    ],
)
def test_brokers_may_be_anywhere(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(WrongUsage, match="expected HOST:PORT"):
            target_at("--bootstrap-server", text)
    else:
        assert target_at("--bootstrap-server", text).name == expected


def test_a_cluster_that_does_not_answer(capsys: Capture) -> None:
    for words in (("--topic-partition", "t-0"), ("t-0",), ("7",)):
        ended = here(capsys, "explain", *words, "--bootstrap-server", "127.0.0.1:1")
        assert (ended.status, "no connection to 127.0.0.1:1" in ended.stderr) == (3, True)
        assert "is no partition" not in ended.stderr
