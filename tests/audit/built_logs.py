"""Log directories of a few batches, written byte by byte as Kafka and fencepost lay them out."""

from pathlib import Path

from fencepost.audit.decode.transactions import STATES
from fencepost.records.batch import encode_batch
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.transaction_log import (
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
    encode_transaction,
)
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term

NOW_MS = 1_763_600_000_000
BILLING = 42


class Built:
    """One copy of a partition's log in ``root/TOPIC-PARTITION``; each call appends a batch of one record."""

    def __init__(self, root: Path, topic: str = "orders", partition: int = 0) -> None:
        self.root, self.topic, self.partition = root, topic, partition
        self.folder = root / f"{topic}-{partition}"
        self.folder.mkdir(parents=True)
        self.end = 0
        self.path = self.folder / f"{0:020}.log"
        self.path.touch()

    def _append(self, content: bytes, offset: int) -> "Built":
        with self.path.open("ab") as file:
            file.write(content)
        self.end = offset + 1
        return self

    def roll(self) -> "Built":
        """The next batch begins a segment."""
        self.path = self.folder / f"{self.end:020}.log"
        self.path.touch()
        return self

    def skip(self, offsets: int) -> "Built":
        """So many offsets are missing."""
        self.end += offsets
        return self

    def data(
        self, producer_id: int = BILLING, epoch: int = 0, *, transactional: bool = True, sequence: int = 0
    ) -> "Built":
        """A record of a producer."""
        content = encode_batch(
            [(None, b"value", ())], timestamp_ms=NOW_MS, base_offset=self.end, producer_id=producer_id,
            producer_epoch=epoch, base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        return self._append(content, self.end)

    def marker(self, producer_id: int = BILLING, epoch: int = 0, *, committed: bool = True) -> "Built":
        """A transaction's end."""
        end = EndMarker(
            producer_id=ProducerId(producer_id), producer_epoch=epoch, committed=committed,
            coordinator_epoch=1, version=ImageVersion(0),
        )  # fmt: skip
        return self._append(
            encode_end_marker(end, base_offset=Offset(self.end), leader_epoch=Term(0), now_ms=NOW_MS),
            self.end,
        )

    def state(
        self,
        name: str,
        state: str = "Ongoing",
        producer_id: int = BILLING,
        *,
        epoch: int = 0,
        partitions: tuple[TopicPartitions, ...] = (TopicPartitions("orders", (0,)),),
        timeout_ms: int = 60_000,
        updated_ms: int = NOW_MS,
    ) -> "Built":
        """A record of a coordinator."""
        record = TransactionStateRecord(
            transactional_id=name, producer_id=ProducerId(producer_id), producer_epoch=epoch,
            transaction_timeout_ms=timeout_ms, status=STATES.index(state), updated_ms=updated_ms,
            started_ms=NOW_MS, partitions=partitions if state not in {"Empty", "CompleteCommit"} else (),
        )  # fmt: skip
        return self._record(*encode_transaction(record))

    def forgotten(self, name: str) -> "Built":
        """A coordinator's tombstone."""
        return self._record(*encode_transaction(TransactionForgotten(transactional_id=name)))

    def _record(self, key: bytes, value: bytes | None) -> "Built":
        content = encode_batch([(key, value, ())], timestamp_ms=NOW_MS, base_offset=self.end)
        return self._append(content, self.end)

    def garbage(self, size: int = 90) -> "Built":
        """Bytes that are no batch."""
        with self.path.open("ab") as file:
            file.write(b"\xff" * size)
        return self

    def checkpoint(self, name: str, offset: int) -> "Built":
        """One of the files of Kafka's beside the partitions."""
        (self.root / name).write_text(f"0\n1\n{self.topic} {self.partition} {offset}\n", "utf-8")
        return self

    def stopped(self) -> "Built":
        """Its broker has ended cleanly."""
        (self.root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}', "utf-8")
        return self
