"""The page's table, Apache Kafka's answers, and ours: of each API key to each principal (tests/rights)."""

import asyncio
from collections.abc import Iterator

import pytest

from fencepost.broker.access.needs import ROWS
from fencepost.wire.dispatch import PRIVATE_KEY_MIN
from tests.rights import inside
from tests.rights.answers import (
    Answers,
    Seen,
    decoded,
    differences,
    encoded,
    kafkas,
    key_of,
    rights_that_count,
    stands_for,
)
from tests.rights.page import ALL, NOTHING, PAGE, SUPER, PageRow, rows, states
from tests.rights.reasons import NOT_SHOWN, REASONS, without_reason
from tests.together import table

KAFKA = kafkas()
SHARED = [row for row in rows() if row.key < PRIVATE_KEY_MIN]
PRODUCE, SCRAM = "broker 0 Produce 0", "broker 50 DescribeUserScramCredentials 0"


def of_key(key: int) -> Iterator[str]:
    return (name for name in KAFKA if key_of(name) == key)


def test_the_principals_are_those_of_the_page() -> None:
    assert all(list(row.by_state) == [state.name for state in states()] for row in KAFKA.values())


def test_kafka_answers_each_key_of_the_page() -> None:
    assert {key for key in ROWS if key < PRIVATE_KEY_MIN} == {key_of(name) for name in KAFKA}


@table("row", SHARED, ids=lambda row: f"{row.key}-{row.operation.name}-{row.of.name}")
def test_each_row_of_the_page_counts_at_kafka(row: PageRow) -> None:
    """Whether the right is there, or denied, shows in an answer."""
    counts = any((row.operation, row.of) in rights_that_count(KAFKA[name]) for name in of_key(row.key))
    assert counts is ((row.key, row.operation, row.of) not in NOT_SHOWN)


def test_what_counts_at_kafka_is_on_the_page() -> None:
    """It is needed by the key, or implies what is; at controllers' listener a difference may say it."""
    needed = {(row.key, row.operation, row.of) for row in rows()}
    unsaid = [
        (name, right)
        for name, answered in KAFKA.items()
        for right in rights_that_count(answered)
        if not any((key_of(name), *each) in needed for each in stands_for(right)) and name not in OTHERWISE
    ]
    assert unsaid == []


OTHERWISE = ("controller 60 DescribeCluster 0",)  # its row says what ours needs, its reason what Kafka's does


@pytest.fixture(scope="module")
def ours() -> Answers:
    return asyncio.run(inside.answers(KAFKA))


def test_ours_are_the_same(ours: Answers) -> None:
    """But for what has a reason, and each reason has a case."""
    assert ours.keys() == KAFKA.keys()
    differing = differences(KAFKA, ours)
    assert without_reason(differing) == []
    for reason in REASONS:
        assert any(reason.is_of(*case, *seen) for case, seen in differing.items()), reason.text
        assert reason.text in " ".join(PAGE.read_text("utf-8").split())


def test_what_is_kept_can_be_read_again() -> None:
    assert decoded(encoded(KAFKA)) == KAFKA


@table(
    ("state", "seen"),
    [
        pytest.param(NOTHING, Seen((), ("topic",)), id="served-without-a-right"),
        pytest.param(SUPER, Seen((29,), ("topic",)), id="a-super-user-is-denied"),
        pytest.param(ALL, Seen((), ()), id="another-name"),
        pytest.param(NOTHING, Seen((31,), ("topic",)), id="another-code"),
        pytest.param(ALL, Seen((), ("topic",), (8,)), id="other-operations"),
    ],
)
def test_another_answer_is_a_difference(state: str, seen: Seen) -> None:
    other = dict(KAFKA)
    other[PRODUCE] = other[PRODUCE]._replace(by_state={**other[PRODUCE].by_state, state: seen})
    differing = differences(KAFKA, other)
    assert differing == {(PRODUCE, state): (KAFKA[PRODUCE].by_state[state], seen)}
    (line,) = without_reason(differing)
    assert line.startswith(f"{PRODUCE}, {state}: Kafka ")


def test_a_reason_is_one_for_its_case_alone() -> None:
    """The same difference in another request, of another principal, or the other way round has none."""
    silent, served = (Seen(names=("RequestTimeout",)), Seen((31,))), (Seen((31,)), Seen())
    acls, action = "controller 30 CreateAcls 0", "CLUSTER_ACTION on CLUSTER"
    assert without_reason({(SCRAM, NOTHING): silent, (acls, action): served}) == []
    for case, seen in (
        (("broker 51 AlterUserScramCredentials 0", NOTHING), silent),
        ((SCRAM, NOTHING), silent[::-1]),
        (("broker 30 CreateAcls 0", action), served),
        ((acls, NOTHING), served),
        ((acls, f"everything but {action}"), served),
        ((acls, action), served[::-1]),
        (("controller 67 AllocateProducerIds 0", action), served),
        (("broker 60 DescribeCluster 0", NOTHING), served),
    ):
        assert len(without_reason({case: seen})) == 1, case
