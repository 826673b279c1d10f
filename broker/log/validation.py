"""What a producer sends, checked as Kafka checks it, before any of it is in the log.

Order    size, layout, CRC; then the header's fields; then its records; compressed ones are opened for
         it and stored as they came.
Slices   ``checking`` is a generator: it pauses when its budget of steps is spent, and yields large batches
         to be decompressed elsewhere. ``check_produced`` does all of it at once.
Kafka    demands exactly one batch of a producer since Produce v3. Here several are taken, but only without
         a producer id: sequences are checked and answered one batch at a time.
Source   Kafka UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from fencepost.broker.log.shapes import NEVER, NO_TIMESTAMP, LogConfig
from fencepost.controller.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from fencepost.records.batch import (
    BATCH_BYTES_MAX,
    BatchHeader,
    Buffer,
    batch_header,
    checked_header,
    stamp_into,
)
from fencepost.records.batch_layout import (
    ATTRIBUTES_AT,
    CHECKED_AT,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    field,
    size_at,
)
from fencepost.records.compression import DECOMPRESSED_BYTES_MAX, NONE, ZSTD, TooLarge, decompress
from fencepost.records.filtered import recompressed
from fencepost.records.invariant import CorruptData
from fencepost.records.record_walk import Body, check_end, check_records, record_times, walk
from fencepost.records.types import Offset, Term

RECORDS_MAX: Final = 100_000
"""Of one batch: they are walked one by one. librdkafka's default ``batch.num.messages`` is 10,000."""

BATCHES_MAX: Final = 1024  # of one append

APPEND_BYTES_MAX: Final = BATCH_BYTES_MAX
"""Of one append, which is written in one piece: some 15 ms. Kafka takes one batch only."""

STEP_BYTES: Final = 1024
"""Checksummed, copied, or unpacked in about the time that a record takes to be walked over: a microsecond."""

PACKED_HERE_BYTES_MAX: Final = 16 * 1024
"""Compressed bytes that are opened on the spot, if no more than OPENED_HERE_BYTES_MAX come out."""

OPENED_HERE_BYTES_MAX: Final = 256 * 1024
OPENED_SMALL_BYTES_MAX: Final = 1024 * 1024

_ATTRIBUTES: Final = field("attributes")
_MAX_TIMESTAMP: Final = field("max_timestamp_ms")
_CRC: Final = field("crc")


class Budget:
    """Steps that may be taken before something else must run; below zero if the last took more."""

    __slots__ = ("steps",)

    def __init__(self, steps: int) -> None:
        self.steps = steps


class Opening(NamedTuple):
    """Compressed records to be opened elsewhere: the answer is ``open()``, or what it raises."""

    codec: int
    body: bytes
    bytes_max: int

    def open(self) -> Body:
        """The records. Raises CorruptData, TooLarge."""
        return decompress(self.codec, self.body, self.bytes_max)


class Recompressing(NamedTuple):
    """A batch to be compressed anew elsewhere: the answer is ``open()``."""

    batch: bytes
    header: BatchHeader
    codec: int
    level: int | None

    @property
    def bytes_max(self) -> int:
        """Of its records, without compression."""
        return DECOMPRESSED_BYTES_MAX if self.header.compression else self.header.size

    def open(self) -> Body:
        """The batch as the log is to have it. Raises CorruptData."""
        return recompressed(self.batch, self.header, self.codec, self.level)


class Checked(NamedTuple):
    """A producer's batches as the log takes them, and their headers."""

    records: Buffer
    headers: tuple[BatchHeader, ...]


Wanted: TypeAlias = Opening | Recompressing | None

Checking: TypeAlias = Generator[Wanted, Body, Checked]
"""Yields None where something else may run, else what is to be done elsewhere."""


def check_produced(produced: Buffer, config: LogConfig, now_ms: int) -> tuple[BatchHeader, ...]:
    """As ``checking``, all at once, for what is small; nothing is compressed anew."""
    _require_size(produced)
    headers: list[BatchHeader] = []
    position = 0
    while position < len(produced):
        header = _checked_header(produced, position, config, now_ms)
        size = header.size
        try:
            body, start = opened_records(_bytes_of(produced, position, position + size), header)
            check_records(body, start, header.record_count, keyed=config.compact)
            for _ in _check_times(body, start, header, config, now_ms, Budget(RECORDS_MAX)):
                pass
        except CorruptData as error:
            raise InvalidRecord(str(error)) from error
        headers.append(header)
        position += size
    return _require_batches(headers)


