"""Mutants of the image's digest: it is of every row, saved or not, and of no other."""

from typing import Final

from tests.mutants.mutant import Mutant

TEST: Final = ("tests/snapshots/test_store.py::test_a_stored_image_is_the_image",)

DIGESTS: Final = (
    Mutant(
        "digest-without-unsaved-rows",
        "the digest is of the image as it is now, saved or not",
        "snapshots/image.py",
        "                    rows[at] = table.encode_value(value)",
        "                    pass",
        TEST,
    ),
    Mutant(
        "digest-of-deleted-rows",
        "a row that was deleted since the last save is in no digest",
        "snapshots/image.py",
        "                    rows.pop(at, None)",
        "                    pass",
        TEST,
    ),
)
