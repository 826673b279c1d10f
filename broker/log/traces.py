"""What partition logs of a stopped node know of ids, epochs, markers and open transactions.

Opened      each log is opened as a start opens it, and closed: a torn end is cut, and the newest producer
            snapshot has every producer that is known.
Read        every batch, checksums included: producers that expired have written, too.
Source      controller/restoring.py: what a restored image must lie behind.
"""

from pathlib import Path

from fencepost.broker.log.checkpoints import PARTITION_FILE
from fencepost.broker.log.cleaned_end import load_cleaned_end
from fencepost.broker.log.log_directory import LOCK_FILE, LogDirectory
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_snapshot import decode_producers, snapshot_path, snapshots_in
from fencepost.broker.log.shapes import NO_OFFSET, LogConfig
from fencepost.controller.restoring import Found
from fencepost.records.batch import decode_batch
from fencepost.records.end_marker import end_marker
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term
from fencepost.snapshots.reads import read_bytes
from fencepost.snapshots.segments import ArchiveReader, StoredBatch


class Traces:
    """Collects what logs hold; ``found`` says it."""

    def __init__(self) -> None:
        self.producer_id_end = ProducerId(0)
        self._epochs: dict[ProducerId, int] = {}
        self._opened: dict[ProducerId, dict[str, set[int]]] = {}
        self._last_versions: dict[ProducerId, ImageVersion] = {}
        self._marker_version = ImageVersion(0)
        self._coordinator_epoch = Term(0)
        self._leader_epochs: dict[tuple[str, int], Term] = {}
        self._log_ends = [0, 0, 0]

    def read_partitions(self, root: Path, now_ms: int) -> int:
        """Every partition log of a node's directory; how many there are.

        Raises   LogDirectoryInUse, DamagedLog, CorruptData, OSError.
        """
        folders = sorted(each.parent for each in root.glob(f"*/{PARTITION_FILE}"))
        if not folders and not (root / LOCK_FILE).exists():
            return 0  # no broker has been here
        lock = LogDirectory(root)
        try:
            for folder in folders:
                self._read_partition(folder, now_ms, machine_went_down=lock.machine_went_down)
        finally:
            lock.release()
        return len(folders)

    def archived(self, log: int, stored: StoredBatch) -> None:
        """A batch of a node's archive."""
        self._log_ends[log] = max(self._log_ends[log], stored.header.end)
        self._coordinator_epoch = max(self._coordinator_epoch, stored.header.leader_epoch)

    def allocated(self, end: ProducerId) -> None:
        """Ids below ``end`` were given out."""
        self.producer_id_end = max(self.producer_id_end, end)

    def found(self) -> Found:
        """All of it."""
        return Found(
            producer_id_end=self.producer_id_end,
            producer_epochs=self._epochs,
            opened={
                producer_id: tuple(
                    TopicPartitions(topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic)
                )
                for producer_id, by_topic in sorted(self._opened.items())
            },
            last_versions=self._last_versions,
            marker_version=self._marker_version,
            coordinator_epoch=self._coordinator_epoch,
            leader_epochs=self._leader_epochs,
            log_ends=(self._log_ends[0], self._log_ends[1], self._log_ends[2]),
        )

    def _read_partition(self, folder: Path, now_ms: int, *, machine_went_down: bool) -> None:
        log = PartitionLog.open(folder, LogConfig(), now_ms, machine_went_down=machine_went_down)
        end = log.end
        epoch = log.epoch_at(Offset(max(0, end - 1)))
        log.close()
        topic, _, index = folder.name.rpartition("-")
        self._leader_epochs[topic, int(index)] = max(Term(0), epoch)
        newest = max(snapshots_in(folder), default=None)
        table = {} if newest is None else decode_producers(read_bytes(snapshot_path(folder, newest)))
        for producer_id, state in sorted(table.items()):
            self._producer(producer_id, state.epoch)
            self._marker_version = max(self._marker_version, state.marker_version)
            self._coordinator_epoch = max(self._coordinator_epoch, Term(state.coordinator_epoch))
            if state.transaction_first != NO_OFFSET:
                self._opened.setdefault(producer_id, {}).setdefault(topic, set()).add(int(index))
                last = max(self._last_versions.get(producer_id, ImageVersion(0)), state.marker_version)
                self._last_versions[producer_id] = last
        for stored in ArchiveReader(folder, load_cleaned_end(folder), are_sums_read=False).read():
            self._producer(stored.header.producer_id, stored.header.producer_epoch)
            if stored.header.is_control and stored.header.record_count:
                marker = end_marker(decode_batch(stored.content)[0])
                if marker is not None:
                    self._marker_version = max(self._marker_version, marker.version)
                    self._coordinator_epoch = max(self._coordinator_epoch, Term(marker.coordinator_epoch))

    def _producer(self, producer_id: ProducerId, epoch: int) -> None:
        if producer_id >= 0:
            self.allocated(ProducerId(producer_id + 1))
            self._epochs[producer_id] = max(epoch, self._epochs.get(producer_id, 0))
