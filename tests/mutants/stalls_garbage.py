"""What is broken on purpose where garbage collections must not stall the event loop."""

from typing import Final

from tests.mutants.mutant import Mutant

GARBAGE: Final = "tests/wire/test_garbage.py::"
CONNECTIONS: Final = "tests/wire/test_garbage_of_connections.py::"

STALLS_GARBAGE: Final = (
    Mutant(
        "garbage-visits-all",
        "what survives a collection is not visited again",
        "wire/garbage.py",
        "            return\n        gc.freeze()\n        self._count += 1\n",
        "            return\n        self._count += 1\n",
        (GARBAGE + "test_no_collection_visits_what_lives_long",),
    ),
    Mutant(
        "garbage-for-ever",
        "past the bound all garbage is collected",
        "wire/garbage.py",
        "        gc.unfreeze()\n        gc.collect()\n",
        "        gc.collect()\n",
        (GARBAGE + "test_cycles_that_lived_long_are_collected_past_the_bound",),
    ),
    Mutant(
        "garbage-counts-objects",
        "what is frozen is not counted object by object",
        "wire/garbage.py",
        "        if self._count % COUNTED_EVERY == 0 and sys.getallocatedblocks() > self._limit:",
        "        if self._count % COUNTED_EVERY == 0 and gc.get_freeze_count() > self._limit:",
        (GARBAGE + "test_what_is_frozen_is_not_counted_object_by_object",),
    ),
    Mutant(
        "connection-in-a-cycle",
        "a closed connection and its share of the memory are in no cycle",
        "wire/request_memory.py",
        "        share.holder = _GONE\n",
        "",
        (CONNECTIONS + "test_a_closed_connection_is_freed_without_a_collection[a request]",),
    ),
    Mutant(
        "garbage-in-a-request",
        "a full collection comes from a timer, not in the middle of a request",
        "wire/garbage.py",
        "            self.full_is_due = True\n",
        "            self.full_is_due = True\n            gc.unfreeze()\n",
        (GARBAGE + "test_a_full_collection_comes_when_it_is_called_for_and_not_before",),
    ),
    Mutant(
        "garbage-uncounted",
        "a full collection is counted as what held the loop",
        "node/main.py",
        "    with watch:\n        garbage.collect_if_due()\n",
        "    garbage.collect_if_due()\n",
        ("tests/node/test_start.py::test_garbage_is_collected_by_a_timer_and_counted",),
    ),
)
