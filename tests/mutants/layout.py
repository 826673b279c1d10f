"""What is broken on purpose in the layout of record batches, and in varints."""

from typing import Final

from tests.mutants.mutant import Mutant

BATCH_LAYOUT: Final = "tests/records/test_batch_layout.py::"
VARINT: Final = "tests/records/test_varint.py::"

LAYOUT: Final = (
    Mutant(
        "varint-33-bits",
        "an unsigned varint has at most 32 bits",
        "records/varint.py",
        "                if number > UNSIGNED_MAX:\n                    break\n",
        "",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt",),
    ),
    Mutant(
        "varint-65-bits",
        "a signed varint has at most 64 bits",
        "records/varint.py",
        "                if number > _ZIGZAG_MAX:\n                    break\n",
        "",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt",),
    ),
    Mutant(
        "varint-overlong",
        "an unsigned varint has at most five bytes",
        "records/varint.py",
        "UNSIGNED_BYTES_MAX: Final = 5\n",
        "UNSIGNED_BYTES_MAX: Final = 6\n",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt",),
    ),
    Mutant(
        "varint-table-off-by-one",
        "varints from the table are those of the encoding",
        "records/varint.py",
        "_encode(2 * number) for number in range(SIGNED_KNOWN)",
        "_encode(2 * number + 2) for number in range(SIGNED_KNOWN)",
        (
            VARINT + "test_the_tables_are_what_the_functions_write",
            VARINT + "test_the_bytes_are_kafkas",
        ),
    ),
    Mutant(
        "layout-field-order",
        "the header's fields are in Kafka's order",
        "records/batch_layout.py",
        '    ("producer_epoch", "h"),\n    ("base_sequence", "i"),\n',
        '    ("base_sequence", "i"),\n    ("producer_epoch", "h"),\n',
        (BATCH_LAYOUT + "test_the_fields_are_kafkas", BATCH_LAYOUT + "test_every_reader_agrees"),
    ),
    Mutant(
        "layout-wrong-offset",
        "the length counts the bytes after itself",
        "records/batch_layout.py",
        'LENGTH_COUNTS_FROM: Final = AT["leader_epoch"]\n',
        'LENGTH_COUNTS_FROM: Final = AT["length"]\n',
        (
            BATCH_LAYOUT + "test_the_fields_are_kafkas",
            "tests/records/test_batch.py::test_the_bytes_are_kafkas",
        ),
    ),
    Mutant(
        "layout-fields-shifted",
        "fields that are read together are read where they lie",
        "records/batch_layout.py",
        "        position = AT[name] + field(name).size\n",
        "        position = AT[name]\n",
        (BATCH_LAYOUT + "test_some_fields_are_read_together",),
    ),
    Mutant(
        "append-time-elsewhere",
        "the append time is the batch's max timestamp",
        "broker/log/validation.py",
        "    _MAX_TIMESTAMP.pack_into(placed, position + MAX_TIMESTAMP_AT, append_time_ms)\n",
        "    _MAX_TIMESTAMP.pack_into(placed, position + MAX_TIMESTAMP_AT - 8, append_time_ms)\n",
        ("tests/broker/log/test_partition_log.py::test_append_time_replaces_the_time_under_the_crc",),
    ),
)
