"""Mutants of what a request's version means: a codec that says it of another one, or that passes it on."""

from typing import Final

from tests.mutants.mutant import Mutant

MEANING: Final = "tests/wire/test_request_meaning.py::"

MEANINGS: Final = (
    Mutant(
        "abortable-before-its-version",
        "a Produce below version 11 does not know TRANSACTION_ABORTABLE",
        "wire/k00_produce.py",
        "        knows_abortable=version >= _ABORTABLE_FROM,\n",
        "        knows_abortable=version >= _TIMED_OUT_FROM,\n",
        (MEANING + "test_the_codec_says_what_a_version_means",),
    ),
    Mutant(
        "bumps-before-its-version",
        "an EndTxn below version 5 leaves the epoch as it is",
        "wire/k26_end_txn.py",
        "        bumps_epoch=version >= _BUMPING_FROM,\n",
        "        bumps_epoch=version >= _ABORTABLE_FROM,\n",
        (MEANING + "test_the_codec_says_what_a_version_means",),
    ),
    Mutant(
        "request-with-its-version",
        "requests carry what their version means, never the version",
        "wire/k01_fetch.py",
        "    partitions: tuple[FetchPartition, ...]\n\n\n@dataclass(frozen=True, slots=True)\nclass Aborted",
        "    partitions: tuple[FetchPartition, ...]\n    version: int = 0\n\n\n"
        "@dataclass(frozen=True, slots=True)\nclass Aborted",
        (MEANING + "test_no_request_carries_its_version",),
    ),
)
