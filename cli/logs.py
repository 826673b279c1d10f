"""``fencepost logs``: what the nodes of a cluster on this machine wrote, and write."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import click

from fencepost.cli.output import JSON, dir_option, echo_line, format_option, require_reader, while_read
from fencepost.cluster.console import Unreadable
from fencepost.cluster.local_cluster import LocalNode, open_cluster
from fencepost.cluster.node_process import LOG
from fencepost.cluster.state import named_node
from fencepost.settings.log_file import rotated_names

LINES_DEFAULT: Final = 100
LINES_MAX: Final = 1_000_000
LOOK_S: Final = 0.1  # between two looks at files that grow
FILES_MAX: Final = 100  # that a log was rotated into
LINE_BYTES_MAX: Final = 1024 * 1024  # one that is longer is printed in parts


@click.command(short_help="Print the logs of nodes; -f goes on with what they write.")
@click.argument("name", metavar="[NODE]", required=False)
@dir_option
@click.option("-f", "--follow", is_flag=True, help="Go on, until Ctrl-C or until its reader leaves.")
@click.option(
    "-n", "--lines", "line_count", type=click.IntRange(0, LINES_MAX), default=LINES_DEFAULT,
    show_default=True, help="How many lines of each node, its last ones.",
)  # fmt: skip
@format_option
def logs(name: str | None, directory: Path, follow: bool, line_count: int, output_format: str) -> None:
    """Print the last lines of NODE's log (a number, or 'leader'), or of every node's with its number before.

    --format json: one document per line.
    """
    cluster = open_cluster(directory)
    nodes = list(cluster.nodes) if name is None else [named_node(cluster, name)]
    sources = [Followed(node) for node in nodes]
    for source in sources:
        click.get_current_context().call_on_close(source.close)
    if not any(source.exists() for source in sources):
        raise Unreadable(f"no node of {directory} has a log; has the cluster ever run?")
    with while_read():
        for source in sources:
            for line in source.last(line_count):
                _print(source.node, line, output_format, with_node=name is None)
        while follow:
            require_reader()
            time.sleep(LOOK_S)
            for source in sources:
                for line in source.more():
                    _print(source.node, line, output_format, with_node=name is None)


def _print(node: LocalNode, line: str, output_format: str, *, with_node: bool) -> None:
    if output_format == JSON:
        echo_line({"node_id": node.node_id, "line": line})
    else:
        click.echo(f"{node.node_id} | {line}" if with_node else line)


@dataclass
class Followed:
    """A node's log, also over a rotation. Lines without their end; one that has none yet waits for it."""

    node: LocalNode
    _file: IO[bytes] | None = None
    _begun: bytes = b""

    @property
    def path(self) -> Path:
        """Where the node writes."""
        return self.node.directory / LOG

    def exists(self) -> bool:
        """The node wrote something, ever."""
        return self.path.exists()

    def close(self) -> None:
        """Close its file."""
        if self._file is not None:
            self._file.close()

    def last(self, count: int) -> list[str]:
        """Its last lines. What is written from here on comes by ``more``."""
        with contextlib.suppress(FileNotFoundError):
            self._file = self.path.open("rb")
        found = list(self.more())
        for older in rotated_names(self.path, FILES_MAX):
            if len(found) >= count or not older.exists():
                break
            found = older.read_text("utf-8", "replace").splitlines() + found
        return found[-count:] if count else []

    def more(self) -> Iterator[str]:
        """Lines that were written since."""
        yield from self._rest()
        with contextlib.suppress(FileNotFoundError):
            if self._file is None or not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                fresh = self.path.open("rb")  # rotated: what the old file still got comes first
                yield from self._rest()
                if self._file is not None:
                    self._file.close()
                self._file = fresh
                yield from self._rest()

    def _rest(self) -> Iterator[str]:
        while self._file is not None and (chunk := self._file.read(LINE_BYTES_MAX)):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            yield from (str(line, "utf-8", "replace") for line in lines)
            if len(self._begun) >= LINE_BYTES_MAX:
                yield str(self._begun, "utf-8", "replace")
                self._begun = b""
