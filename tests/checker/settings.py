"""What a run is made of, and how its processes are given their part: as JSON, in their command line."""

import json
import random
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

OUTPUT: Final = "checker-output"
CLIENT: Final[dict[str, Any]] = {
    # By default it may wait ten seconds before it connects again to a broker that was killed and is back.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 5_000,
    "log_level": 0,
}
CALL_SECONDS: Final = 5.0
CALLS_MAX: Final = 20
READ_SECONDS_MAX: Final = 60.0
TRANSACTION_TIMEOUT_MS: Final = 10_000
WANTED: Final = {signal.SIGUSR1: signal.SIGSTOP, signal.SIGUSR2: signal.SIGKILL}
"""What a process does to itself at a point of its next transaction, by the signal that it is sent."""

POINTS: Final = 5
RUN_LENGTH: Final = 8  # inputs of a partition whose outputs go to one partition, then to the next
CONFLUENT, FENCEPOST, GROUP_AWARE, MIXED = "confluent", "fencepost", "group-aware", "mixed"
CLIENTS: Final = {
    CONFLUENT: "application",
    FENCEPOST: "asyncio_application",
    GROUP_AWARE: "asyncio_application",
}
"""The module of an application, by its client."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of one process. ``partitions`` are the input's: of the whole group, or its own without a group."""

    bootstrap: str
    folder: str  # of the history
    name: str  # of the process; no other one has it, before or after
    seed: int
    partitions: list[tuple[str, int]]
    output_partitions: int
    group: str | None = None
    transactional_id: str | None = None
    instance_id: str | None = None  # of a static member
    session_ms: int = 6_000
    strategy: str = "range"
    batch_max: int = 10
    abort_rate: float = 0.05
    records_per_second: float = 100.0
    plant: str | None = None
    client: str = CONFLUENT

    @classmethod
    def of_command_line(cls) -> Self:
        return cls(**json.loads(sys.argv[1]))

    def command(self, module: str) -> list[str]:
        """Runs ``tests.checker.MODULE`` with it."""
        warnings = ("-W", "ignore")
        return [sys.executable, *warnings, "-m", f"tests.checker.{module}", json.dumps(asdict(self))]

    @property
    def random(self) -> random.Random:
        return random.Random(self.seed)

    @property
    def path(self) -> Path:
        return Path(self.folder)


def until_terminated() -> threading.Event:
    """Set by SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    return ended
