"""A bit of a small file of a log directory flips, and the broker starts: what its logs answer then.

Small files  those that say something of segments: where logs begin, up to where they were cleaned, whose they
             are, leader epochs, producers, checksums.
Outcomes     "harmless" nothing changed; "named" the same answers, and a word in the node's log; "offline" no
             answers of that log, all its segments kept; "WRONG" other answers, named or not.
Run          .venv/bin/python -m tests.broker.small_files prints the outcomes of each bit, by file.
"""

import asyncio
import random
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.broker.log.log_starts import LogStarts
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log_directories import LogDirectories
from fencepost.broker.partitions import Partitions
from fencepost.controller.errors import OffsetOutOfRange
from fencepost.records.invariant import CorruptData
from fencepost.records.types import BrokerId, NodeId, Offset, Term
from fencepost.settings.node_identity import Identity
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from tests.broker.fake_controller import CLUSTER_ID, captured_log
from tests.broker.log.builders import NOW_MS, batch
from tests.broker.log.sums import scrub
from tests.broker.log.test_cleaner import CONFIG as COMPACTED
from tests.broker.log.test_cleaner import clean
from tests.broker.log.test_cleaner import play as play_keyed

TOPICS: Final = {"orders": uuid.UUID(int=11 << 64 | 5), "cleaned": uuid.UUID(int=12 << 64 | 6)}
SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex")
DELETED_BEFORE: Final = 13  # of orders: within its first segment
BROKER: Final = BrokerId(1)
CONFIG: Final = LogConfig(verification=False, segment_bytes=1000, index_interval_bytes=100)


class Seen(NamedTuple):
    """What a start finds: by topic the answers, or why there are none; and what the node's log says."""

    answers: dict[str, Any]
    offline: dict[str, str]
    segments: dict[str, tuple[str, ...]]
    said: tuple[str, ...]


def made(home: Path) -> Path:
    """Two logs in a log directory, one with deleted records and several epochs, one that was cleaned."""
    orders = PartitionLog.open(home / "orders-0", CONFIG, NOW_MS, TOPICS["orders"])
    for number in range(60):
        epoch = Term(0 if number < 5 else 3 if number < 25 else 7)
        orders.append(batch(7, number * 2, count=2, timestamp_ms=NOW_MS + number), NOW_MS, epoch)
        if number % 20 == 0:
            orders.flush()
    orders.flush()
    orders.close()
    cleaned = PartitionLog.open(home / "cleaned-0", COMPACTED, NOW_MS, TOPICS["cleaned"])
    play_keyed(cleaned, 30)
    cleaned.flush()
    clean(cleaned)
    play_keyed(cleaned, 4)
    cleaned.flush()
    cleaned.close()
    asyncio.run(_look(home))
    starts = LogStarts(home)
    starts.load(("orders-0", "cleaned-0"))
    starts.raise_to({"orders-0": Offset(DELETED_BEFORE)})
    asyncio.run(_look(home))
    return home


def seen(home: Path) -> Seen:
    """Start a broker's logs there, twice: the first may put right what the second one finds."""
    first = asyncio.run(_look(home))
    second = asyncio.run(_look(home))
    if (first.answers, set(first.offline)) != (second.answers, set(second.offline)):
        return second._replace(said=(*first.said, "ANOTHER START ANSWERS OTHERWISE"))
    return first


async def _look(home: Path) -> Seen:
    log, logged = captured_log()
    identity = Identity(
        cluster_id=CLUSTER_ID, node_id=NodeId(1), directory_id=uuid.UUID(int=77), voter_id=uuid.UUID(int=77),
        initial_voters=None,
    )  # fmt: skip
    directories = LogDirectories((home,), home, identity, log)
    partitions = Partitions(directories, BROKER, CONFIG, clock_ms=lambda: NOW_MS, log=log)
    await partitions.recover()
    await partitions.host([_placed(name, topic_id) for name, topic_id in TOPICS.items()], may_make=True)
    await partitions.retire(frozenset(TOPICS.values()), partitions.generation)
    answers: dict[str, Any] = {}
    for each in partitions:
        each.log.retain(NOW_MS)
        try:
            scrub(each.log)
            answers[each.topic] = _answers(each.log)
        except (CorruptData, OSError) as error:
            partitions.fail(each, error, doing="scrub")
    reasons = {
        each["partition"].removesuffix("-0"): each["reason"]
        for each in logged.entries
        if each["event"] == "partition_offline"
    }
    offline = {name: reasons.get(name, "") for name in TOPICS if partitions.is_offline(name, 0)}
    await partitions.close()
    there = {name: tuple(_files(home / f"{name}-0")) for name in TOPICS}
    said = [f"{each['event']} {each.get('repairs', '')}" for each in logged.entries if _counts(each)]
    return Seen(answers, offline, there, tuple(said))


