"""Ways out: what an operator can do in each phase when something is in the way. Pure.

Exit        every phase but the last has a way on and a way back; what hinders both names what removes it.
By hand     where the block in ZooKeeper is lost, the operator puts one back: above all that the log knows,
            and above what brokers took themselves, which the log cannot know while ZooKeeper is not fenced.
"""

import enum
from typing import Final

from fencepost.bridge.znodes import BLOCK_PATH, ON_BEHALF, ZnodeBlock, format_block
from fencepost.controller.errors import InvalidRequest
from fencepost.controller.migration_phase import NEXT_COMMAND, THROUGH_ZOOKEEPER, Phase
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import ProducerId

COMMAND: Final = "fencepost migrate"
FROM_STOPPED: Final = f"{COMMAND} import --from files DATADIR.. --zookeeper-is-stopped"
CONNECT: Final = "correct zookeeper.connect on every controller and restart them"
FINALIZE_STOPPED: Final = f"{COMMAND} finalize --zookeeper-is-stopped"


class Obstacle(enum.Enum):
    """What is in the way."""

    NOT_CONFIGURED = enum.auto()  # no zookeeper.connect on the active controller
    ELSEWHERE = enum.auto()  # another ensemble, or a chroot without a Kafka cluster
    DOWN = enum.auto()  # ZooKeeper does not answer
    FORBIDDEN = enum.auto()  # it refuses to be read or written
    NO_BLOCK = enum.auto()  # there never was a block, or it is in another chroot
    GONE = enum.auto()  # the znode is not there
    UNREADABLE = enum.auto()  # it holds what explains nothing
    OTHERS_FENCE = enum.auto()  # another fencepost cluster has fenced it
    KAFKA_MIGRATES = enum.auto()  # Kafka's own migration to KRaft is under way, or was left behind
    UNFENCED = enum.auto()  # the quorum allocates, and its fence is not there
    ANSWERS = enum.auto()  # ZooKeeper was said to be stopped


class Obstructed(InvalidRequest):
    """A refusal that an operator can do something about."""

    def __init__(self, obstacle: Obstacle, reason: str) -> None:
        super().__init__(reason)
        self.obstacle = obstacle


def ways(phase: Phase, obstacle: Obstacle | None, block: ProducerIdBlock) -> tuple[str, ...]:
    """What to do, the way on first. ``block``: what ZooKeeper would be handed back.

    Each is ``what removes the obstacle, then: COMMAND``, without the first part if nothing is in the way.
    """
    if phase in (Phase.NONE, Phase.FINALIZED):
        return ()
    on, back = f"{COMMAND} {NEXT_COMMAND[phase]}", _back(phase)
    if obstacle is None:
        return (on,) if on == back else (on, back)
    if obstacle is Obstacle.UNFENCED:
        return (f"stop the brokers that wrote it, {_then('rollback', 'import', 'fence')}",)
    if obstacle is Obstacle.ANSWERS:
        return (
            f"stop its servers, {_then('finalize')}",
            f"if brokers are to go on with it, {_then('rollback', 'import', 'fence')}",
        )
    removed = _removed(phase, obstacle, block)
    if obstacle is Obstacle.NO_BLOCK or (obstacle is Obstacle.GONE and phase is Phase.WAITING):
        never = f"if this Kafka cluster never gave out a producer id, then: {on} --no-block-yet"
        return (never, f"{CONNECT}, then: {on}", f"{removed}, then: {on}", back)
    if phase is Phase.QUORUM and obstacle in (Obstacle.GONE, Obstacle.UNREADABLE, Obstacle.OTHERS_FENCE):
        return (f"{removed}, {_then('rollback', 'import', 'fence')}",)
    goes_back_freely = phase in (Phase.WAITING, *THROUGH_ZOOKEEPER)  # nothing in ZooKeeper is to be undone
    found = [f"{removed}, then: {on}"]
    if obstacle in (Obstacle.DOWN, Obstacle.FORBIDDEN, Obstacle.NOT_CONFIGURED):
        stopped = FINALIZE_STOPPED if phase is Phase.QUORUM else FROM_STOPPED
        found.append(f"if ZooKeeper is stopped for good, then: {stopped}")
    elif phase is Phase.QUORUM:  # another ensemble answers
        found.append(
            "if the upgrade's ZooKeeper is stopped for good: take zookeeper.connect from every controller "
            f"and restart them, then: {FINALIZE_STOPPED}"
        )
    if goes_back_freely:
        found.append(back)
    elif on != back:
        found.append(f"{removed}, then: {back}")
    return tuple(found)


def _removed(phase: Phase, obstacle: Obstacle, block: ProducerIdBlock) -> str:
    """What removes the obstacle."""
    if obstacle is Obstacle.DOWN:
        return "start ZooKeeper's servers"
    if obstacle is Obstacle.FORBIDDEN:
        return (
            f"let this login read /cluster/id, and read and write {BLOCK_PATH} (setAcl in ZooKeeper's shell)"
        )
    if obstacle in (Obstacle.NOT_CONFIGURED, Obstacle.ELSEWHERE):
        return CONNECT
    if obstacle is Obstacle.KAFKA_MIGRATES:
        return "end Kafka's migration to KRaft, or roll it back, and delete /migration"
    if obstacle is Obstacle.OTHERS_FENCE:
        return f"in the cluster that fenced it: {COMMAND} rollback"
    return _put_back(phase, obstacle, block)


def _then(*commands: str) -> str:
    return ", ".join(f"then: {COMMAND} {each}" for each in commands)


def _back(phase: Phase) -> str:
    if phase in (Phase.WAITING, Phase.BRIDGE):
        return "back: stop these controllers; nothing in ZooKeeper is to be undone"
    return f"{COMMAND} rollback"


def _put_back(phase: Phase, obstacle: Obstacle, block: ProducerIdBlock) -> str:
    verb = "create" if obstacle is Obstacle.GONE else "set"
    last = ProducerId(block.first + block.length - 1)
    if phase in (Phase.QUORUM, Phase.ROLLING_BACK):  # no broker can take a block from behind the fence
        content = format_block(ZnodeBlock(ON_BEHALF, block.first, last)).decode()
        return f"put a block back in ZooKeeper's shell: {verb} {BLOCK_PATH} '{content}'"
    return (
        f"put the last block back in ZooKeeper's shell ({verb} {BLOCK_PATH}): its block_end at or above "
        f"every id that a broker has. The log knows of ids up to {last}; {COMMAND} preflight "
        "--log-dir DIR shows those in Kafka's logs, and each running broker may have two blocks more"
    )
