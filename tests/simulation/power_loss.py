"""What a power loss takes of an archive: of what it wrote and did not sync the end, or any sectors.

A file system may know the new size of a file before it has its content: what is missing reads as zeros.
"""

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fencepost.records.types import Offset
from fencepost.snapshots.archive import Archive

SECTOR_BYTES: Final = 512


class Unsynced:
    """Watches the archives of one node directory."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._synced_bytes: dict[Path, int] = {}
        self.sectors_lost = 0

    def watch(self, archives: Iterable[Archive]) -> None:
        """Remember what is on disk after each sync. Opening an archive was one."""
        for archive in archives:
            self._watch(archive)

    def _watch(self, archive: Archive) -> None:
        sync = archive.sync

        def noting() -> Offset:
            end = sync()
            self._synced_bytes = {path: path.stat().st_size for path in self._segments()}
            return end

        archive.sync = noting  # type: ignore[method-assign]
        noting()

    def lose(self) -> None:
        """Of the newest segment, after what was synced; one that was never synced may be empty."""
        for path in self._segments()[-1:]:
            size, synced = path.stat().st_size, self._synced_bytes.get(path, 0)
            if not (os.access(path, os.W_OK) and path.stat().st_mode & 0o200 and synced < size):
                continue
            if self._rng.random() < 0.5:
                os.truncate(path, self._rng.randint(synced, size))
            else:
                self._lose_sectors(path, synced, size)

    def _lose_sectors(self, path: Path, synced: int, size: int) -> None:
        with path.open("r+b") as file:
            for sector in range(synced // SECTOR_BYTES, -(-size // SECTOR_BYTES)):
                first, end = sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES
                if self._rng.random() < 0.5:
                    file.seek(max(first, synced))
                    file.write(bytes(min(end, size) - max(first, synced)))
                    self.sectors_lost += 1

    def forget(self) -> None:
        """The directory is gone."""
        self._synced_bytes.clear()

    def _segments(self) -> list[Path]:
        return sorted((self._directory / "archive").glob("*/*.log"))


def close_files(archive: Archive) -> None:
    """Let go of an archive's files as a dying process does: what is buffered is lost."""
    active = [archive._active] if archive._active is not None else []
    rolled, archive._rolled, archive._active = archive._rolled, [], None
    for file in (*rolled, *active):
        os.close(file.descriptor)
