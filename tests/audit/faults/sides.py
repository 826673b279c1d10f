"""Faults of the files beside a log: Kafka's transaction index, producer snapshots, epochs and checkpoints."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from crc32c import crc32c

from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.tree import ABORTED, Log, write_anew

PRODUCER: Final = struct.Struct(
    ">qhiqiqiq"
)  # id, epoch, last sequence and offset, delta, time, epoch, open from
_SNAPSHOT: Final = struct.Struct(">hIi")  # version, CRC of what follows it, count
_WROTE_MS: Final = 5  # of PRODUCER
NOT_CLEAN: Final = (
    "its broker did not end cleanly: where records are deleted, this file is cut before the checkpoint of log"
    " starts is written"
)
Change = Callable[[Ground, bytes], bytes]


def changed(pattern: str, change: Change, check: str, rules: set[str], what: str) -> Plant:
    """A file beside a log of a user's partition says something else than the log."""

    def plant(ground: Ground) -> Planted:
        for log in _logs(ground):
            for file in sorted(log.folder.glob(pattern)):
                try:
                    wanted = change(ground, file.read_bytes())
                except NoPlace:
                    continue
                write_anew(file, wanted)
                ground.take(log=log, in_each=False)
                said = f"node {log.node}, {log.topic}-{log.partition}/{file.name}: {what}"
                return Planted(check=check, rules=frozenset(rules), entries=(), said=said, files=(file,))
        raise NoPlace

    return plant


def _logs(ground: Ground) -> list[Log]:
    """Each copy of each user's partition that is whole, in an order by chance."""
    whole = [(each.topic, each.partition) for each in ground.partitions()]
    found = [log for log in ground.tree.logs if (log.topic, log.partition) in whole and log.entries]
    ground.random.shuffle(found)
    return found


def _entries(content: bytes, size: int) -> list[bytes]:
    found = [content[at : at + size] for at in range(0, len(content), size)]
    if not found:
        raise NoPlace
    return found


def _index_lost(ground: Ground, content: bytes) -> bytes:
    found = _entries(content, ABORTED.size)
    found.pop(ground.random.randrange(len(found)))
    return b"".join(found)


def _index_made_up(ground: Ground, content: bytes) -> bytes:
    found = _entries(content, ABORTED.size)
    values = [*ABORTED.unpack(found[-1])]
    values[1] += 1
    return content + ABORTED.pack(*values)


def _index_moved(ground: Ground, content: bytes) -> bytes:
    found = _entries(content, ABORTED.size)
    at = ground.random.randrange(len(found))
    values = [*ABORTED.unpack(found[at])]
    values[3] += 1
    found[at] = ABORTED.pack(*values)
    return b"".join(found)


def _producers(content: bytes) -> list[bytes]:
    if len(content) < _SNAPSHOT.size or _SNAPSHOT.unpack_from(content)[0] != 1:
        raise NoPlace
    count = _SNAPSHOT.unpack_from(content)[2]
    return _entries(content[_SNAPSHOT.size : _SNAPSHOT.size + count * PRODUCER.size], PRODUCER.size)


def _snapshot(producers: list[bytes]) -> bytes:
    """As Kafka writes it: what fencepost remembers behind it is left out."""
    body = struct.pack(">i", len(producers)) + b"".join(producers)
    return struct.pack(">hI", 1, crc32c(body)) + body


def _snapshot_changed(index: int, by: int) -> Change:
    def change(ground: Ground, content: bytes) -> bytes:
        producers = _producers(content)
        at = ground.random.randrange(len(producers))
        values = [*PRODUCER.unpack(producers[at])]
        if values[2] < 0:  # no data is left of it
            raise NoPlace
        values[index] += by
        producers[at] = PRODUCER.pack(*values)
        return _snapshot(producers)

    return change


def _snapshot_lost(ground: Ground, content: bytes) -> bytes:
    """Not the one that wrote longest ago: a broker may have forgotten it."""
    producers = _producers(content)
    states = [PRODUCER.unpack(each) for each in producers]
    oldest_ms = min((state[_WROTE_MS] for state in states if state[-1] < 0), default=None)
    if oldest_ms is None:
        raise NoPlace
    lost = ground.choose(at for at, state in enumerate(states) if state[_WROTE_MS] > oldest_ms)
    producers.pop(lost)
    return _snapshot(producers)


def _bit(first: int) -> Change:
    def change(ground: Ground, content: bytes) -> bytes:
        if len(content) <= first:
            raise NoPlace
        raw = bytearray(content)
        raw[ground.random.randrange(first, len(raw))] ^= 1 << ground.random.randrange(8)
        return bytes(raw)

    return change


