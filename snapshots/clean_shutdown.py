"""The file by which a directory of logs says that its writer ended cleanly: all is flushed, all closed.

File     ``.kafka_cleanshutdown``, as Kafka names and fills it; no broker epoch is known here: -1.
Order    it goes before a log is opened for writing, and comes after the last one is closed. A kill at any
         line leaves it out: then readers take it that a writer may have been in the middle of something.
Source   Kafka CleanShutdownFileHandler (KIP-966).
"""

from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.snapshots.flushes import replace_file, sync_path

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_CONTENT: Final = b'{"version":0,"brokerEpoch":-1}'


def forget_clean_shutdown(directory: Path) -> None:
    """Logs are about to be opened for writing. Durable when it returns. Raises OSError."""
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return
    sync_path(directory)


def record_clean_shutdown(directory: Path, log: FilteringBoundLogger) -> None:
    """Every log here is flushed and closed. An OSError is logged: readers then take it for a kill."""
    try:
        replace_file(directory / CLEAN_SHUTDOWN_FILE, _CONTENT, durable=True)
    except OSError as error:
        log.error("clean_shutdown_not_recorded", directory=str(directory), reason=str(error))
