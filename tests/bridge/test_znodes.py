"""The block znode: what Kafka wrote is read, the rest refused by its path; Kafka's loop sees our fence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge.strict_json import INT32_MAX, INT64_MAX, Misshaped
from fencepost.bridge.znodes import (
    BLOCK_PATH,
    KAFKA_BLOCK_LENGTH,
    ON_BEHALF,
    BlockZnode,
    Fence,
    IdsExhausted,
    ZnodeBlock,
    block_after,
    format_block,
    format_fence,
    parse_block,
)
from fencepost.records.types import PRODUCER_ID_MAX, BrokerId, ProducerId
from tests.together import table

KAFKA_EXHAUSTED = PRODUCER_ID_MAX - 1000  # Kafka gives up when the current block ends after this


def block(broker: int, first: int, last: int) -> ZnodeBlock:
    return ZnodeBlock(BrokerId(broker), ProducerId(first), ProducerId(last))


def written(**changes: object) -> bytes:
    """Kafka's first block with some fields changed; ``...`` takes a field away."""
    fields = {"version": 1, "broker": 0, "block_start": "0", "block_end": "999", **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


READ = [
    pytest.param(
        b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}',
        block(0, 0, 999),
        id="the-first-block",
    ),
    pytest.param(
        b'{ "block_end" : "1999", "block_start" : "1000", "broker" : 7, "version" : 1 }\n',
        block(7, 1000, 1999),
        id="another-order-and-spaces",
    ),
    pytest.param(written(broker=-1), block(-1, 0, 999), id="written-by-a-kraft-controller"),
    pytest.param(
        written(block_start=str(PRODUCER_ID_MAX - 999), block_end=str(PRODUCER_ID_MAX)),
        block(0, PRODUCER_ID_MAX - 999, PRODUCER_ID_MAX),
        id="the-very-last-ids",
    ),
    pytest.param(written(block_end=str(INT32_MAX - 1)), block(0, 0, INT32_MAX - 1), id="the-longest-block"),
    pytest.param(written(block_start="999"), block(0, 999, 999), id="one-id"),
]


@table(("content", "expected"), READ)
def test_what_kafka_wrote_is_read(content: bytes, expected: ZnodeBlock) -> None:
    assert parse_block(content, version=3) == expected


@pytest.mark.parametrize("content", [None, b""], ids=["null", "no-bytes"])
def test_a_znode_that_was_never_written_has_no_block(content: bytes | None) -> None:
    assert parse_block(content, version=0) is None


REFUSED = [
    pytest.param(None, "it was written before", id="wiped"),
    pytest.param(b"", "no data at version 3", id="wiped-to-nothing"),
    pytest.param(b"{", "a JSON object", id="cut"),
    pytest.param(b"\xff", "a JSON object", id="no-utf-8"),
    pytest.param(b"[" * 100_000, "a JSON object", id="nested-without-end"),
    pytest.param(b"[]", "to be an object", id="an-array"),
    pytest.param(b"null", "to be an object", id="null"),
    pytest.param(b'{"version":1,"version":1}', "'version' stands more than once", id="a-key-twice"),
    pytest.param(b'{"version":NaN}', "NaN is no JSON", id="nan"),
    pytest.param(b'{"version":1' + b"0" * 5_000 + b"}", "a JSON object", id="a-number-of-5000-digits"),
    pytest.param(written(version=2), "version to be a number from 1 to 1", id="another-version"),
    pytest.param(written(version="1"), "version to be a number", id="version-a-string"),
    pytest.param(written(version=True), "version to be a number", id="version-true"),
    pytest.param(written(version=1.0), "version to be a number", id="version-a-fraction"),
    pytest.param(written(version=...), "a field version", id="no-version"),
    pytest.param(written(broker=...), "a field broker", id="no-broker"),
    pytest.param(written(broker="0"), "broker to be a number", id="broker-a-string"),
    pytest.param(written(broker=-2), "broker to be a number from -1", id="broker-below-minus-one"),
    pytest.param(written(broker=2**31), "broker to be a number", id="broker-past-int32"),
    pytest.param(written(block_start=...), "a field block_start", id="no-start"),
    pytest.param(written(block_start=0), "block_start to be a string", id="start-a-number"),
    pytest.param(written(block_start=None), "block_start to be a string", id="start-null"),
    pytest.param(written(block_start="-1"), "block_start to be a string", id="start-negative"),
    pytest.param(written(block_start="+0"), "block_start to be a string", id="start-with-a-plus"),
    pytest.param(written(block_start="00"), "block_start to be a string", id="start-with-a-leading-zero"),
    pytest.param(written(block_start=" 0"), "block_start to be a string", id="start-with-a-space"),
    pytest.param(written(block_start="1_0"), "block_start to be a string", id="start-as-python-writes"),
    pytest.param(written(block_start="٣"), "block_start to be a string", id="start-in-other-digits"),
    pytest.param(written(block_start="0x0"), "block_start to be a string", id="start-in-hex"),
    pytest.param(written(block_start="1e3"), "block_start to be a string", id="start-as-a-float"),
    pytest.param(written(block_start=""), "block_start to be a string", id="start-empty"),
    pytest.param(written(block_start="9" * 5_000), "block_start to be a string", id="start-of-5000-digits"),
    pytest.param(written(block_end=...), "a field block_end", id="no-end"),
    pytest.param(written(block_end=999), "block_end to be a string", id="end-a-number"),
    pytest.param(written(block_end=str(2**63)), "block_end to be a string", id="end-past-int64"),
    pytest.param(written(block_start="1000"), "a block of 1 to", id="reversed"),
    pytest.param(written(block_end=str(INT32_MAX)), "a block of 1 to", id="one-id-too-long"),
    pytest.param(written(owner="me"), "no field owner", id="a-field-too-many"),
    pytest.param(written(fencepost=1), "fencepost to be an object", id="no-fence"),
    pytest.param(written(fencepost={}), "a field fencepost.version", id="an-empty-fence"),
]