def checking(produced: Buffer, config: LogConfig, now_ms: int, budget: Budget) -> Checking:
    """A producer's batches, everything in them checked, compressed as ``config`` demands, and their headers.

    ``budget`` is counted down, and is for the caller to fill up. A step is a record, a header of one, or
    STEP_BYTES; what cannot be cut takes at most HEADERS_MAX or the bytes of one batch at once. The last steps
    are for the append that follows, which is with nothing else in a slice if it is large.
    Raises   CorruptMessage, InvalidRecord, MessageTooLarge, InvalidTimestamp, UnsupportedCompressionType.
    """
    _require_size(produced)
    headers: list[BatchHeader] = []
    position = 0
    while position < len(produced):
        header = _checked_header(produced, position, config, now_ms)
        budget.steps -= 1 + header.size // STEP_BYTES
        try:
            yield from _check_records(produced, position, header, config, now_ms, budget)
        except CorruptData as error:
            raise InvalidRecord(str(error)) from error
        headers.append(header)
        position += header.size
    checked_headers = _require_batches(headers)
    if config.codec is not None:
        produced, checked_headers = yield from _recompressed(produced, checked_headers, config)
    append_steps = len(produced) // STEP_BYTES
    budget.steps -= append_steps
    if append_steps and budget.steps <= 0:
        yield None
        budget.steps -= append_steps
    return Checked(produced, checked_headers)


def placed_batches(
    produced: Buffer, headers: tuple[BatchHeader, ...], base: Offset, leader_epoch: Term, append_time_ms: int
) -> tuple[bytearray, tuple[BatchHeader, ...]]:
    """Checked batches and their headers, with the offsets that they get from ``base`` on.

    ``append_time_ms`` becomes the time of all records, unless it is NO_TIMESTAMP.
    """
    placed = bytearray(produced)
    placed_headers: list[BatchHeader] = []
    end, position = base, 0
    for header in headers:
        stamp_into(placed, position, end, leader_epoch)
        if append_time_ms == NO_TIMESTAMP:  # the rest is as the producer said, and read already
            placed_headers.append(BatchHeader(end, header.size, leader_epoch, *header[3:]))
        else:
            _set_append_time(placed, position, header.size, append_time_ms)
            placed_headers.append(batch_header(placed, position))
        position += header.size
        end = placed_headers[-1].end
    return placed, tuple(placed_headers)


def opened_records(batch: bytes, header: BatchHeader) -> tuple[Body, int]:
    """The bytes of a batch's records, and where they begin in them. Raises CorruptData, KeyError."""
    if header.compression == NONE:
        return batch, HEADER_BYTES
    return decompress(header.compression, batch[HEADER_BYTES:]), 0


def _require_size(produced: Buffer) -> None:
    if len(produced) > APPEND_BYTES_MAX:
        raise MessageTooLarge(
            f"{len(produced)} bytes for one partition, at most {APPEND_BYTES_MAX} are taken at once"
        )


def _require_batches(headers: list[BatchHeader]) -> tuple[BatchHeader, ...]:
    if len(headers) > BATCHES_MAX:
        raise MessageTooLarge(f"more than {BATCHES_MAX} batches at once")
    if not headers:
        raise InvalidRecord("there is no record batch")
    if len(headers) > 1 and any(header.producer_id >= 0 for header in headers):
        raise InvalidRecord(f"{len(headers)} batches: a producer with an id sends one at a time")
    return tuple(headers)


def _checked_header(produced: Buffer, position: int, config: LogConfig, now_ms: int) -> BatchHeader:
    """The header of a batch that is there whole, with a right CRC, and says nothing that no client may."""
    there = len(produced) - position
    if there < HEADER_BYTES:
        raise CorruptMessage(f"{there} bytes, a batch has at least {HEADER_BYTES}")
    if produced[position + MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"record format {produced[position + MAGIC_AT]}, expected {MAGIC}")
    _require_batch_size(size_at(produced, position), config)
    try:
        header = checked_header(produced, position)
    except CorruptData as error:
        raise CorruptMessage(str(error)) from error
    _check_header(header, config, now_ms)
    return header


def _require_batch_size(size: int, config: LogConfig) -> None:
    limit = min(config.message_bytes_max, BATCH_BYTES_MAX)
    if size > limit:
        raise MessageTooLarge(f"a batch of {size} bytes, max.message.bytes is {limit}")


