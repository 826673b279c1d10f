"""The scrub of a voter's archives: every sealed segment is compared with its sums, again and again.

As that of partition logs (broker/log_scrub.py): a round begins with the node, and ROUND_PAUSE_S after the one
before, in a thread of its own, at the same pace. Nothing else of the node takes part: sealed segments do not
change, and no answer depends on them. ``holes.json`` is read, too: its checksum is compared.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import ExitReason
from fencepost.broker.off_loop import off_loop
from fencepost.records.invariant import CorruptData
from fencepost.records.types import LOGS
from fencepost.snapshots.archive_scrub import HOLES_REMEDY, REMEDY, SUMS_REMEDY, scrub_segment
from fencepost.snapshots.scrub_pace import ScrubPace, ScrubStopped
from fencepost.snapshots.segments import archive_owner, list_segments, load_holes

ROUND_PAUSE_S: Final = 3600.0


class ArchiveScrub:
    """Of the archives below ``root``. To be made on the event loop."""

    def __init__(self, root: Path, cluster_id: str, *, log: FilteringBoundLogger) -> None:
        loop = asyncio.get_running_loop()
        self.fatal: asyncio.Future[ExitReason] = loop.create_future()  # never done
        self._running: asyncio.Task[None] | None = None
        self._root = root
        self._cluster_id = cluster_id
        self._log = log
        self._is_stopping = False

    async def start(self) -> None:
        """Begin the first round."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the round that is on."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    async def _run(self) -> None:
        while True:
            await self.scrub_once()
            await asyncio.sleep(ROUND_PAUSE_S)

    async def scrub_once(self) -> None:
        """One round over all that is there now."""
        segments, size = 0, 0
        pace = ScrubPace(lambda: not self._is_stopping)
        with ThreadPoolExecutor(1, "archive_scrub") as thread:
            for log in LOGS:
                owner = archive_owner(self._cluster_id, log)
                folder = self._root / log.directory
                try:
                    await off_loop(partial(load_holes, folder), thread, on_cancelled=self._stop)
                except (OSError, CorruptData) as error:
                    self._log.error("archive_damaged", reason=str(error), next=HOLES_REMEDY)
                for segment in list_segments(folder):
                    if not segment.sealed:
                        continue
                    work = partial(scrub_segment, segment, owner, pace, self._say)
                    try:
                        size += await off_loop(work, thread, on_cancelled=self._stop)
                        segments += 1
                    except (ScrubStopped, FileNotFoundError):
                        continue
                    except (OSError, CorruptData) as error:
                        self._log.error("archive_damaged", reason=str(error), next=REMEDY)
        self._log.info("archive_scrubbed", segments=segments, bytes=size)

    def _say(self, reason: str) -> None:
        self._log.warning("archive_sums_changed", reason=reason, next=SUMS_REMEDY)

    def _stop(self) -> None:
        self._is_stopping = True
