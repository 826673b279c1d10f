"""Further faults of the files beside a log, and of what a directory says of itself."""

import re
from typing import Final

from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.sides import PRODUCER, Change, _entries, _logs, _producers, _snapshot, changed
from tests.audit.faults.tree import ABORTED, Log, write_anew

FAR: Final = 50
ANOTHER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_PRODUCER, _LAST, _STABLE = 1, 3, 4  # of ABORTED
CRASHED: Final = (
    "its broker did not end cleanly: after a crash of its machine a log may be shorter than what lies"
    " beside it"
)


def _index_field(field: int, by: int) -> Change:
    def change(ground: Ground, content: bytes) -> bytes:
        found = _entries(content, ABORTED.size)
        at = ground.random.randrange(len(found))
        values = [*ABORTED.unpack(found[at])]
        values[field] += by
        found[at] = ABORTED.pack(*values)
        return b"".join(found)

    return change


def _stable_above(ground: Ground, content: bytes) -> bytes:
    """As if no transaction had been open beside it: a reader takes what comes after it for complete."""
    found = _entries(content, ABORTED.size)
    values = [[*ABORTED.unpack(each)] for each in found]
    at = ground.choose(at for at, each in enumerate(values) if each[_STABLE] <= each[_LAST])
    values[at][_STABLE] = values[at][_LAST] + 1
    found[at] = ABORTED.pack(*values[at])
    return b"".join(found)


def stable_beyond(ground: Ground) -> Planted:
    """A last stable offset lies beyond the end of the log; of a broker that ran it might be right."""
    for log in _logs(ground):
        if not (log.folder.parent / ".kafka_cleanshutdown").exists():
            continue
        for file in sorted(log.folder.glob("*.txnindex")):
            if not file.stat().st_size:
                continue
            found = _entries(file.read_bytes(), ABORTED.size)
            at = ground.random.randrange(len(found))
            values = [*ABORTED.unpack(found[at])]
            values[_STABLE] = log.end + FAR
            found[at] = ABORTED.pack(*values)
            write_anew(file, b"".join(found))
            ground.take(log=log, in_each=False)
            said = f"node {log.node}, {log.topic}-{log.partition}/{file.name}: stable {FAR} behind the end"
            return Planted(
                check="integrity", rules=frozenset({"index"}), entries=(), said=said, files=(file,),
                producer_id=values[_PRODUCER],
            )  # fmt: skip
    raise NoPlace


def _index_doubled(ground: Ground, content: bytes) -> bytes:
    found = _entries(content, ABORTED.size)
    return content + found[-1]


def _open_lost(ground: Ground, content: bytes) -> bytes:
    producers = _producers(content)
    states = [[*PRODUCER.unpack(each)] for each in producers]
    at = ground.choose(at for at, state in enumerate(states) if state[-1] >= 0)
    states[at][-1] = -1
    producers[at] = PRODUCER.pack(*states[at])
    return _snapshot(producers)


def _snapshot_field(field: int, by: int) -> Change:
    def change(ground: Ground, content: bytes) -> bytes:
        producers = _producers(content)
        states = [[*PRODUCER.unpack(each)] for each in producers]
        at = ground.choose(at for at, state in enumerate(states) if state[2] >= 0)
        states[at][field] += by
        producers[at] = PRODUCER.pack(*states[at])
        return _snapshot(producers)

    return change


def _snapshot_twice(ground: Ground, content: bytes) -> bytes:
    producers = _producers(content)
    return _snapshot([*producers, producers[-1]])


def snapshot_of_another(ground: Ground) -> Planted:
    """A producer snapshot is that of an earlier offset, under the name of a later one."""
    for log in _logs(ground):
        files = sorted(log.folder.glob("*.snapshot"))
        for one, other in zip(files, files[2:], strict=False):
            mine, theirs = one.read_bytes(), other.read_bytes()
            try:
                known = {PRODUCER.unpack(e)[0]: PRODUCER.unpack(e)[1:4] for e in _producers(theirs)}
                before = {PRODUCER.unpack(e)[0]: PRODUCER.unpack(e)[1:4] for e in _producers(mine)}
            except NoPlace:
                continue
            if len(_producers(mine)) != 1 and before != known and set(before) == set(known):
                write_anew(other, mine)
                ground.take(log=log, in_each=False)
                said = f"node {log.node}, {log.topic}-{log.partition}/{other.name}: it is that of {one.name}"
                return Planted(
                    check="integrity", rules=frozenset({"snapshot"}), entries=(), said=said, files=(other,)
                )
    raise NoPlace


def _line_lost(ground: Ground, content: bytes) -> bytes:
    version, _, *lines = content.decode().splitlines()
    if len(lines) < 3:
        raise NoPlace
    lines.pop(ground.random.randrange(1, len(lines) - 1))
    return "".join(f"{line}\n" for line in (version, str(len(lines)), *lines)).encode()