def _counts(entry: Any) -> bool:
    return entry["log_level"] in ("warning", "error")


def _placed(name: str, topic_id: uuid.UUID) -> TopicMetadata:
    placed = PartitionMetadata(partition_index=0, leader_id=1, leader_epoch=7, replica_nodes=(1,))
    return TopicMetadata(name=name, topic_id=topic_id, partitions=(placed,))


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.suffix == ".log":
            yield f"{path.name} {path.stat().st_size}"


def _answers(log: PartitionLog) -> Any:
    def read(offset: int) -> Any:
        try:
            return log.read_committed(Offset(offset), 500)
        except OffsetOutOfRange:
            return None

    return (
        log.start,
        log.end,
        log.last_stable_offset,
        log.producers(),
        [read(offset) for offset in range(log.end)],
        [log.epoch_at(Offset(offset)) for offset in range(log.start, log.end)],
        [log.offset_for_epoch(Term(epoch)) for epoch in range(9)],
        [log.offset_for_time(NOW_MS + number) for number in range(60)],
    )


def small_files(home: Path) -> list[Path]:
    """All but segments and their indexes, which are under checksums."""
    there = (path for path in sorted(home.rglob("*")) if path.is_file() and path.stat().st_size)
    return [path for path in there if path.suffix not in SEGMENTS]


def outcome(sound: Seen, found: Seen) -> str:
    """One of those above, and the reason."""
    for name in TOPICS:
        if found.segments[name] != sound.segments[name]:
            return f"WRONG: segments of {name} are gone"
        if name in found.offline:
            continue
        if found.answers.get(name) != sound.answers[name]:
            which = [
                n
                for n, (a, b) in enumerate(zip(found.answers[name], sound.answers[name], strict=True))
                if a != b
            ]
            return (
                f"WRONG: {name} answers otherwise {which}, {'; '.join(found.said) or 'and nothing is said'}"
            )
    if found.offline:
        return f"offline: {'; '.join(found.offline.values())}"
    if found.said != sound.said:
        return f"named: {'; '.join(each[:90] for each in found.said)}"
    return "harmless"


def flipped(home: Path, scratch: Path, file: Path, at: int, bit: int) -> Path:
    """A copy of a log directory in which a bit is another."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(home, scratch)
    target = scratch / file.relative_to(home)
    raw = bytearray(target.read_bytes())
    raw[at] ^= 1 << bit
    target.write_bytes(raw)
    return scratch


def main() -> int:
    """Every bit, or so many of each file, drawn."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10**9
    wrong = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        home = made(Path(name) / "home")
        scratch = Path(name) / "scratch"
        shutil.copytree(home, scratch)
        sound = seen(scratch)
        for file in small_files(home):
            bits = [(at, bit) for at in range(file.stat().st_size) for bit in range(8)]
            outcomes: Counter[str] = Counter()
            examples: dict[str, tuple[str, int, int]] = {}
            for at, bit in random.Random(1).sample(bits, min(len(bits), most)):
                what = outcome(sound, seen(flipped(home, scratch, file, at, bit)))
                key = what if what.startswith("WRONG") else what.partition(":")[0]
                outcomes[key[:150]] += 1
                examples.setdefault(key[:150], (what[:300], at, bit))
            wrong += sum(count for key, count in outcomes.items() if key.startswith("WRONG"))
            sys.stdout.write(f"{file.relative_to(home)}: {len(bits)} bits, {dict(outcomes)}\n")
            for what, at, bit in examples.values():
                sys.stdout.write(f"    byte {at} bit {bit}: {what}\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
