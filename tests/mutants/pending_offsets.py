"""What is broken on purpose where a consumer asks for an offset that is pending."""

from typing import Final

from tests.mutants.mutant import Mutant

PENDING_OFFSETS: Final = (
    Mutant(
        "pending-is-none",
        "beside UNSTABLE_OFFSET_COMMIT stands no offset that librdkafka takes for none",
        "controller/groups/offset_messages.py",
        "UNSTABLE_OFFSET: Final = -1000\n",
        "UNSTABLE_OFFSET: Final = -1\n",
        ("tests/controller/groups/test_offsets.py::test_while_a_transaction_has_an_offset[require-stable]",),
    ),
)
