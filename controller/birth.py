"""What a new cluster's first leader writes: its features, its log level, its users, the upgrade's phase."""

from fencepost.controller import features, levels, migration, scram
from fencepost.controller.decision import Decision
from fencepost.controller.view import View
from fencepost.records.schema import MetadataRecord, UserScramCredentialRecord


def decide_birth(
    view: View, formatted: int, users: tuple[UserScramCredentialRecord, ...], *, migrating: bool
) -> Decision[None]:
    """``formatted``, ``users``: of the leader's directory. A cluster that is there gets nothing of it."""
    upgrade = migration.bootstrap_records(view, migrating=migrating)
    level = levels.bootstrap_records(view, formatted)
    credentials = scram.bootstrap_records(view, users, formatted)
    records: tuple[MetadataRecord, ...] = (*features.bootstrap_records(view), *level, *credentials, *upgrade)
    return Decision(records, None, ends_entry=bool(level))
