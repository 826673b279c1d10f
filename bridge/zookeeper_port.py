"""The port through which the quorum uses ZooKeeper: an ensemble is plugged into it. Calls and their results.

Callbacks   each call returns at once; ``reply`` is called exactly once, later or now, on the loop's thread.
            The event loop never waits for ZooKeeper.
Reads       see every write that was acknowledged before the read was requested (the port syncs first).
Writes      are conditional on the znode's version. ``Conflict``, ``Refused`` and ``Unavailable`` are
            definite: not done, and never will be. ``Unknown`` may be done, not done, or be done later, for as
            long as the znode is at that version; what it holds afterwards proves nothing: a rival's bytes can
            be equal.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from fencepost.controller.migration import NO_BLOCK, ZOOKEEPER_BLOCK_LENGTH
from fencepost.controller.migration_phase import Intent
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import PRODUCER_ID_MAX

R = TypeVar("R")

REPLY_S_MAX: Final = 30.0  # an implementation tells within this time


class Fence(NamedTuple):
    """A fence of this program in the znode: whose it is, and what it took the place of."""

    cluster_id: str
    intent: Intent


class Znode(NamedTuple):
    """What the znode of the current block says. ``block_end``: the last id that ZooKeeper gave to anyone."""

    version: int
    block_end: int = NO_BLOCK  # inclusive; behind a fence it is what the fence says was there
    fence: Fence | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether Kafka's own loop gives up on it."""
        return self.fence is not None or self.block_end > PRODUCER_ID_MAX - ZOOKEEPER_BLOCK_LENGTH


class NoZnode(NamedTuple):
    """There is no such znode."""


class Unreadable(NamedTuple):
    """The znode holds what neither Kafka nor this program writes."""

    reason: str


class Unavailable(NamedTuple):
    """Nothing was read, nothing was changed: no connection, or no response in time. Asking again may help."""

    reason: str


class Refused(NamedTuple):
    """ZooKeeper answered no: no permission, no login. Nothing was read, nothing was changed."""

    reason: str


class Unnamed(NamedTuple):
    """There is no /cluster/id: no Kafka cluster keeps its znodes here. ``reason`` says where there is one."""

    name: str  # what is left to name it by: its servers
    reason: str


class Permission(NamedTuple):
    """What the znode's access list says about writing."""

    acl: str  # as ZooKeeper's shell shows it: world:anyone:cdrwa
    is_granted: bool | None  # to anyone; False: to no one; None: to some, perhaps to us


class Written(NamedTuple):
    """It is done; the znode is at ``version``."""

    version: int


class Conflict(NamedTuple):
    """It was not done: the znode was at another version, or gone; or, when creating, there already.

    ``seen`` is a look at the znode after that, if there was one: who writes again need not look first.
    """

    reason: str
    seen: Znode | None = None


class Unknown(NamedTuple):
    """The outcome is unknown: it may have been done, or be done yet."""

    reason: str


Seen: TypeAlias = Znode | NoZnode | Unreadable | Refused | Unavailable
Outcome: TypeAlias = Written | Conflict | Unknown | Refused | Unavailable
Named: TypeAlias = str | Unnamed | Unreadable | Refused | Unavailable
Registered: TypeAlias = tuple[int, ...] | Unavailable
Permitted: TypeAlias = Permission | Unavailable
Migrating: TypeAlias = bool | Refused | Unavailable


class ZookeeperPort(Protocol):
    """One ensemble. Calls may overlap; their requests are sent in the order of the calls."""

    def identity(self, reply: Callable[[Named], None]) -> None:
        """The ensemble's name, the same at every time and from every node; not empty."""

    def registered(self, reply: Callable[[Registered], None]) -> None:
        """Ids of the brokers below /brokers/ids, in order. At once Unavailable if there is no connection."""

    def permission(self, reply: Callable[[Permitted], None]) -> None:
        """Who may write the znode. At once Unavailable if there is no connection."""

    def kafka_migrates(self, reply: Callable[[Migrating], None]) -> None:
        """Whether Kafka's own migration to KRaft has its znode: it writes the block without a condition."""

    def read(self, reply: Callable[[Seen], None]) -> None:
        """The znode of the current block."""

    def create(self, reply: Callable[[Outcome], None]) -> None:
        """Make the znode, with no block in it."""

    def write_block(self, block: ProducerIdBlock, version: int, reply: Callable[[Outcome], None]) -> None:
        """Put ``block`` into the znode if it is at ``version``; the block's broker is -1, never a real one.

        A broker before Kafka 3.0 takes a failed write for its own if the znode then holds the very block, in
        its own name, that it meant to write.
        """

    def write_fence(self, fence: Fence, version: int, reply: Callable[[Outcome], None]) -> None:
        """Put the fence into the znode if it is at ``version``: the intent's, or that of the fence itself."""


class Hear(Protocol):
    """Makes a callback that is called in the place of another one."""

    def __call__(self, reply: Callable[[R], None], /) -> Callable[[R], None]:
        """The one to be called."""


class Relayed:
    """A port whose callbacks pass through ``hear``: it takes a ``reply`` and returns the one to be used."""

    def __init__(self, port: ZookeeperPort, hear: Hear) -> None:
        self._port = port
        self._hear = hear

    def identity(self, reply: Callable[[Named], None]) -> None:
        """Implements ``ZookeeperPort.identity``."""
        self._port.identity(self._hear(reply))

    def registered(self, reply: Callable[[Registered], None]) -> None:
        """Implements ``ZookeeperPort.registered``."""
        self._port.registered(self._hear(reply))

    def permission(self, reply: Callable[[Permitted], None]) -> None:
        """Implements ``ZookeeperPort.permission``."""
        self._port.permission(self._hear(reply))

    def kafka_migrates(self, reply: Callable[[Migrating], None]) -> None:
        """Implements ``ZookeeperPort.kafka_migrates``."""
        self._port.kafka_migrates(self._hear(reply))

    def read(self, reply: Callable[[Seen], None]) -> None:
        """Implements ``ZookeeperPort.read``."""
        self._port.read(self._hear(reply))

    def create(self, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.create``."""
        self._port.create(self._hear(reply))

    def write_block(self, block: ProducerIdBlock, version: int, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.write_block``."""
        self._port.write_block(block, version, self._hear(reply))

    def write_fence(self, fence: Fence, version: int, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.write_fence``."""
        self._port.write_fence(fence, version, self._hear(reply))
