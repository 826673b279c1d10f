"""Numbers of formats that other nodes, or the next start, read."""

from fencepost.snapshots import archive_recovery, archive_repair, checksums, digests, snapshot, sums
from tests.limits_page import missing


def test_numbers_of_formats_are_these() -> None:
    assert (snapshot.FORMAT, checksums.VERSION, checksums.MADE_AGAIN) == (1, 2, (2**64 - 1, 0))
    assert (digests.DIGEST_EVERY, digests.ROWS_MAX, digests.DIGEST_BYTES) == (64, 4096, 16), (
        "of all nodes alike"
    )
    assert (sums.SUM_BYTES, sums.MODULUS, sums.GENERATION_BYTES, sums.KEY_BYTES_MAX) == (16, 2**128, 4, 511)


def test_a_sealed_file_is_for_reading_and_an_open_one_for_its_owner_to_write() -> None:
    modes = (archive_recovery.SEALED, archive_repair._SEALED, archive_recovery.OPEN)
    assert modes == (0o444, 0o444, 0o644)


def test_a_manifest_is_as_large_as_the_page_says() -> None:
    assert missing("a snapshot's manifest", (snapshot.MANIFEST_BYTES_MAX,)) == []
