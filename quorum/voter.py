"""The voter whose snapshots are taken, sent and installed: what those need of it."""

from typing import Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.controller.view import ImageHeader, View
from fencepost.quorum.archiver import Archiver
from fencepost.quorum.journal import Journal
from fencepost.quorum.messages import Message
from fencepost.quorum.raft_log import RaftLog
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.types import LogIndex, NodeId, Term
from fencepost.snapshots.store import Store


class Watch(Protocol):
    """What snapshots need of a ``fencepost.quorum.image_watch.ImageWatch``."""

    @property
    def is_bad(self) -> bool:
        """This node's image is not to be used."""

    def lacks(self, index: LogIndex) -> bool:
        """A snapshot of ``index`` is newer than the image, or takes the place of a bad one."""

    def differs(self, reason: str) -> None:
        """The image is not what this node wrote. Raises CorruptData if it is alone."""

    def distrust_snapshots(self) -> None:
        """Set the snapshots aside that may have been taken of a bad image."""


class Voter(Protocol):
    """What the quorum's parts need of a ``fencepost.quorum.replica.Replica``."""

    config: ReplicaConfig
    log: FilteringBoundLogger
    store: Store
    journal: Journal
    archiver: Archiver
    raft: RaftLog

    @property
    def watch(self) -> Watch:
        """Whether the image is bad."""

    @property
    def applied(self) -> tuple[LogIndex, Term]:
        """Raft index and term of the image."""

    @property
    def image(self) -> View:
        """The image, as of the applied index."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def flush(self) -> None:
        """Journal, image, applied and commit index to disk, in one transaction."""

    def answer(self, peer: NodeId, message: Message) -> None:
        """Send once the journal is flushed, in order with acks."""

    def installed(self, index: LogIndex, term: Term, header: ImageHeader, generation: int) -> None:
        """A snapshot's rows are in ``generation``: make it the image, the journal's and archive's start."""
