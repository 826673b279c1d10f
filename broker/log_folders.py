"""Folders of partitions in a log directory: found, and deleted.

Deleted  a folder is renamed ``*-delete`` first: killed meanwhile, the next start deletes what is left.
Source   Kafka LogManager (loadLogs, asyncDelete).
"""

import errno
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.broker.log.checkpoints import PARTITION_FILE, load_topic_id
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.snapshots.flushes import sync_path

DELETED_SUFFIX: Final = "-delete"

OWN_LOGS: Final = frozenset(log.directory for log in Log)
"""The quorum's archives lie in the same folder; they are no partitions of ours."""

OF_THE_DIRECTORY: Final = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOTCONN,
})  # fmt: skip
"""Errors that no other file of the directory would be spared: it is full, read-only or gone."""

OF_THE_FOLDERS: Final = frozenset({
    *OF_THE_DIRECTORY, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT,
}) - {errno.ENOSPC, errno.EDQUOT}  # fmt: skip
"""Of making a log's folder in it: no folder can be made there. On a full disk one may be later."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A partition's folder. ``conflict``: why it is not used; empty: it is."""

    topic: str
    index: int
    path: Path
    conflict: str = ""


def why_not_there(directory: Path) -> OSError | None:
    """Why a formatted log directory is not at its path; None: it is."""
    if (directory / META_PROPERTIES).exists():
        return None
    return FileNotFoundError(errno.ENOENT, "it is not there any more: is its disk mounted?", str(directory))


def make_folder(folder: Path) -> Path:
    """Make a log's folder, durably, unless it is there. Raises OSError."""
    folder.mkdir(exist_ok=True)
    sync_path(folder.parent)
    return folder


def topic_of(folder: Path) -> uuid.UUID | None:
    """Of which topic the partition in a folder is; None: it does not say."""
    try:
        return load_topic_id(folder)
    except (OSError, CorruptData):
        return None


def is_half_made(folder: Path) -> bool:
    """Its log was never used: the disk was full, or the process killed, before it said whose it is."""
    return folder.is_dir() and not any(path.stat().st_size for path in folder.iterdir())


def partition_folders(root: Path) -> list[FoundLog]:
    """The folder of every partition in a directory, in order; what was being deleted is deleted."""
    found = []
    for folder in sorted(root.iterdir()):
        if folder.name in OWN_LOGS or not folder.is_dir():
            continue
        if folder.name.endswith(DELETED_SUFFIX):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        topic, dash, number = folder.name.rpartition("-")
        is_named = dash and topic and number.isascii() and number.isdigit()
        if is_named and (folder / PARTITION_FILE).exists():
            found.append(FoundLog(topic, int(number), folder))
    return found


def delete_folder(folder: Path, topic_id: uuid.UUID) -> None:
    """Delete it with all that is in it, if it is there. Raises OSError: it could not be renamed."""
    if not folder.exists():
        return
    number = folder.name.rpartition("-")[2]  # not the topic: a name with both could pass 255 characters
    aside = folder.with_name(f"{topic_id.hex}-{number}{DELETED_SUFFIX}")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