def epoch_beyond(ground: Ground) -> Planted:
    """A leader epoch begins, by the file, beyond the end of the log."""
    for log in _logs(ground):
        file = log.folder / "leader-epoch-checkpoint"
        if not file.exists():
            continue
        version, _, *lines = file.read_text("utf-8").splitlines()
        lines.append(f"{log.last_epoch + 1} {log.end + FAR}")
        write_anew(file, "".join(f"{line}\n" for line in (version, str(len(lines)), *lines)).encode())
        ground.take(log=log, in_each=False)
        said = (
            f"node {log.node}, {log.topic}-{log.partition}/{file.name}: an epoch begins {FAR} behind the end"
        )
        return Planted(
            check="integrity",
            rules=frozenset({"leader_epochs"}),
            entries=(),
            said=said,
            files=(file,),
            unknown=_crashed(log),
        )
    raise NoPlace


def start_beyond(ground: Ground) -> Planted:
    """The checkpoint of log starts names an offset beyond the end of its log."""
    for log in _logs(ground):
        file = log.folder.parent / "log-start-offset-checkpoint"
        if not file.exists():
            continue
        version, _, *lines = file.read_text("utf-8").splitlines()
        name = f"{log.topic} {log.partition} "
        lines = [line for line in lines if not line.startswith(name)] + [f"{name}{log.end + FAR}"]
        write_anew(file, "".join(f"{line}\n" for line in (version, str(len(lines)), *lines)).encode())
        ground.take(log=log, in_each=False)
        said = f"node {log.node}: {file.name} begins {log.topic}-{log.partition} {FAR} behind its end"
        return Planted(
            check="replicas",
            rules=frozenset({"short", "start"}),
            entries=(),
            said=said,
            files=(file, log.folder),
            unknown=_crashed(log),
        )
    raise NoPlace


def _crashed(log: Log) -> str:
    return "" if (log.folder.parent / ".kafka_cleanshutdown").exists() else CRASHED


def other_cluster(ground: Ground) -> Planted:
    """A directory says that it is another cluster's."""
    files = sorted(ground.tree.root.rglob("meta.properties"))
    if len(files) < 2:
        raise NoPlace
    file = ground.choose(files)
    text, changed_lines = re.subn(r"(?m)^cluster\.id=.*$", f"cluster.id={ANOTHER}", file.read_text("utf-8"))
    if not changed_lines:
        raise NoPlace
    write_anew(file, text.encode())
    said = f"{file.parent.name}/{file.name} says another cluster"
    return Planted(
        check="integrity", rules=frozenset({"cluster"}), entries=(), said=said, files=(file, file.parent)
    )


SIDE_ENTRIES: dict[str, dict[str, Plant]] = {
    "transaction index": {
        "begins later": changed(
            "*.txnindex",
            _index_field(2, 1),
            "integrity",
            {"index", "side_file"},
            "one begins an offset later",
        ),
        "another producer": changed(
            "*.txnindex", _index_field(1, 1), "integrity", {"index"}, "one is of another producer"
        ),
        "doubled": changed(
            "*.txnindex", _index_doubled, "integrity", {"index", "side_file"}, "the last one is there twice"
        ),
        "stable offset below": changed(
            "*.txnindex",
            _index_field(4, -1),
            "integrity",
            {"index", "side_file"},
            "a last stable offset is one below",
        ),
        "stable offset above": changed(
            "*.txnindex", _stable_above, "integrity", {"index"}, "a last stable offset passes an open one"
        ),
        "stable offset beyond the end": stable_beyond,
    },
    "producer snapshot": {
        "open transaction lost": changed(
            "*.snapshot", _open_lost, "integrity", {"snapshot"}, "a transaction is not open"
        ),
        "coordinator epoch": changed(
            "*.snapshot", _snapshot_field(6, 7), "integrity", {"snapshot"}, "a coordinator epoch is 7 above"
        ),
        "last offset": changed(
            "*.snapshot", _snapshot_field(3, -1), "integrity", {"snapshot"}, "a last offset is one below"
        ),
        "twice": changed(
            "*.snapshot", _snapshot_twice, "integrity", {"snapshot", "side_file"}, "a producer is in it twice"
        ),
        "of an earlier offset": snapshot_of_another,
    },
    "leader epochs": {
        "line lost": changed(
            "leader-epoch-checkpoint",
            _line_lost,
            "integrity",
            {"leader_epochs", "side_file"},
            "lacks an epoch",
        ),
        "beyond the end": epoch_beyond,
    },
    "checkpoint": {"log start beyond the end": start_beyond},
    "cluster id": {"another cluster's": other_cluster},
}
