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
        "        elif not full_is_due:\n            gc.freeze()\n",
        "        elif not full_is_due:\n",
        (GARBAGE + "test_no_collection_visits_what_lives_long",),
    ),
    Mutant(
        "garbage-for-ever",
        "past the bound a collection is full",
        "wire/garbage.py",
        "                gc.unfreeze()\n                full_is_due = True",
        "                full_is_due = True",
        (GARBAGE + "test_cycles_that_lived_long_are_collected_past_the_bound",),
    ),
    Mutant(
        "garbage-counts-objects",
        "what is frozen is not counted object by object",
        "wire/garbage.py",
        "            if count % COUNTED_EVERY == 0 and sys.getallocatedblocks() > limit:",
        "            if count % COUNTED_EVERY == 0 and gc.get_freeze_count() > limit:",
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
)
