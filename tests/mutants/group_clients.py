"""What is broken on purpose where a real client would fall into a trap of its own."""

from typing import Final

from tests.mutants.mutant import Mutant

OFFSETS: Final = "tests/wire/test_offsets_of_aiokafka.py::"

GROUP_CLIENTS: Final = (
    Mutant(
        "offset-refusal-without-partitions",
        "the code of a group stands at each partition that was requested: aiokafka looks only there",
        "wire/k09_offset_fetch.py",
        "(topic, index, code=code) for topic, index in query.partitions or ()])",
        "(topic, index, code=code) for topic, index in ()])",
        (
            OFFSETS + "test_aiokafka_asks_again_after_what_passes[14]",
            OFFSETS + "test_aiokafka_hears_of_what_does_not_pass",
        ),
    ),
)
