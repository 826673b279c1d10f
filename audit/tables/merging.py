"""Many small ingests become one: a year of watching would else be a million files, all of them read by every
check.

Rows        of the ingests that are merged go into a new one, less those that do not count. The files' states
            go with them, ``first_ingest`` as it was: the new number is higher than that of all it replaces.
Alone       not while a writer is at work that has begun before: what it supersedes by its lower number would
            be back in the merged rows. One that begins later has a higher number, and supersedes them
            rightly.
"""

from typing import Final

import pyarrow as pa

from fencepost.audit.tables.layout import GONE, STORED
from fencepost.audit.tables.parts import PartWriter, stored_rows
from fencepost.audit.tables.place import Place
from fencepost.audit.tables.snapshot import Snapshot
from fencepost.audit.tables.writing import commit, is_alone, reserved

SMALL_BYTES: Final = 4 * 1024 * 1024  # of an ingest: all its files
SMALL_INGESTS_MAX: Final = 32  # before they are merged


def merge(place: Place) -> bool:
    """Merge small ingests if there are more than ``SMALL_INGESTS_MAX``; whether it did. Raises TablesRefused,
    OSError.
    """
    with reserved(place, []) as taken:
        before = taken.before
        chosen = mergeable(before)
        if not chosen or not is_alone(place, taken.number):
            return False
        with PartWriter(place, taken.number, "merged") as writer:
            for number in chosen:
                dropped = before.dropped(number)
                for part in before.live[number].parts:
                    if part.table != "files":
                        for rows in stored_rows(place, part, dropped):
                            writer.write(part.table, rows)
            states = _states(before, chosen)
            writer.write("files", pa.RecordBatch.from_pylist(states, schema=STORED["files"]))
            parts = [made.part for made in writer.close()]
        commit(place, taken, parts, {}, chosen)
    return True


def mergeable(found: Snapshot) -> list[int]:
    """The ingests to merge, those with the lower numbers first; none if they are few."""
    small = [
        number for number, each in found.live.items() if sum(part.size for part in each.parts) < SMALL_BYTES
    ]
    return small if len(small) > SMALL_INGESTS_MAX else []


def _states(before: Snapshot, chosen: list[int]) -> list[dict[str, object]]:
    """What is known of every log file of which the merged ingests say anything that still counts.

    Of a file that is gone as long as an ingest that stays has anything of it.
    """
    named = frozenset().union(*(before.paths[number] for number in chosen))
    elsewhere = frozenset().union(*(paths for number, paths in before.paths.items() if number not in chosen))
    rows = (row for path in sorted(named) for row in before.files[path])
    return [dict(row) for row in rows if row["stop"] != GONE or row["path"] in elsewhere]
