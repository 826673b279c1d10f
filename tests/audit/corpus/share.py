"""How much of a healthy cluster the audit cannot decide: ``python -m tests.audit.corpus.share``.

Counted     transactions of the unbroken part of the coordinators' logs, once for each partition that they
            wrote to. Left out is the marker that its own partition's log no longer has, by retention or by a
            deletion of records: that is counted apart.
"""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.audit.engine.embedded import EmbeddedEngine
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.walks.context import DELETED
from tests.audit.corpus import recording
from tests.audit.faults import engine

SHARE_MAX: Final = 0.01

_JUDGED: Final = """
    SELECT count(*) AS many FROM outcomes o
    JOIN logs l ON l.topic = o.topic AND l.partition = o.partition AND o."offset" >= l.unbroken_offset
"""
_UNDECIDED: Final = """
    SELECT rule, detail FROM found_rows WHERE kind = 'unknown' AND "check" = 'markers' AND rule = 'missing'
"""


class Share(NamedTuple):
    """Of one recording, in transactions times partitions."""

    judged: int
    unknown: int
    deleted: int

    @property
    def unknown_share(self) -> float:
        """Of those whose marker should still be there."""
        kept = self.judged - self.deleted
        return self.unknown / kept if kept else 0.0


def share_of(relations: Relations) -> Share:
    """What cannot be decided, of the directories of a cluster that was stopped."""
    (judged,) = relations.rows(_JUDGED)
    unknown = deleted = 0
    for row in relations.rows(_UNDECIDED):
        many = int(row["detail"].partition(" ")[0])
        is_deleted = row["detail"].endswith(DELETED)
        deleted, unknown = deleted + many * is_deleted, unknown + many * (not is_deleted)
    return Share(judged["many"], unknown, deleted)


def main() -> None:
    """One line for each recording of a stopped cluster."""
    with tempfile.TemporaryDirectory() as home:
        for name in recording.names():
            if name.endswith("-stopped"):
                root = recording.unpack(Path(home), name)
                with tempfile.TemporaryDirectory() as folder, closing(EmbeddedEngine(folder)) as embedded:
                    share = share_of(engine.relations_of(embedded, root, is_stopped=False))
                said = f"{share.judged} judged, {share.deleted} deleted, {share.unknown} unknown"
                print(f"{name:<24} {said}: {share.unknown_share:.2%}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
