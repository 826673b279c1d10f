"""What is broken on purpose where work must not hold the event loop, and where it is measured."""

from typing import Final

from tests.mutants.mutant import Mutant

STALLS: Final = "tests/wire/test_stalls.py::"

LOOP: Final = (
    # -- the measure -----------------------------------------------------------------------------------------
    Mutant(
        "stall-hidden",
        "what serves a request is measured under the request's name",
        "wire/server_connection.py",
        "                stalls.end(self._work, begun)\n",
        "",
        (
            STALLS + "test_a_request_counts_with_its_decoding_and_its_reply",
            STALLS + "test_a_refusal_counts",
        ),
    ),
    Mutant(
        "stall-of-replies-hidden",
        "a reply that comes later is measured, too",
        "wire/server_reply.py",
        "        connection.stalls.end(self._api.name, begun)\n",
        "",
        (STALLS + "test_a_reply_that_comes_later_counts",),
    ),
    Mutant(
        "stall-inside-hides",
        "work that holds other work is measured from its own beginning",
        "wire/stalls.py",
        "            self._record(work, min(elapsed_s, self._cpu_s - begun[1]), now_s)",
        "            before_s = begun[1] if now_s - self._read_at_s > 1 else self._cpu_s\n"
        "            self._record(work, min(elapsed_s, self._cpu_s - before_s), now_s)",
        (STALLS + "test_work_inside_other_work_is_counted_for_both",),
    ),
    Mutant(
        "flush-is-a-stall",
        "the flush of the store is taken out",
        "wire/stalls.py",
        "        self.wall_s += elapsed_s\n        self.cpu_s += self._cpu_clock() - self._begun_cpu_s\n",
        "",
        (STALLS + "test_a_flush_is_taken_out_and_has_its_own_maximum",),
    ),
)
