"""Requests carry what their version means, never the version: only a codec knows version numbers."""

import dataclasses
import typing
from typing import Any, Final

import msgspec
import pytest

from fencepost.controller.groups.offset_messages import CommitTransactionOffsets
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from fencepost.wire.k00_produce import PRODUCE, Produce
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.registry import APIS
from tests.together import table
from tests.wire.sample_messages import SAMPLES

VERSIONS_OF_OTHER_THINGS: Final = {
    "Announcement.image_version",  # of the image that decided
    "ApiVersions.client_software_version",  # of the client's library
    "Feature.max_supported_version",  # of a feature's levels
    "Feature.min_supported_version",
    "InitProducerId.init_version",  # logged with the instance (tag 1002); a decision reads it from the row
    "TxnMarker.image_version",
    "TxnMarker.transaction_version",  # of the transaction protocol: a field of Kafka's message
}
"""Fields of requests that are named for a version, and whose it is."""


END: Final = EndTxn("transfers", ProducerId(77), 3, True)
SENT: Final = Produce("transfers", -1, 30_000, ())
COMMIT: Final = CommitTransactionOffsets("transfers", "bill", ProducerId(77), 3, ())
MEANINGS: Final = (
    (PRODUCE, SENT, "knows_timed_out", 10),
    (PRODUCE, SENT, "knows_abortable", 11),
    (END_TXN, END, "knows_abortable", 4),
    (PRODUCE, SENT, "adds_partitions", 12),
    (END_TXN, END, "bumps_epoch", 5),
    (TXN_OFFSET_COMMIT, COMMIT, "knows_abortable", 4),
    (TXN_OFFSET_COMMIT, COMMIT, "adds_offsets", 5),
)


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a struct, a dataclass or a named tuple, with their types."""
    if not isinstance(kind, type):
        return {}
    if issubclass(kind, msgspec.Struct):
        return {each.name: each.type for each in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return {each.name: hints[each.name] for each in dataclasses.fields(kind)}
    return hints if hasattr(kind, "_fields") else {}


def structs_in(kind: Any, found: set[type]) -> None:
    """Add every struct that a value of this type may hold."""
    for argument in typing.get_args(kind):
        structs_in(argument, found)
    fields = fields_of(kind)
    if fields and kind not in found:
        found.add(kind)
        for field in fields.values():
            structs_in(field, found)


def versions_named_in(kind: type) -> set[str]:
    """The fields of a request, and of what it holds, whose names end in "version"."""
    found: set[type] = set()
    structs_in(kind, found)
    return {
        f"{struct.__name__}.{name}"
        for struct in found
        for name in fields_of(struct)
        if name.endswith("version")
    }


def test_no_request_carries_its_version() -> None:
    named = [versions_named_in(type(SAMPLES[key][0])) for key in APIS]
    assert set().union(*named) == VERSIONS_OF_OTHER_THINGS


def test_a_request_that_carries_its_version_is_found() -> None:
    class Row(msgspec.Struct):
        version: int

    class Request(msgspec.Struct):
        rows: tuple[Row, ...] | None

    assert versions_named_in(Request) == {"Row.version"}


@table(
    ("api", "request_", "field", "first"),
    [pytest.param(*each, id=f"{each[0].name}-{each[2]}") for each in MEANINGS],
)
def test_the_codec_says_what_a_version_means(
    api: Api[Any, Any], request_: Any, field: str, first: int
) -> None:
    meant = [
        getattr(api.decode_request(version, api.encode_request(version, request_)), field)
        for version in (first - 1, first)
    ]
    assert meant == [False, True]
