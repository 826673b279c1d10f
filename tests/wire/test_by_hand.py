"""The codecs that are written by hand: equal to kio's for any request and answer, and safe for any bytes."""

import io
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from fencepost.controller import topics as t
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire import k00_produce as k00
from fencepost.wire import k01_fetch as k01
from fencepost.wire import k02_list_offsets as k02
from fencepost.wire import k03_metadata as k03
from fencepost.wire import k23_offset_for_leader_epoch as k23
from fencepost.wire import k27_write_txn_markers as k27
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.frame import response_frame
from fencepost.wire.schema import ELEMENTS_MAX
from tests.examples import examples
from tests.together import table
from tests.wire import coordinator_rows, data_rows, partition_rows, topic_rows
from tests.wire.every_api import kios_request, kios_response
from tests.wire.row import Row

INT8 = st.integers(-(2**7), 2**7 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MS = st.integers(0, 2**31 - 1)
TEXT = st.text(max_size=5) | st.just("x" * 200)  # a length of two bytes, where it is a varint
CODE = st.sampled_from([ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE])
NAMED_IDS = st.uuids().filter(lambda each: each.int != 0)


def by_topic(row: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """(topic, row) with the rows of each topic together, as a message has them."""
    topics = st.lists(
        st.tuples(TEXT, st.lists(row, min_size=1, max_size=3)), max_size=3, unique_by=lambda t: t[0]
    )
    return topics.map(lambda groups: tuple((topic, row) for topic, rows in groups for row in rows))


def grouped(row: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[tuple[str, tuple[Any, ...]], ...]]:
    """((topic, rows), ...)."""
    return st.lists(st.tuples(TEXT, st.lists(row, max_size=3).map(tuple)), max_size=3).map(tuple)


PRODUCE = st.builds(
    k00.Produce,
    st.none() | TEXT,
    INT16,
    MS,
    by_topic(st.tuples(INT32, st.none() | st.binary(max_size=200))).map(
        lambda rows: tuple(k00.PartitionData(topic, *row) for topic, row in rows)
    ),
    st.just(0),
)
PRODUCED = by_topic(
    st.tuples(
        INT32,
        CODE,
        INT64,
        st.just(-1) | st.integers(0, 2**41),
        INT64,
        st.lists(st.builds(k00.RecordError, INT32, st.none() | TEXT), max_size=2).map(tuple),
        st.none() | TEXT,
    )
).map(lambda rows: k00.ProduceAnswer(tuple(k00.PartitionProduced(topic, *row) for topic, row in rows)))
FETCH = st.builds(
    k01.Fetch,
    INT32,
    MS,
    INT32,
    INT32,
    INT8,
    INT32,
    INT32,
    by_topic(st.tuples(NAMED_IDS, INT32, INT32, INT64, INT32, INT64, INT32)).map(
        lambda rows: tuple(k01.FetchPartition(topic, *row) for topic, row in rows)
    ),
)
FETCHED = st.builds(
    k01.FetchAnswer,
    CODE,
    INT32,
    by_topic(
        st.tuples(
            NAMED_IDS,
            INT32,
            CODE,
            INT64,
            INT64,
            INT64,
            st.none() | st.lists(st.builds(k01.AbortedTransaction, INT64, INT64), max_size=2).map(tuple),
            st.binary(max_size=200),
        )
    ).map(lambda rows: tuple(k01.FetchedPartition(topic, *row) for topic, row in rows)),
)
ADD = st.builds(
    AddPartitions,
    TEXT,
    INT64,
    INT16,
    st.lists(st.builds(TopicPartitions, TEXT, st.lists(INT32, max_size=3).map(tuple)), max_size=3).map(tuple),
    st.booleans(),
)
ADDED = st.builds(AddPartitionsAnswer, grouped(st.tuples(INT32, CODE)))
MARKERS = st.lists(
    st.builds(k27.TxnMarker, INT64, INT16, st.booleans(), grouped(INT32), INT32, INT8), max_size=3
).map(lambda markers: k27.WriteTxnMarkers(tuple(markers)))
MARKED = st.lists(st.tuples(INT64, grouped(st.tuples(INT32, CODE))), max_size=3).map(
    lambda markers: k27.WriteTxnMarkersAnswer(tuple(markers))
)
CREATE = st.builds(
    t.CreateTopics,
    st.lists(
        st.builds(
            t.NewTopic,
            TEXT,
            INT32,
            INT16,
            st.lists(st.tuples(INT32, st.lists(INT32, max_size=3).map(tuple)), max_size=3).map(tuple),
            st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    st.booleans(),
    MS,
)
CREATED = st.lists(
    st.builds(
        t.TopicCreated,
        TEXT,
        CODE,
        st.none() | TEXT,
        NAMED_IDS,
        INT32,
        INT16,
        st.lists(
            st.builds(t.TopicConfig, TEXT, st.none() | TEXT, INT8, st.booleans(), st.booleans()), max_size=3
        ).map(tuple),
    ),
    max_size=3,
).map(lambda rows: t.CreateTopicsAnswer(tuple(rows)))


DELETED = st.lists(st.builds(t.TopicDeleted, TEXT, NAMED_IDS, CODE, st.none() | TEXT), max_size=3).map(
    lambda rows: t.DeleteTopicsAnswer(tuple(rows))
)
OFFSETS = by_topic(st.tuples(INT32, CODE, INT64, INT64, INT32)).map(
    lambda rows: k02.ListOffsetsAnswer(tuple(k02.OffsetFound(topic, *row) for topic, row in rows))
)
EPOCH_ENDS = by_topic(st.tuples(INT32, CODE, INT32, INT64)).map(
    lambda rows: k23.OffsetForLeaderEpochAnswer(tuple(k23.EpochEnd(topic, *row) for topic, row in rows))
)

NODES = st.lists(INT32, max_size=2).map(tuple)
BROKERS = st.lists(st.builds(k03.BrokerNode, INT32, TEXT, INT32, st.none() | TEXT), max_size=2).map(tuple)


@cache
def metadata(version: int) -> st.SearchStrategy[k03.MetadataAnswer]:
    """What a version can say, so that all of it comes back."""
    omitted = st.just(k03.OPERATIONS_OMITTED)
    partition = st.builds(
        k03.PartitionMetadata,
        partition_index=INT32,
        error_code=CODE,
        leader_id=INT32,
        leader_epoch=INT32 if version >= 7 else st.just(-1),
        replica_nodes=NODES,
        isr_nodes=NODES,
        offline_replicas=NODES if version >= 5 else st.just(()),
    )
    topic = st.builds(
        k03.TopicMetadata,
        name=st.none() | TEXT if version >= 12 else TEXT,
        error_code=CODE,
        topic_id=st.none() | NAMED_IDS if version >= 10 else st.none(),
        is_internal=st.booleans() if version >= 1 else st.just(False),
        partitions=st.lists(partition, max_size=3).map(tuple),
        topic_authorized_operations=INT32 if version >= 8 else omitted,
    )
    return st.builds(
        k03.MetadataAnswer,
        cluster_id=st.none() | TEXT if version >= 2 else st.none(),
        controller_id=INT32 if version >= 1 else st.just(-1),
        brokers=BROKERS if version >= 1 else st.just(()),
        topics=st.lists(topic, max_size=3).map(tuple),
        cluster_authorized_operations=INT32 if 8 <= version <= 10 else omitted,
    )


@cache
def metadata_requests(version: int) -> st.SearchStrategy[k03.Metadata]:
    """What a version can say; no topics mean all of them in version 0."""
    by_name = st.builds(k03.TopicQuery, TEXT)
    query = by_name
    if version >= 10:
        query |= st.builds(k03.TopicQuery, TEXT, NAMED_IDS) if version >= k03.BY_TOPIC_ID_FROM else by_name
    if version >= k03.BY_TOPIC_ID_FROM:
        query |= st.builds(k03.TopicQuery, st.none(), NAMED_IDS)
    topics = st.lists(query, min_size=1 if version == 0 else 0, max_size=3).map(tuple)
    return st.builds(
        k03.Metadata,
        st.none() | topics,
        st.booleans() if version >= 4 else st.just(True),
        st.booleans() if 8 <= version <= 10 else st.just(False),
        st.booleans() if version >= 8 else st.just(False),
    )


METADATA = Row(k03.METADATA, None, None)


ONE_ADD = st.tuples(ADD).filter(lambda each: not each[0].verify_only).map(AddPartitionsToTxn)
MANY_ADDS = st.lists(ADD, max_size=3).map(lambda each: AddPartitionsToTxn(tuple(each)))
ONE_ADDED = st.tuples(st.tuples(TEXT, ADDED)).map(AddPartitionsToTxnAnswer)
MANY_ADDED = st.lists(st.tuples(TEXT, ADDED), max_size=3).map(
    lambda each: AddPartitionsToTxnAnswer(tuple(each))
)


def adds(version: int) -> st.SearchStrategy[AddPartitionsToTxn]:
    """One transaction that is not only verified before version 4, any number from then on."""
    return ONE_ADD if version < 4 else MANY_ADDS


def addeds(version: int) -> st.SearchStrategy[AddPartitionsToTxnAnswer]:
    return ONE_ADDED if version < 4 else MANY_ADDED


def _constant(strategy: st.SearchStrategy[Any]) -> Any:
    return lambda version: strategy


BY_HAND: list[tuple[Row, Any, Any]] = [
    (data_rows.PRODUCE, _constant(PRODUCE), _constant(PRODUCED)),
    (METADATA, metadata_requests, metadata),
    (data_rows.FETCH, _constant(FETCH), _constant(FETCHED)),
    (coordinator_rows.ADD_PARTITIONS_TO_TXN, adds, addeds),
    (
        coordinator_rows.END,
        _constant(st.builds(EndTxn, TEXT, INT64, INT16, st.booleans())),
        lambda version: st.none() if version < 5 else st.builds(EndTxnAnswer, INT64, INT16),
    ),
    (topic_rows.CREATE, _constant(CREATE), _constant(CREATED)),
    (topic_rows.DELETE, _constant(st.just(t.DeleteTopics(("a",)))), _constant(DELETED)),
    (partition_rows.LIST_OFFSETS, _constant(st.just(k02.ListOffsets(()))), _constant(OFFSETS)),
    (
        partition_rows.OFFSET_FOR_LEADER_EPOCH,
        _constant(st.just(k23.OffsetForLeaderEpoch(()))),
        _constant(EPOCH_ENDS),
    ),
    (partition_rows.WRITE_TXN_MARKERS, _constant(MARKERS), _constant(MARKED)),
]
EXAMPLES = 10
"""Each in every version that can say it."""
NOT_SHRUNK = [Phase.generate]
"""To shrink messages of fifteen versions takes minutes."""
LIES = 5
"""Of the bytes of each message, besides those of tests/hostile."""
CASES = [pytest.param(row, requests, responses, id=row.api.name) for row, requests, responses in BY_HAND]


def in_every_version(row: Row, messages: Any, data: st.DataObject) -> Iterator[tuple[int, Any]]:
    """Each version with a message: one for all versions that can say the same, for that is what costs."""
    drawn: dict[Any, Any] = {}
    for version in row.versions:
        strategy = messages(version)
        if strategy not in drawn:
            drawn[strategy] = data.draw(strategy)
        note(f"version {version}")
        yield version, drawn[strategy]


def _written_by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(("row", "requests", "responses"), CASES)
@settings(max_examples=examples(EXAMPLES), phases=NOT_SHRUNK)
@given(data=st.data())
def test_a_request_is_kios(row: Row, requests: Any, responses: Any, data: st.DataObject) -> None:
    for version, request in in_every_version(row, requests, data):
        body = row.api.encode_request(version, request)
        visible = row.visible_request(version, request)
        entity, end = kios_request(row.api.key, version, body)
        assert row.api.decode_request(version, memoryview(body)) == visible
        assert end == len(body)
        assert row.flat_request is None or row.flat_request(version, entity) == visible
        assert _written_by_kio(entity) == body


@pytest.mark.parametrize(("row", "requests", "responses"), CASES)
@settings(max_examples=examples(EXAMPLES), phases=NOT_SHRUNK)
@given(data=st.data())
def test_an_answer_is_kios(row: Row, requests: Any, responses: Any, data: st.DataObject) -> None:
    for version, response in in_every_version(row, responses, data):
        body = row.api.encode_response(version, response, 7)
        visible = row.visible_response(version, response)
        entity, end = kios_response(row.api.key, version, body)
        assert row.api.decode_response(version, memoryview(body)) == visible
        assert end == len(body)
        assert row.flat_response is None or row.flat_response(version, entity) == visible
        assert _written_by_kio(entity) == body
        if row.api.frame_response is not None:
            tagged = row.api.has_tagged_response_header(version)
            framed = response_frame(9, body, tagged=tagged)
            assert row.api.frame_response(version, 9, response, 7) == framed


@pytest.mark.parametrize(("row", "requests", "responses"), CASES)
@settings(max_examples=examples(EXAMPLES), phases=NOT_SHRUNK)
@given(data=st.data(), rng=st.randoms(use_true_random=True))
def test_bytes_that_lie_are_corrupt_and_nothing_else(
    row: Row, requests: Any, responses: Any, data: st.DataObject, rng: Random
) -> None:
    """Cut, or with some bytes changed: each is read as something, or is CorruptData."""
    bodies: list[tuple[int, Any, bytes]] = [
        (version, row.api.decode_request, row.api.encode_request(version, request))
        for version, request in in_every_version(row, requests, data)
    ]
    bodies += [
        (version, row.api.decode_response, row.api.encode_response(version, response, 0))
        for version, response in in_every_version(row, responses, data)
    ]
    for version, decode, body in bodies:
        for _ in range(LIES):
            lying = bytearray(body)
            for _ in range(rng.randint(0, 3)):
                lying[rng.randrange(len(lying))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            cut = rng.choice((rng.randint(0, len(lying)), len(lying)))
            try:
                decode(version, memoryview(bytes(lying[:cut])))
            except (CorruptData, ApiError):
                pass


def _numbers(reader: Reader) -> tuple[int, ...]:
    return reader.int32s()


@pytest.mark.parametrize("flexible", [True, False], ids=["flexible", "legacy"])
@pytest.mark.parametrize(
    ("count", "reason"),
    [
        pytest.param(ELEMENTS_MAX, None, id="at-the-bound"),
        pytest.param(ELEMENTS_MAX + 1, "more than 20000", id="one-past"),
    ],
)
def test_elements_are_bounded(flexible: bool, count: int, reason: str | None) -> None:
    writer = Writer(flexible=flexible)
    writer.int32s(tuple(range(count)))
    if reason is None:
        assert len(read("numbers", Reader(writer.message(), flexible=flexible), _numbers)) == count
        return
    with pytest.raises(CorruptData, match=reason):
        read("numbers", Reader(writer.message(), flexible=flexible), _numbers)


@table(
    ("body", "reason"),
    [
        pytest.param(b"", "byte 0", id="nothing"),
        pytest.param(b"\xff\xff\xff\xff\x0f", "more than 20000", id="four-gib-of-numbers"),
        pytest.param(b"\x80\x80\x80\x80\x80\x01", "32 bits", id="endless-varint"),
        pytest.param(b"\x00", "null", id="null"),
        pytest.param(b"\x03\0\0\0\1", "passes the end", id="cut"),
    ],
)
def test_numbers_that_lie_are_corrupt(body: bytes, reason: str) -> None:
    with pytest.raises(CorruptData, match=reason):
        read("numbers", Reader(body, flexible=True), _numbers)