@table(("content", "expected"), REFUSED)
def test_the_rest_is_refused_by_its_path(content: bytes | None, expected: str) -> None:
    with pytest.raises(Misshaped) as refused:
        parse_block(content, version=3)
    assert str(refused.value).startswith(f"{BLOCK_PATH}: expected ")
    assert expected in str(refused.value)
    assert len(str(refused.value)) < 700


brokers = st.integers(-1, INT32_MAX).map(BrokerId)
blocks = st.builds(
    lambda broker, first, length: ZnodeBlock(broker, first, ProducerId(min(first + length, PRODUCER_ID_MAX))),
    brokers,
    st.integers(0, PRODUCER_ID_MAX).map(ProducerId),
    st.integers(0, INT32_MAX - 1),
)
fences = st.builds(
    Fence,
    st.text(max_size=30),
    st.integers(0, INT32_MAX),
    st.none() | st.integers(0, INT64_MAX).map(ProducerId),
)


@given(blocks)
def test_blocks_round_trip(one: ZnodeBlock) -> None:
    assert parse_block(format_block(one), version=1) == one


@given(fences)
def test_fences_round_trip(one: Fence) -> None:
    assert parse_block(format_fence(one), version=1) == one


def test_a_block_is_written_byte_for_byte_as_kafka_does() -> None:
    assert format_block(block(0, 0, 999)) == b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'


@given(fences)
def test_kafka_sees_its_ids_exhausted_at_our_fence(one: Fence) -> None:
    """Kafka's parsers: the four fields, whatever else there is; since 3.0 the length must be an int32."""
    seen = json.loads(format_fence(one))
    first, last = int(seen["block_start"]), int(seen["block_end"])
    assert seen["broker"] == -1
    assert last > KAFKA_EXHAUSTED
    assert 0 < last - first + 1 <= INT32_MAX
    assert first + (last - first + 1) <= PRODUCER_ID_MAX  # nextBlockFirstId does not overflow
    numbers = [value for value in (*seen.values(), *seen["fencepost"].values()) if isinstance(value, int)]
    assert all(abs(value) <= INT32_MAX for value in numbers)  # Kafka 0.11 parses every number as an int32


@table(
    "change",
    [
        pytest.param({"block_end": "999", "block_start": "0"}, id="on-another-block"),
        pytest.param({"broker": 3}, id="by-a-broker"),
        pytest.param({"fencepost": {"version": 1, "zk_version": 1}}, id="nobodys"),
        pytest.param(
            {"fencepost": {"version": 1, "zk_version": -1, "cluster_id": "c"}}, id="at-version-minus-1"
        ),
        pytest.param(
            {"fencepost": {"version": 2, "zk_version": 1, "cluster_id": "c"}}, id="of-a-later-fencepost"
        ),
        pytest.param(
            {"fencepost": {"version": 1, "zk_version": 1, "cluster_id": "c", "more": 1}},
            id="with-a-field-more",
        ),
    ],
)
def test_a_fence_that_is_not_quite_ours_is_refused(change: dict[str, object]) -> None:
    ours = json.loads(format_fence(Fence("cluster", 4, ProducerId(999))))
    with pytest.raises(Misshaped):
        parse_block(json.dumps({**ours, **change}).encode(), version=5)


AFTER = [
    pytest.param(None, block(-1, 0, 999), id="the-first"),
    pytest.param(block(3, 0, 999), block(-1, 1000, 1999), id="the-next"),
    pytest.param(block(3, 5000, 5000), block(-1, 5001, 6000), id="after-a-short-one"),
    pytest.param(
        block(3, 0, KAFKA_EXHAUSTED), block(-1, KAFKA_EXHAUSTED + 1, PRODUCER_ID_MAX), id="the-last-there-is"
    ),
    pytest.param(block(3, 0, KAFKA_EXHAUSTED + 1), IdsExhausted, id="one-id-too-few-left"),
    pytest.param(block(3, 0, PRODUCER_ID_MAX), IdsExhausted, id="no-id-left"),
    pytest.param(Fence("c", 4, None), IdsExhausted, id="fenced"),
]


@table(("current", "expected"), AFTER)
def test_the_block_after_is_the_one_kafka_computes(
    current: BlockZnode, expected: ZnodeBlock | type[IdsExhausted]
) -> None:
    if isinstance(expected, ZnodeBlock):
        assert block_after(current) == expected
    else:
        with pytest.raises(expected):
            block_after(current)


def test_a_longer_block_than_is_left_is_refused() -> None:
    with pytest.raises(IdsExhausted):
        block_after(block(3, 0, KAFKA_EXHAUSTED), length=1001)


@given(blocks, brokers)
def test_an_old_broker_never_takes_our_write_for_its_own(one: ZnodeBlock, broker: BrokerId) -> None:
    """Brokers before 3.0 compare (broker, first, last) after an uncertain write; theirs has their own id."""
    if broker == ON_BEHALF or one.is_exhausted:
        return
    assert block_after(one) != block_after(one, KAFKA_BLOCK_LENGTH, broker)