def epoch_moved(ground: Ground) -> Planted:
    """A leader epoch begins later, by the file, than its first batch."""
    for log in _logs(ground):
        file = log.folder / "leader-epoch-checkpoint"
        if not file.exists():
            continue
        version, count, *lines = file.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            epoch, start = map(int, line.split())
            first = log.find(start)
            if first is not None and first.header.leader_epoch == epoch:
                lines[number] = f"{epoch} {first.header.end}"
                write_anew(file, "".join(f"{each}\n" for each in (version, count, *lines)).encode())
                ground.take(log=log, in_each=False)
                said = f"node {log.node}, {log.topic}-{log.partition}/{file.name}: epoch {epoch} begins later"
                is_clean = (log.folder.parent / ".kafka_cleanshutdown").exists()
                return Planted(
                    check="integrity", rules=frozenset(_EPOCHS), entries=(first,), said=said, files=(file,),
                    unknown="" if number or is_clean else NOT_CLEAN,
                )  # fmt: skip
    raise NoPlace


def _epochs_back(ground: Ground, content: bytes) -> bytes:
    version, count, *lines = content.decode().splitlines()
    if len(lines) < 2:
        raise NoPlace
    (first, start), (second, later) = lines[-2].split(), lines[-1].split()
    lines[-2:] = [f"{second} {start}", f"{first} {later}"]
    return "".join(f"{line}\n" for line in (version, count, *lines)).encode()


def _noise(ground: Ground, content: bytes) -> bytes:
    if not content:
        raise NoPlace
    return b"\x00\xff not a checkpoint\n"


def node_id(ground: Ground) -> Planted:
    """A directory says that it is another node's."""
    files = sorted(ground.tree.root.rglob("meta.properties"))
    nodes = {file: _node_of(file) for file in files}
    file = ground.choose(files)
    others = sorted({each for each in nodes.values() if each != nodes[file]})
    other = ground.choose(others)
    text = file.read_text("utf-8").replace(f"node.id={nodes[file]}", f"node.id={other}")
    write_anew(file, text.encode())
    said = f"{file.parent.name}/{file.name} says node {other}, it is node {nodes[file]}'s"
    rules = frozenset({"node", "replicas.node", "two_copies"})
    return Planted(check="integrity", rules=rules, entries=(), said=said, files=(file, file.parent))


def watermark(ground: Ground) -> Planted:
    """The checkpoint of high watermarks cannot be read."""
    file = ground.choose(sorted(ground.tree.root.rglob("replication-offset-checkpoint")))
    write_anew(file, b"0\nmany\n")
    said = f"{file.parent.name}/{file.name} is no checkpoint"
    return Planted(
        check="integrity", rules=frozenset({"side_file"}), entries=(), said=said,
        files=(file,),
    )  # fmt: skip


def topic_id(ground: Ground) -> Planted:
    """A partition's directory says that it is of a topic of another id."""
    log = ground.choose(
        each
        for each in ground.tree.logs
        if (each.folder / "partition.metadata").exists() and ground.is_free(each)
    )
    file = log.folder / "partition.metadata"
    write_anew(file, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    said = f"node {log.node}, {log.topic}-{log.partition}/{file.name} says another topic id"
    ground.take(log=log, in_each=False)
    rules = frozenset({"topic_id", "replicas.topic_id"})
    return Planted(check="integrity", rules=rules, entries=(), said=said, files=(file, log.folder))


def _node_of(file: Path) -> str:
    lines = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines() if "=" in line)
    return lines.get("node.id", lines.get("broker.id", "-1"))


_SIDE: Final = {"side_file"}
_INDEX: Final = {"index"}
_PRODUCERS: Final = {"snapshot"}
_EPOCHS: Final = {"leader_epochs"}
SIDES: dict[str, dict[str, Plant]] = {
    "transaction index": {
        "entry lost": changed("*.txnindex", _index_lost, "integrity", _INDEX, "lacks an aborted transaction"),
        "entry made up": changed(
            "*.txnindex", _index_made_up, "integrity", _SIDE, "has one of another producer"
        ),
        "end moved": changed(
            "*.txnindex", _index_moved, "integrity", _INDEX | _SIDE, "one ends an offset later"
        ),
        "cut": changed(
            "*.txnindex", lambda _, raw: raw[:-5], "integrity", _INDEX | _SIDE, "ends within an entry"
        ),
    },
    "producer snapshot": {
        "bit": changed("*.snapshot", _bit(2), "integrity", _SIDE, "a bit is another"),
        "epoch": changed(
            "*.snapshot", _snapshot_changed(1, 1), "integrity", _PRODUCERS, "an epoch is one above"
        ),
        "sequence": changed(
            "*.snapshot", _snapshot_changed(2, -1), "integrity", _PRODUCERS, "a sequence is one below"
        ),
        "producer lost": changed(
            "*.snapshot", _snapshot_lost, "integrity", _PRODUCERS, "a producer is not in it"
        ),
    },
    "leader epochs": {
        "start moved": epoch_moved,
        "back": changed(
            "leader-epoch-checkpoint", _epochs_back, "integrity", _EPOCHS | _SIDE, "epochs go back"
        ),
        "noise": changed("leader-epoch-checkpoint", _noise, "integrity", _EPOCHS | _SIDE, "cannot be read"),
    },
    "checkpoint": {"watermarks": watermark},
    "node id": {"another node's": node_id},
    "topic id": {"another": topic_id},
}
