"""Our tags on InitProducerId and FindCoordinator (KIP-447): read back by us, skipped by Kafka's readers."""

from typing import Any

import pytest

from fencepost.controller.errors import ApiError, InvalidRequest, UnsupportedVersion
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinator
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from tests.wire.every_api import kios_request, kios_response

MEMBER = MemberAssignment("bill", 7, (TopicPartitions("ab", (0, 258)),), "m", "i")
ASKED = InitProducerId("transfers", 1, init_version=6, member=MEMBER)
PLAIN = "0a 7472616e7366657273 00000001 ffffffffffffffff ffff 00 00"
TAGS = {
    1000: "e807 05 05 62696c6c",
    1001: "e907 04 00000007",
    1002: "ea07 0e 02 03 6162 03 00000000 00000102 00",
    1003: "eb07 02 02 6d",
    1004: "ec07 02 02 69",
}


def body(*tags: str) -> bytes:
    return bytes.fromhex(f"{PLAIN} {len(tags):02x} {' '.join(tags)}")


def decoded(raw: bytes) -> Any:
    return INIT_PRODUCER_ID.decode_request(6, memoryview(raw))


@pytest.mark.row("447.4")
def test_a_member_of_a_group_is_in_tags_from_1000_up() -> None:
    encoded = INIT_PRODUCER_ID.encode_request(6, ASKED)
    assert encoded.hex() == body(*TAGS.values()).hex()
    assert decoded(encoded) == ASKED
    theirs, end = kios_request(22, 6, body())
    assert end == len(body())
    assert theirs.transactional_id == "transfers"
    assert INIT_PRODUCER_ID.newest_for is not None
    assert INIT_PRODUCER_ID.newest_for(ASKED) == 6


@pytest.mark.parametrize("version", range(6), ids="v{}".format)
def test_it_needs_version_6(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        INIT_PRODUCER_ID.encode_request(version, ASKED)
    if version >= 2:  # of an older version its tags mean nothing, as of any other client
        plain = INIT_PRODUCER_ID.encode_request(version, InitProducerId("transfers", 1))
        tagged = plain[:-1] + bytes.fromhex(f"01 {TAGS[1000]}")
        assert INIT_PRODUCER_ID.decode_request(version, memoryview(tagged)).member is None


@pytest.mark.parametrize(
    ("tags", "member"),
    [
        pytest.param((), None, id="none"),
        pytest.param(("e707 01 00", "ed07 02 aabb"), None, id="others-are-skipped"),
        pytest.param((TAGS[1000],), MemberAssignment("bill", -1), id="the-group-alone"),
        pytest.param((TAGS[1000], TAGS[1001], "ea07 01 01"), MemberAssignment("bill", 7), id="no-partition"),
    ],
)
def test_what_is_left_out(tags: tuple[str, ...], member: MemberAssignment | None) -> None:
    assert decoded(body(*tags)).member == member


@pytest.mark.row("447.8")
@pytest.mark.parametrize(
    "tags",
    [
        pytest.param((TAGS[1001],), id="no-group"),
        pytest.param((TAGS[1002],), id="partitions-of-no-group"),
        pytest.param(("e807 01 00",), id="a-null-group"),
        pytest.param((TAGS[1000], "e907 02 0007"), id="half-a-generation"),
        pytest.param((TAGS[1000], "ea07 01 00"), id="null-partitions"),
        pytest.param((TAGS[1000], "ea07 03 02 03 61"), id="a-topic-past-the-tag"),
        pytest.param((TAGS[1000], "ea07 05 ffffffff 07"), id="more-topics-than-bytes"),
        pytest.param((TAGS[1000], "ea07 05 02 02 ff 01 00"), id="a-topic-that-is-no-text"),
        pytest.param((TAGS[1000], "ea07 02 01 00"), id="bytes-behind-the-partitions"),
    ],
)
def test_an_assignment_that_cannot_be_parsed_is_refused(
    tags: tuple[str, ...],
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decoded(body(*tags))
    answer = INIT_PRODUCER_ID.refusal(6, None, refused.value, 0)
    with pytest.raises(ApiError) as code:
        INIT_PRODUCER_ID.decode_response(6, answer)
    assert code.value.code == 42


def test_a_tag_past_the_end_is_corrupt() -> None:
    with pytest.raises(CorruptData):
        decoded(body(TAGS[1000], "ea07 7f 01"))


@pytest.mark.row("447.8")
def test_the_answer_names_the_transactional_id() -> None:
    answer = InitProducerIdAnswer(ProducerId(42), 3, transactional_id="bill-42")
    for version in INIT_PRODUCER_ID.versions:
        encoded = INIT_PRODUCER_ID.encode_response(version, answer, 0)
        read = INIT_PRODUCER_ID.decode_response(version, encoded)
        assert read.transactional_id == ("bill-42" if version >= 6 else None)
    plain = INIT_PRODUCER_ID.encode_response(6, InitProducerIdAnswer(ProducerId(42), 3), 0)
    assert kios_response(22, 6, plain)[1] == len(plain)
    tagged = INIT_PRODUCER_ID.encode_response(6, answer, 0)
    assert tagged == plain[:-1] + bytes.fromhex("01 e807 08 08") + b"bill-42"


# -- FindCoordinator ---------------------------------------------------------------------------------------


@pytest.mark.row("447.4")
@pytest.mark.parametrize("version", FIND_COORDINATOR.versions, ids="v{}".format)
def test_a_transaction_coordinator_is_found_by_a_group(version: int) -> None:
    asked = FindCoordinator(TRANSACTION, ("bill",), by_group=True)
    if version < 3:
        with pytest.raises(UnsupportedVersion):
            FIND_COORDINATOR.encode_request(version, asked)
        return
    encoded = FIND_COORDINATOR.encode_request(version, asked)
    assert FIND_COORDINATOR.decode_request(version, memoryview(encoded)) == asked
    plain = FIND_COORDINATOR.encode_request(version, FindCoordinator(TRANSACTION, ("bill",)))
    assert encoded == plain[:-1] + bytes.fromhex("01 e807 01 01")
    assert kios_request(10, version, plain)[1] == len(plain)


def test_other_tags_of_find_coordinator_are_skipped() -> None:
    plain = FIND_COORDINATOR.encode_request(6, FindCoordinator(GROUP, ("bill",)))
    for tags in ("01 e907 01 01", "01 e807 01 00", "02 0a 00 e807 01 00"):
        raw = memoryview(plain[:-1] + bytes.fromhex(tags))
        assert not FIND_COORDINATOR.decode_request(6, raw).by_group
