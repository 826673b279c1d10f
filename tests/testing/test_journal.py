"""What the proxies keep of requests: every API and version of those that count, hostile frames, the bound."""

import random
from typing import Any, Final

from fencepost.records.batch import encode_batch
from fencepost.testing.journal import REQUESTS_MAX, WATCHED, Answer, Journal, Request, answered
from fencepost.wire.dispatch import Api
from fencepost.wire.errors import error_for
from fencepost.wire.frame import RequestHeader, request_frame, response_frame
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.requests import ErrorCode, UnsupportedVersion
from tests.together import table
from tests.wire.sample_messages import SAMPLES

LENGTH_BYTES: Final = 4
NAMES: Final = {api.name: api for api in WATCHED.values()}
OF_A_TRANSACTION: Final = {
    "Produce": ("transfers", None, None, None),
    "OffsetCommit": (None, "bill", None, None),
    "InitProducerId": ("transfers", None, (41, 3), None),
    "AddPartitionsToTxn": ("transfers", None, (77, 3), None),
    "AddOffsetsToTxn": ("transfers", "bill", (7, 3), None),
    "EndTxn": ("transfers", None, (77, 3), True),
    "TxnOffsetCommit": ("transfers", "bill", (7, 3), None),
}


def frame_of(api: Api[Any, Any], version: int, request: Any) -> bytes:
    header = RequestHeader(api.key, version, 1, "shop")
    body = api.encode_request(version, request)
    return request_frame(header, body, flexible=version >= api.flexible_from)[LENGTH_BYTES:]


def newest(api: Api[Any, Any]) -> tuple[int, Request]:
    """A request in the newest version that can say it from a client, as it is kept, and that version."""
    for version in reversed(api.versions):
        try:
            kept = Journal().add(2, frame_of(api, version, SAMPLES[api.key][0]))
        except UnsupportedVersion:
            continue
        if kept is not None:
            return version, kept
    raise AssertionError(api.name)


def response_to(api: Api[Any, Any], version: int, body: bytes) -> bytes:
    return response_frame(1, body, tagged=api.has_tagged_response_header(version))[LENGTH_BYTES:]


@table("name", OF_A_TRANSACTION)
def test_what_a_request_says_is_kept(name: str) -> None:
    kept = newest(NAMES[name])[1]
    said = (kept.transactional_id, kept.group, kept.pair, kept.committed)
    assert (kept.api, kept.node, kept.client_id, said) == (name, 2, "shop", OF_A_TRANSACTION[name])


@table("name", OF_A_TRANSACTION)
def test_every_version_of_a_client_is_kept(name: str) -> None:
    api = NAMES[name]
    versions = [each for each in api.versions if each >= api.served_from]
    if name == "AddPartitionsToTxn":
        versions = versions[:4]  # the others are of brokers
    for version in versions:
        assert Journal().add(1, frame_of(api, version, SAMPLES[api.key][0])) is not None, version


@table("name", OF_A_TRANSACTION)
def test_the_code_of_an_answer_is_kept(name: str) -> None:
    api = NAMES[name]
    version, kept = newest(api)
    body = api.refusal(version, SAMPLES[api.key][0], error_for(ErrorCode.PRODUCER_FENCED), 0)
    answered(kept, version, response_to(api, version, body), Answer.GIVEN)
    assert kept.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert (kept.answer, kept.is_done) == (Answer.GIVEN, False)


def test_an_answer_that_gives_a_producer_its_pair() -> None:
    api = NAMES["InitProducerId"]
    version, kept = newest(api)
    body = api.encode_response(version, SAMPLES[api.key][1], 0)
    answered(kept, version, response_to(api, version, body), Answer.DROPPED)
    assert (kept.answer, kept.code, kept.is_done) == (Answer.DROPPED, 0, False)
    assert kept.given == (SAMPLES[api.key][1].producer_id, SAMPLES[api.key][1].producer_epoch)


def test_a_produce_has_the_pair_of_its_batch_and_one_without_a_transaction_is_not_kept() -> None:
    batch = encode_batch([(None, b"order", ())], timestamp_ms=1, producer_id=7, producer_epoch=3)
    for transactional_id, pair in (("app", (7, 3)), (None, None)):
        request = Produce(transactional_id, -1, 1000, (PartitionData("orders", 0, batch),))
        kept = Journal().add(1, frame_of(PRODUCE, 9, request))
        assert (kept and kept.pair) == pair


def test_other_requests_are_not_kept() -> None:
    journal = Journal()
    assert journal.add(1, frame_of(API_VERSIONS, 3, SAMPLES[API_VERSIONS.key][0])) is None
    frame = bytearray(frame_of(NAMES["EndTxn"], 3, SAMPLES[26][0]))
    frame[2:4] = (99).to_bytes(2, "big")  # a version that is to come
    assert journal.add(1, bytes(frame)) is None
    assert journal.since(0) == []


def test_frames_that_cannot_be_read_harm_nothing() -> None:
    rng = random.Random(19)
    journal = Journal()
    for api in WATCHED.values():
        version, kept = newest(api)
        request = bytearray(frame_of(api, version, SAMPLES[api.key][0]))
        response = bytearray(response_to(api, version, api.encode_response(version, SAMPLES[api.key][1], 0)))
        for _ in range(200):
            for frame in (request, response):
                frame[rng.randrange(4, len(frame))] = rng.randrange(256)
            journal.add(1, bytes(request[: rng.randrange(10, len(request) + 1)]))
            answered(kept, version, bytes(response[: rng.randrange(4, len(response) + 1)]), Answer.GIVEN)


def test_the_journal_is_bounded() -> None:
    journal = Journal()
    frame = frame_of(NAMES["EndTxn"], 3, SAMPLES[26][0])
    for node in range(REQUESTS_MAX + 2):
        journal.add(node, frame)
    kept = journal.since(0)
    assert (len(kept), kept[0].node) == (REQUESTS_MAX, 2)
    assert journal.since(kept[-1].at_s + 1) == []
