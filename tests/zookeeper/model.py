"""A model of one znode under conditional writes, and the port to it: for scripts and simulations.

The model is what ZooKeeper promises for a single znode: writes happen one after another, each if the version
is the one that it names. What a client learns of its write is another matter: the ports play with that.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.bridge.live_port import block_content, fence_content, seen
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    Migrating,
    Named,
    NoZnode,
    Outcome,
    Permission,
    Permitted,
    Refused,
    Registered,
    Seen,
    Unavailable,
    Unknown,
    Written,
    Znode,
)
from fencepost.controller.producer_ids import ProducerIdBlock
from tests.zookeeper.kafka_rule import kafkas_content, next_block_of_kafka


@dataclass(slots=True)
class ZnodeModel:
    """The znode ``/latest_producer_id_block``. ``writes`` is every content it ever had, by version."""

    exists: bool = True
    content: bytes | None = None
    version: int = 0
    writes: list[bytes | None] = field(default_factory=list)
    fenced: list[tuple[int, bytes | None]] = field(default_factory=list)  # version and content before a fence

    def set(self, content: bytes | None, version: int) -> Written | Conflict:
        """setData."""
        if not self.exists:
            return Conflict("NoNode")
        if version != self.version:
            return Conflict(f"BadVersion: {version}, it is at {self.version}")
        if content is not None and b"fencepost" in content:
            self.fenced.append((self.version, self.content))
        self.version += 1
        self.content = content
        self.writes.append(content)
        return Written(self.version)

    def create(self) -> Written | Conflict:
        """Create, without data."""
        if self.exists:
            return Conflict("NodeExists")
        self.exists, self.content, self.version = True, None, 0
        return Written(0)

    def look(self) -> Seen:
        """As the quorum sees it."""
        return seen(self.content, self.version) if self.exists else NoZnode()

    @property
    def block_end(self) -> int:
        """What the block in it says; -1 if there is none. A fence says where the ids end."""
        return -1 if self.content is None else int(json.loads(self.content)["block_end"])


def take_directly(model: ZnodeModel, broker: int = 100) -> tuple[int, int]:
    """A block by Kafka's loop, undisturbed. Raises KafkaExhausted."""
    first, last = next_block_of_kafka(model.content)
    assert isinstance(model.set(kafkas_content(broker, first, last), model.version), Written)
    return first, last


class ScriptedPort:
    """A port whose every answer a script can spoil. By default each call is done and told at once.

    ``spoil`` says what happens to the next writes, one word each:
      ``lost``         it is done, the answer is not heard
      ``dropped``      it is not done, the answer is not heard
      ``late``         as dropped, but ``land`` does it later, if the version still fits
      ``unavailable``  it is not sent
      ``refused``      the access list forbids it
      ``ok``           nothing
    ``before_write`` is called before each write is tried. With ``holding`` nothing is told until ``release``,
    without ``looks_after_conflict`` a conflict does not say what is there.
    """

    def __init__(self, model: ZnodeModel, name: str = "zk") -> None:
        self.model = model
        self.name: Named = name
        self.down = ""
        self.may_read = self.may_write = True
        self.brokers: tuple[int, ...] = ()
        self.migrates = False
        self.spoil: deque[str] = deque()
        self.before_write: Callable[[], object] = lambda: None
        self.holding = False
        self.looks_after_conflict = True
        self.reads = 0
        self.writes = 0
        self._held: list[tuple[Callable[[Any], None], Any]] = []
        self._late: list[tuple[bytes | None, int]] = []

    def identity(self, told: Callable[[Named], None]) -> None:
        self._tell(told, Unavailable(self.down) if self.down else self.name)

    def registered(self, told: Callable[[Registered], None]) -> None:
        self._tell(told, Unavailable(self.down) if self.down else self.brokers)

    def permission(self, told: Callable[[Permitted], None]) -> None:
        letters = "r" * self.may_read + "w" * self.may_write
        found = Permission(f"world:anyone:{letters}", self.may_write)
        self._tell(told, Unavailable(self.down) if self.down else found)

    def kafka_migrates(self, told: Callable[[Migrating], None]) -> None:
        self._tell(told, Unavailable(self.down) if self.down else self.migrates)

    def read(self, told: Callable[[Seen], None]) -> None:
        self.reads += 1
        self._tell(told, self._hindered() or self.model.look())

    def create(self, told: Callable[[Outcome], None]) -> None:
        self._tell(told, self._hindered() or self.model.create())

    def _hindered(self) -> Unavailable | Refused | None:
        if self.down:
            return Unavailable(self.down)
        return None if self.may_read else Refused("NoAuthError")

    def write_block(self, block: ProducerIdBlock, version: int, told: Callable[[Outcome], None]) -> None:
        self._write(block_content(block), version, told)

    def write_fence(self, fence: Fence, version: int, told: Callable[[Outcome], None]) -> None:
        self._write(fence_content(fence), version, told)

    def _write(self, content: bytes, version: int, told: Callable[[Outcome], None]) -> None:
        self.writes += 1
        self.before_write()
        how = "unavailable" if self.down else self.spoil.popleft() if self.spoil else "ok"
        how = how if self.may_write else "refused"
        outcome: Outcome = Unknown("the connection was lost")
        if how in ("ok", "lost"):
            done = self.model.set(content, version)
            if isinstance(done, Conflict) and self.looks_after_conflict:
                found = self.model.look()
                done = Conflict(done.reason, found if isinstance(found, Znode) else None)
            outcome = done if how == "ok" else outcome
        elif how == "late":
            self._late.append((content, version))
        elif how == "unavailable":
            outcome = Unavailable(self.down or "not connected")
        elif how == "refused":
            outcome = Refused("/latest_producer_id_block may not be written: NoAuthError")
        self._tell(told, outcome)

    def land(self) -> list[Written | Conflict]:
        """Late writes get to the server."""
        late, self._late = self._late, []
        return [self.model.set(content, version) for content, version in late]

    def release(self) -> None:
        """Tell what was held, and hold no more."""
        self.holding = False
        held, self._held = self._held, []
        for told, answer in held:
            told(answer)

    def _tell(self, told: Callable[[Any], None], answer: Any) -> None:
        if self.holding:
            self._held.append((told, answer))
        else:
            told(answer)


def znode(model: ZnodeModel) -> Znode:
    """What is in it, which can be read."""
    found = model.look()
    assert isinstance(found, Znode), found
    return found