def _check_records(
    produced: Buffer, position: int, header: BatchHeader, config: LogConfig, now_ms: int, budget: Budget
) -> Generator[Opening | None, Body, None]:
    """Check the records of one batch, step by step. Raises CorruptData, InvalidTimestamp."""
    end = position + header.size
    body: Body
    if header.compression == NONE:
        body = _bytes_of(produced, position, end)
        at = HEADER_BYTES
    else:
        packed = _bytes_of(produced, position + HEADER_BYTES, end)
        body = yield from _opened(header.compression, packed, budget)
        at = 0
    start = at
    delta, count = 0, header.record_count
    while True:
        if budget.steps <= 0:
            yield None
        walked = walk(body, at, delta, count, budget.steps, keyed=config.compact)
        at, delta, budget.steps = walked
        if delta == count:
            break
    check_end(body, walked)
    yield from _check_times(body, start, header, config, now_ms, budget)


def _check_times(
    body: Body, start: int, header: BatchHeader, config: LogConfig, now_ms: int, budget: Budget
) -> Generator[None, Body, None]:
    """Each record's time, where ``message.timestamp.before.max.ms`` is set. Raises InvalidTimestamp."""
    if config.timestamp_before_ms_max == NEVER or config.log_append_time:
        return
    oldest_ms = now_ms - config.timestamp_before_ms_max
    for _, delta_ms in record_times(body, start, header.record_count):
        budget.steps -= 1
        if budget.steps <= 0:
            yield None
        time_ms = header.base_timestamp_ms + delta_ms
        if time_ms < oldest_ms and time_ms != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"a record's time is {now_ms - time_ms} ms ago, message.timestamp.before.max.ms is "
                f"{config.timestamp_before_ms_max}"
            )


def _recompressed(
    produced: Buffer, headers: tuple[BatchHeader, ...], config: LogConfig
) -> Generator[Recompressing, Body, Checked]:
    """Raises MessageTooLarge: a batch has become too large."""
    batches: list[bytes] = []
    position = 0
    for header in headers:
        batch = _bytes_of(produced, position, position + header.size)
        is_other = config.codec is not None and header.compression != config.codec
        if is_other:
            batch = bytes((yield Recompressing(batch, header, config.codec or NONE, config.level)))
        batches.append(batch)
        _require_batch_size(len(batches[-1]), config)
        position += header.size
    return Checked(b"".join(batches), tuple(map(batch_header, batches)))


def _bytes_of(produced: Buffer, start: int, end: int) -> bytes:
    """To be walked over: bytes are read faster than a view. Whole bytes are not copied."""
    return bytes(produced[start:end])


def _opened(codec: int, packed: bytes, budget: Budget) -> Generator[Opening, Body, Body]:
    """The records of a batch: here if they are few, else elsewhere. Raises CorruptData."""
    try:
        if len(packed) <= PACKED_HERE_BYTES_MAX:
            budget.steps -= OPENED_HERE_BYTES_MAX // STEP_BYTES
            return decompress(codec, packed, OPENED_HERE_BYTES_MAX)
    except TooLarge:
        pass
    try:
        return (yield Opening(codec, packed, OPENED_SMALL_BYTES_MAX))
    except TooLarge:
        return (yield Opening(codec, packed, DECOMPRESSED_BYTES_MAX))


def _check_header(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """What no client may claim, whatever its records are."""
    count = header.record_count
    if header.base_offset != 0:
        raise InvalidRecord(f"a producer's batch begins at offset {header.base_offset}, expected 0")
    if count != header.last_offset_delta + 1 or count == 0:
        raise InvalidRecord(f"{count} records, but the last offset delta is {header.last_offset_delta}")
    if count > RECORDS_MAX:
        raise MessageTooLarge(f"{count} records in a batch, at most {RECORDS_MAX} are taken")
    if header.attributes & (CONTROL | DELETE_HORIZON):
        raise InvalidRecord("a client may write neither control records nor a delete horizon")
    if header.compression > ZSTD:
        raise UnsupportedCompressionType(f"no codec has number {header.compression}")
    if header.producer_id < 0:
        if header.is_transactional:
            raise InvalidRecord("a transactional batch without a producer id")
    elif header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and "
            f"sequence {header.base_sequence}"
        )
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer does not set the time of the append")
    ahead = header.max_timestamp_ms - now_ms
    if not config.log_append_time and ahead > config.timestamp_after_ms_max:
        if header.max_timestamp_ms != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"a record's time is {ahead} ms ahead, message.timestamp.after.max.ms is "
                f"{config.timestamp_after_ms_max}"
            )


def _set_append_time(placed: bytearray, position: int, size: int, append_time_ms: int) -> None:
    (attributes,) = _ATTRIBUTES.unpack_from(placed, position + ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(placed, position + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(placed, position + MAX_TIMESTAMP_AT, append_time_ms)
    with memoryview(placed) as whole:
        computed = crc32c(whole[position + CHECKED_AT : position + size])
    _CRC.pack_into(placed, position + CRC_AT, computed)
