"""Kafka's own ``kafka-dump-log --cluster-metadata-decoder`` reads archive and snapshots, to the last record.

Compared    the offsets that it prints, one line each, with those of the batches in the file; every line must
            have its record decoded. There are LeaderChanges of two leaders at least.
Fetched     by Maven into .clients, once: about 100 MB for each version.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import Killed, StoryFailed, expect
from tests.harness.nodes import Nodes
from tests.processes.archive_reader import LOG, batches_of

DUMP_SECONDS_MAX: Final = 60.0
_LINE: Final = re.compile(r"^\| offset: (\d+) .*", re.MULTILINE)
_DECODED: Final = re.compile(
    r'payload: \{"type":"\w+","version":\d+,"data":|LeaderChange: \{|Snapshot\w+ \{|KRaft\w+ \{'
)


class Tool(NamedTuple):
    """A version of Kafka, and the class behind its ``kafka-dump-log.sh``."""

    version: str
    folder: str
    main: str


TOOLS: Final = (
    Tool("4.1.2", "dump_4_1", "kafka.tools.DumpLogSegments"),
    Tool("4.3.1", "dump_4_3", "org.apache.kafka.tools.DumpLogSegments"),
)


def reads_to_the_end(tool: Tool, cluster: Nodes) -> str:
    """Of a new cluster, whose leader died once: each node's archive, and its snapshot."""
    need("java", "mvn")
    jars = copied(HERE / tool.folder / "pom.xml", FETCHED / tool.folder)
    Killed(cluster).restart()
    cluster.run("topics", "create", "--topic", f"dumped-by-{tool.folder}", "--partitions", "3")
    cluster.run("snapshot", "create")
    read = 0
    leaders: set[str] = set()
    for node_id in cluster.node_ids:
        home = cluster.directory / "nodes" / str(node_id) / "data"
        files = [*sorted((home / LOG).glob("*.log")), *sorted(home.glob("snapshots*/*/*.checkpoint"))]
        expect("kinds of files", {file.suffix for file in files}, {".log", ".checkpoint"})
        for file in files:
            lines = _dumped(tool, jars, file)
            read += len(lines)
            leaders |= {line for line in lines if "LeaderChange" in line}
    if len(leaders) < 2:
        raise StoryFailed(f"expected the records of two leaders at least, found {leaders}")
    count = len(cluster.node_ids)
    return f"{read} records in archives and snapshots of {count} nodes, {len(leaders)} leader changes"


def _dumped(tool: Tool, jars: Path, file: Path) -> list[str]:
    """A line for each record of a file. Raises StoryFailed unless all are there, decoded."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(file, folder))  # as it is now: the node goes on
        command = ["java", "-cp", f"{jars}/*", tool.main, "--cluster-metadata-decoder", "--files", str(copy)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_SECONDS_MAX, check=False)
        offsets = [offset for batch in batches_of(copy) for offset in range(batch.first, batch.end)]
    if ended.returncode != 0:
        raise StoryFailed(f"{file}: status {ended.returncode}: {ended.stderr[-500:]}")
    lines = [found.group() for found in _LINE.finditer(ended.stdout)]
    expect(f"offsets of {file}", [int(found) for found in _LINE.findall(ended.stdout)], offsets)
    wrong = [line for line in lines if not _DECODED.search(line)]
    expect(f"what {file} has that is not decoded", wrong, [])
    return lines


Scenario = Callable[[Nodes], str]
SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    f"kafka-dump-log {tool.version[:3]}: archive and snapshots": (
        tool.version,
        partial(reads_to_the_end, tool),
    )
    for tool in TOOLS
}
