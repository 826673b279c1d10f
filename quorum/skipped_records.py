"""Says which records of a committed entry this version skips: of key types that it does not know."""

from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from fencepost.records.entry import LoggedBatch
from fencepost.records.group_log import UnknownGroupRecord
from fencepost.records.types import Log


def warn_of_skipped(batches: Sequence[LoggedBatch], log: FilteringBoundLogger) -> None:
    """One warning for each batch and key type, as Kafka's loader of groups has it."""
    for batch in batches:
        if batch.log is Log.CONSUMER_OFFSETS:
            kinds = {each.key_type for each in batch.records if type(each) is UnknownGroupRecord}
            for key_type in sorted(kinds):
                log.warning("group_record_skipped", log=batch.log.directory, key_type=key_type)
