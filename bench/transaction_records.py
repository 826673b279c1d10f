"""What a load of ``bench transactions`` writes, and whether a consumer sees it.

Value       producer u32 | transaction u64 | record u32 | zeros, to the load's ``message_bytes``.
Partition   producer p writes to partition p modulo the topic's.
Verified    a read_committed consumer sees each producer's committed records, each once, in order. Each
            producer also aborts one transaction at the end, outside the window, that must not be seen where
            ``hides_aborted``: the mock cluster shows aborted records, and forgets the oldest ones of a full
            log, so there the records are compared from the first one that is left.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
from confluent_kafka import KafkaException

from fencepost.client.read_back import READ_COMMITTED, NotReadToEnd, read_topic

READ_SECONDS_MAX: Final = 120.0
VALUE: Final = struct.Struct(">IQI")
VALUE_BYTES_MIN: Final = VALUE.size


class LoadFailed(Exception):
    """A client could not go on: there is no figure of this load."""


class Load(msgspec.Struct, frozen=True, tag="load", kw_only=True):
    """Load a cluster. Answered with ``Loaded``.

    ``partitions``: of the topic, which is created with the cluster's default of replicas; 0: as many as a
    cluster gives it that creates topics on demand. ``nodes``: process ids, whose CPU time is measured.
    ``java_classpath``: where the Java client's jars are. ``access``: see ``Create``.
    """

    client: str
    bootstrap: str
    topic: str
    producers: int
    messages: int
    message_bytes: int
    warm_up_s: float
    seconds: float
    hides_aborted: bool
    is_verified: bool = True
    partitions: int = 0
    nodes: dict[str, int] = {}
    java_classpath: str = ""
    access: dict[str, str] = {}


class Written(NamedTuple):
    """By one producer: the numbers of its committed transactions, and the latency of those in the window."""

    committed: list[int]
    latencies_ns: list[int]


class Writers(Protocol):
    """The producers of one load, of one client library."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes that they are in."""

    def open(self) -> None:
        """Return when each of them can begin a transaction. Raises LoadFailed, KafkaException."""

    def write(self, begin_ns: int, end_ns: int) -> list[Written]:
        """Write until ``end_ns`` of the monotonic clock; the window begins at ``begin_ns``.

        Raises LoadFailed, KafkaException.
        """

    def close(self) -> None:
        """End them. May be called when ``open`` or ``write`` raised."""


def values_of(load: Load, producer: int, transaction: int) -> list[bytes]:
    """The values of one transaction."""
    padding = bytes(load.message_bytes - VALUE.size)
    return [VALUE.pack(producer, transaction, each) + padding for each in range(load.messages)]


def difference(load: Load, committed: Sequence[Sequence[int]]) -> str:
    """Between what is seen and the transactions each producer committed, in words; empty if there is none."""
    expected = [_expected(each, load.messages) for each in committed]
    begun = [load.hides_aborted] * load.producers  # else a full log may begin in the middle
    try:
        records = read_topic(
            load.bootstrap, load.topic, READ_COMMITTED, timeout_s=READ_SECONDS_MAX, access=load.access
        )
        for record in records:
            if len(record.value) != load.message_bytes:
                return f"saw a value of {len(record.value)} bytes, expected {load.message_bytes}"
            number, *seen = VALUE.unpack_from(record.value)
            wanted = next(expected[number], None)
            while not begun[number] and wanted is not None and wanted != tuple(seen):
                wanted = next(expected[number], None)
            begun[number] = True
            if wanted != tuple(seen):
                return f"producer {number}: saw (transaction, record) {tuple(seen)}, expected {wanted}"
    except (NotReadToEnd, KafkaException) as error:
        return str(error)
    for number, rest in enumerate(expected):
        missing = next(rest, None)
        if missing is not None:
            return f"producer {number}: never saw (transaction, record) {missing} and what follows"
    return ""


def _expected(committed: Sequence[int], messages: int) -> Iterator[tuple[int, int]]:
    return ((transaction, each) for transaction in committed for each in range(messages))
