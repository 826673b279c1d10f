"""The ZooKeeper of an upgrade as steps ask it: the answer is what is needed, or an ApiError says why not."""

from functools import partial
from typing import Final, TypeVar

from fencepost.bridge.steps import Call
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    NoZnode,
    Outcome,
    Seen,
    Unavailable,
    Unknown,
    Unreadable,
    Znode,
    ZookeeperPort,
)
from fencepost.controller.errors import CoordinatorLoadInProgress, InvalidRequest
from fencepost.controller.producer_ids import ProducerIdBlock

CREATE_TRIES_MAX: Final = 5

T = TypeVar("T")


class Ensemble:
    """What ``zookeeper.connect`` names, or nothing."""

    def __init__(self, port: ZookeeperPort | None) -> None:
        self._port = port

    @property
    def is_configured(self) -> bool:
        """Whether there is a port."""
        return self._port is not None

    @property
    def port(self) -> ZookeeperPort:
        """Raises InvalidRequest if there is none."""
        if self._port is None:
            raise InvalidRequest("zookeeper.connect is not set on the active controller")
        return self._port

    async def name(self) -> str:
        """The ensemble's name. Raises CoordinatorLoadInProgress, InvalidRequest."""
        name = await Call(self.port.identity)
        if isinstance(name, Unreadable):
            raise InvalidRequest(name.reason)
        return require_available(name)

    async def look(self) -> Znode:
        """The znode now. Raises as ``znode``."""
        return self.znode(await self.read())

    async def read(self) -> Seen:
        """What the znode holds. Raises InvalidRequest if no ensemble is configured."""
        return await Call(self.port.read)

    async def write_block(self, block: ProducerIdBlock, version: int) -> Outcome:
        """See ZookeeperPort."""
        call: Call[Outcome] = Call(partial(self.port.write_block, block, version))
        return await call

    async def write_fence(self, fence: Fence) -> Outcome:
        """See ZookeeperPort."""
        call: Call[Outcome] = Call(partial(self.port.write_fence, fence))
        return await call

    @staticmethod
    def znode(seen: Seen) -> Znode:
        """Raises InvalidRequest if it cannot be read, CoordinatorLoadInProgress if no server answers."""
        if isinstance(seen, NoZnode):
            raise InvalidRequest(
                "the znode /latest_producer_id_block is gone, and with it which ids brokers took themselves; "
                "bring it back, or run bridge again if no broker writes it itself"
            )
        if isinstance(seen, Unreadable):
            raise InvalidRequest(seen.reason)
        return require_available(seen)

    async def make_znode(self) -> None:
        """Make the znode, unless it is there. Raises CoordinatorLoadInProgress."""
        for _ in range(CREATE_TRIES_MAX):
            require_available(await Call(self.port.create))
            if not isinstance(await self.read(), NoZnode):
                return
        raise CoordinatorLoadInProgress("the znode /latest_producer_id_block could not be made; try again")


def require_available(answer: T | Unavailable) -> T:
    """Raises CoordinatorLoadInProgress if ZooKeeper was not reached."""
    if isinstance(answer, Unavailable):
        raise unavailable(answer)
    return answer


def unavailable(answer: Unavailable) -> CoordinatorLoadInProgress:
    """The refusal while ZooKeeper does not answer: clients retry it."""
    return CoordinatorLoadInProgress(f"ZooKeeper does not answer: {answer.reason}")


def not_written(outcome: Conflict | Unknown | Unavailable) -> Conflict | Unknown:
    """Raises CoordinatorLoadInProgress if ZooKeeper was not reached."""
    if isinstance(outcome, Unavailable):
        raise unavailable(outcome)
    return outcome


def seen_after(outcome: Outcome) -> Znode | None:
    """What a write that conflicted found there."""
    return outcome.seen if isinstance(outcome, Conflict) else None


def require_unfenced(znode: Znode) -> Znode:
    """The znode, if it holds no fence. Raises InvalidRequest."""
    if znode.fence is not None:
        raise InvalidRequest(
            f"ZooKeeper is fenced by fencepost cluster {znode.fence.cluster_id} since version {znode.version}"
        )
    return znode


def require_block(znode: Znode) -> Znode:
    """Raises InvalidRequest unless Kafka's own loop would go on from here."""
    require_unfenced(znode)
    if znode.is_exhausted:
        raise InvalidRequest(
            f"the block in ZooKeeper ends at {znode.block_end}, where all producer ids end, and no fence of "
            "this cluster explains it: there is nothing to go on from. Is it another program's fence?"
        )
    return znode
