"""What is broken on purpose in the layout of record batches, and in varints."""

from typing import Final

from tests.mutants.mutant import Mutant

VARINT: Final = "tests/records/test_varint.py::"

LAYOUT: Final = (
    Mutant(
        "varint-33-bits",
        "an unsigned varint has at most 32 bits",
        "records/varint.py",
        "                if number > UNSIGNED_MAX:\n                    break\n",
        "",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt[unsigned-33-bits]",),
    ),
    Mutant(
        "varint-65-bits",
        "a signed varint has at most 64 bits",
        "records/varint.py",
        "                if number > _ZIGZAG_MAX:\n                    break\n",
        "",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt[signed-65-bits]",),
    ),
    Mutant(
        "varint-overlong",
        "an unsigned varint has at most five bytes",
        "records/varint.py",
        "UNSIGNED_BYTES_MAX: Final = 5\n",
        "UNSIGNED_BYTES_MAX: Final = 6\n",
        (VARINT + "test_more_bits_or_fewer_bytes_are_corrupt[unsigned-six-bytes]",),
    ),
    Mutant(
        "varint-table-off-by-one",
        "varints from the table are those of the encoding",
        "records/varint.py",
        "_encode(2 * number) for number in range(SIGNED_KNOWN)",
        "_encode(2 * number + 2) for number in range(SIGNED_KNOWN)",
        (
            VARINT + "test_the_tables_are_what_the_functions_write",
            VARINT + "test_the_bytes_are_kafkas[signed-smallest-of-two]",
        ),
    ),
)
