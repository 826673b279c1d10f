"""Requests of transactional producers, and the codes of their answers, by kio's schemas alone."""

import importlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.produce.v9 import request as produce
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1 import request as markers
from kio.static.primitive import Records, i16, i32, i32Timedelta

from fencepost.records.batch import encode_batch

Pair = tuple[int, int]
NONE: Pair = (-1, -1)


def init(transactional_id: str | None, pair: Pair = NONE, *, timeout_ms: int, version: int = 4) -> Any:
    """InitProducerId; versions 3 to 5 name a pair."""
    module = importlib.import_module(f"kio.schema.init_producer_id.v{version}.request")
    fields: dict[str, Any] = {
        "transactional_id": None if transactional_id is None else TransactionalId(transactional_id),
        "transaction_timeout": i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
    }
    if version >= 3:
        fields |= {"producer_id": ProducerId(pair[0]), "producer_epoch": i16(pair[1])}
    return module.InitProducerIdRequest(**fields)


def add(transactional_id: str, pair: Pair, topic: str, indexes: Sequence[int], *, version: int = 3) -> Any:
    """AddPartitionsToTxn, versions 0 to 3."""
    module = importlib.import_module(f"kio.schema.add_partitions_to_txn.v{version}.request")
    named = module.AddPartitionsToTxnTopic(
        name=TopicName(topic), partitions=tuple(i32(index) for index in indexes)
    )
    return module.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TransactionalId(transactional_id),
        v3_and_below_producer_id=ProducerId(pair[0]),
        v3_and_below_producer_epoch=i16(pair[1]),
        v3_and_below_topics=(named,),
    )


def added(answer: Any) -> set[int]:
    """The codes of an AddPartitionsToTxn."""
    return {
        int(each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def end(transactional_id: str, pair: Pair, committed: bool) -> EndTxnRequest:
    """EndTxn."""
    return EndTxnRequest(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(pair[0]),
        producer_epoch=i16(pair[1]),
        committed=committed,
    )


def write(
    transactional_id: str | None,
    pair: Pair,
    topic: str,
    index: int,
    sequence: int,
    value: str,
    timestamp_ms: int = 1,
) -> produce.ProduceRequest:
    """Produce of one record, in a transaction if an id is given."""
    batch = encode_batch(
        [(None, value.encode(), ())],
        timestamp_ms=timestamp_ms,
        producer_id=pair[0],
        producer_epoch=pair[1],
        base_sequence=sequence,
        transactional=transactional_id is not None,
    )
    partition = produce.PartitionProduceData(index=i32(index), records=Records(batch))
    return produce.ProduceRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=10)),
        topic_data=(produce.TopicProduceData(name=TopicName(topic), partition_data=(partition,)),),
    )


def written(answer: Any) -> int:
    """The code of a Produce of one record."""
    return int(answer.responses[0].partition_responses[0].error_code)


def marker(
    pair: Pair, committed: bool, topic: str, indexes: Sequence[int], coordinator_epoch: int
) -> markers.WriteTxnMarkersRequest:
    """WriteTxnMarkers of one producer."""
    named = markers.WritableTxnMarkerTopic(
        name=TopicName(topic), partition_indexes=tuple(i32(index) for index in indexes)
    )
    return markers.WriteTxnMarkersRequest(
        markers=(
            markers.WritableTxnMarker(
                producer_id=ProducerId(pair[0]),
                producer_epoch=i16(pair[1]),
                transaction_result=committed,
                topics=(named,),
                coordinator_epoch=i32(coordinator_epoch),
            ),
        )
    )
