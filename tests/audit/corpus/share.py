"""How much of a healthy cluster the audit cannot decide: ``python -m tests.audit.corpus.share``.

Counted     transactions of the unbroken part of the coordinators' logs, once for each partition that they
            wrote to. Left out is the marker that its own partition's log no longer has, by retention or by a
            deletion of records: that is counted apart.
Partitions  of which a copy is missing, short, or given twice. Of records at an end that no checkpoint reaches
            nothing is counted: nodes that are stopped write some that no other copy takes.
"""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import click

from fencepost.audit.engine.embedded import EmbeddedEngine
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.walks.context import DELETED
from tests.audit.corpus import recording
from tests.audit.faults import engine

AUDIT_SECONDS_MAX: Final = 900
JUDGED_MIN: Final = 100
SHARE_MAX: Final = 0.01

_JUDGED: Final = """
    SELECT count(*) AS many FROM outcomes o
    JOIN logs l ON l.topic = o.topic AND l.partition = o.partition AND o."offset" >= l.unbroken_offset
"""
_UNDECIDED: Final = """
    SELECT rule, detail FROM found_rows WHERE kind = 'unknown' AND "check" = 'markers' AND rule = 'missing'
"""
_PARTITIONS: Final = """
    SELECT DISTINCT rule, topic, partition FROM replicas_unknown WHERE rule <> 'uncommitted'
"""


class Share(NamedTuple):
    """Of one cluster; in transactions times partitions, but for ``partitions``."""

    judged: int
    unknown: int
    deleted: int
    partitions: int

    @property
    def unknown_share(self) -> float:
        """Of those whose marker should still be there."""
        kept = self.judged - self.deleted
        return self.unknown / kept if kept else 0.0

    @property
    def is_right(self) -> bool:
        """Many were judged, nearly all of them decided, and every partition."""
        return self.judged > JUDGED_MIN and self.unknown_share <= SHARE_MAX and not self.partitions

    def __str__(self) -> str:
        counts = f"{self.judged} judged, {self.deleted} deleted, {self.unknown} unknown"
        return f"{counts}: {self.unknown_share:.2%}; {self.partitions} partitions unknown"


def share_of(relations: Relations) -> Share:
    """What cannot be decided, of the directories of a cluster that was stopped."""
    (judged,) = relations.rows(_JUDGED)
    unknown = deleted = 0
    for row in relations.rows(_UNDECIDED):
        many = int(row["detail"].partition(" ")[0])
        is_deleted = row["detail"].endswith(DELETED)
        deleted, unknown = deleted + many * is_deleted, unknown + many * (not is_deleted)
    return Share(judged["many"], unknown, deleted, len(relations.rows(_PARTITIONS)))


def measured(root: Path) -> Share:
    """``share_of`` the directories of a cluster that was stopped."""
    with tempfile.TemporaryDirectory() as folder, closing(EmbeddedEngine(folder)) as embedded:
        return share_of(engine.relations_of(embedded, root, is_stopped=False))


def passes(copy: Path, *, is_stopped: bool) -> bool:
    """Whether ``fencepost audit check`` finds nothing in it and, of one that was stopped, the share is right.

    Exit status 3 of the audit is that something is unknown, and no finding.
    """
    program = Path(sys.executable).with_name("fencepost")
    command = [str(program), "audit", "check", str(copy)]
    click.echo(f"$ fencepost {' '.join(command[1:])}")
    status = subprocess.run(command, timeout=AUDIT_SECONDS_MAX, check=False).returncode
    click.echo(f"exit status {status}")
    if not is_stopped:
        return status in {0, 3}
    share = measured(copy)
    click.echo(f"Transactions times partitions: {share}")
    return status in {0, 3} and share.is_right


def main() -> None:
    """One line for each recording of a stopped cluster."""
    with tempfile.TemporaryDirectory() as home:
        for name in recording.names():
            if name.endswith("-stopped"):
                click.echo(f"{name:<24} {measured(recording.unpack(Path(home), name))}")


if __name__ == "__main__":
    main()
