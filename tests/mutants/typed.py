"""Mutants of typed hand-overs, and of what is handed over."""

from typing import Final

from tests.mutants.mutant import Mutant

SIGNATURES: Final = "tests/package/test_typed.py::test_a_signature_says_what_it_takes_and_returns[quorum]"
SERVER: Final = "tests/node/test_server_upgrade.py::"
SHELL: Final = "tests/node/test_active_controller.py::"

TYPED: Final = (
    Mutant(
        "a-callable-of-anything",
        "what takes the result of work on another thread says which result",
        "quorum/port.py",
        "    def __init__(self, work: Callable[[], R], done: Callable[[R | BaseException], None]) -> None:",
        "    def __init__(self, work: Callable[[], R], done: Callable[..., None]) -> None:",
        (SIGNATURES,),
    ),
    Mutant(
        "an-object-as-a-result",
        "a decision's response is of the type that its reply takes",
        "quorum/port.py",
        "    def __call__(self, outcome: R_contra | ApiError, throttle_ms: int, /) -> None:",
        "    def __call__(self, outcome: object, throttle_ms: int, /) -> None:",
        (SIGNATURES,),
    ),
    Mutant(
        "blocks-uncounted",
        "blocks are counted by outcome when their reply is given",
        "node/server.py",
        '                self._blocks["throttled" if throttle_ms else "granted"] += 1\n',
        "                pass\n",
        (
            SERVER + "test_a_block_is_counted_when_its_reply_is_given[granted]",
            SERVER + "test_a_block_is_counted_when_its_reply_is_given[throttled]",
        ),
    ),
    Mutant(
        "work-that-fails-is-undone",
        "what work on another thread raises is its result",
        "node/active_controller.py",
        "            if error is not None:\n                task.fail(error)\n            self._ended(task)",
        "            self._ended(task)",
        (SHELL + "test_what_another_thread_raises_is_its_result",),
    ),
)
