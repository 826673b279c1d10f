"""Kafka's own ``kafka-dump-log --offsets-decoder`` reads the archive of ``__consumer_offsets`` to its end.

Compared    the headers of the batches that it prints (offsets, producer, transactional, control) with what
            was written, and of each record what it decodes: offsets, groups, tombstones, markers.
Written     by the code that writes entries: several batches of one entry, stamped one behind the other.
"""

import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from fencepost.records.batch import decode_batch, stamp
from fencepost.records.group_log import GroupRecord, encode_group_batches, encode_group_record
from fencepost.records.group_metadata import GroupForgotten
from fencepost.records.offset_commit import OffsetForgotten
from fencepost.records.types import Log, Offset, Term
from fencepost.snapshots.archive import Archive
from tests.clients.dump_log import DUMP_SECONDS_MAX, TOOLS, Scenario, Tool
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed, expect
from tests.controller.notes import marker
from tests.controller.test_own_log import group, offset
from tests.harness.nodes import Nodes

NOW_MS: Final = 1_763_600_000_000
WRITTEN: Final[list[tuple[GroupRecord, str]]] = [
    (offset(5), '"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":5'),
    (group(1, "m", "n"), '"generation":1,'),
    (offset(6, 7), '"offset":6,'),
    (offset(7, 7, partition=1), '"offset":7,'),
    (marker(7, committed=True, epoch=3), "endTxnMarker: COMMIT coordinatorEpoch: 3"),
    (offset(8, 7), '"offset":8,'),
    (marker(7, committed=False, epoch=3), "endTxnMarker: ABORT coordinatorEpoch: 3"),
    (OffsetForgotten("readers", "a.b", 0), "payload: <DELETE>"),
    (group(2), '"generation":2,"protocol":null'),
    (GroupForgotten("readers"), "payload: <DELETE>"),
]
"""Each record with what the tool must say of it."""

BATCHES: Final = [
    "baseOffset: 0 lastOffset: 1 baseSequence: -1 producerId: -1 producerEpoch: -1 false false",
    "baseOffset: 2 lastOffset: 3 baseSequence: 0 producerId: 7 producerEpoch: 0 true false",
    "baseOffset: 4 lastOffset: 4 baseSequence: -1 producerId: 7 producerEpoch: 0 true true",
    "baseOffset: 5 lastOffset: 5 baseSequence: 0 producerId: 7 producerEpoch: 0 true false",
    "baseOffset: 6 lastOffset: 6 baseSequence: -1 producerId: 7 producerEpoch: 0 true true",
    "baseOffset: 7 lastOffset: 9 baseSequence: -1 producerId: -1 producerEpoch: -1 false false",
]
"""The last two words: transactional, control."""

_BATCH: Final = re.compile(
    r"^(baseOffset: \d+ lastOffset: \d+) count: \d+ (baseSequence: -?\d+) lastSequence: -?\d+ "
    r"(producerId: -?\d+ producerEpoch: -?\d+) .*isTransactional: (\w+) isControl: (\w+) .*isvalid: true$",
    re.MULTILINE,
)
_RECORD: Final = re.compile(r"^\| offset: (\d+) .*", re.MULTILINE)


def reads_offsets_to_the_end(tool: Tool, _cluster: Nodes) -> str:
    """Of an archive that this very code writes. Raises StoryFailed."""
    need("java", "mvn")
    jars = copied(HERE / tool.folder / "pom.xml", FETCHED / tool.folder)
    with tempfile.TemporaryDirectory() as folder:
        file = _written(Path(folder))
        command = ["java", "-cp", f"{jars}/*", tool.main, "--offsets-decoder", "--files", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_SECONDS_MAX, check=False)
    if ended.returncode != 0:
        raise StoryFailed(f"status {ended.returncode}: {ended.stderr[-500:]}")
    expect("batches", [" ".join(found) for found in _BATCH.findall(ended.stdout)], BATCHES)
    lines = [found.group() for found in _RECORD.finditer(ended.stdout)]
    expect("offsets", [int(each) for each in _RECORD.findall(ended.stdout)], list(range(len(WRITTEN))))
    wrong = [line for line, (_, says) in zip(lines, WRITTEN, strict=True) if says not in line]
    expect("records that are not decoded", wrong, [])
    return f"{len(lines)} records in {len(BATCHES)} batches: offsets, groups, tombstones and markers"


def _written(root: Path) -> Path:
    records = [record for record, _ in WRITTEN]
    archive = Archive.open(root, Log.CONSUMER_OFFSETS, "dumped")
    for raw in encode_group_batches(records, [encode_group_record(each) for each in records], NOW_MS):
        stamped = stamp(raw, archive.end, Term(2))
        expect("end of the batch", int(decode_batch(stamped)[0].base_offset), int(archive.end))
        archive.append(stamped)
    archive.close()
    return root / Log.CONSUMER_OFFSETS.directory / f"{Offset(0):020d}.log"


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    f"kafka-dump-log {tool.version[:3]}: offsets and groups": (
        tool.version,
        partial(reads_offsets_to_the_end, tool),
    )
    for tool in TOOLS
}
