"""What a check of large logs takes, by engine: ``python -m tests.audit.bench_check``

Makes segments (``bench_ingest``; 1,720,000,000 bytes are 1.5 million batches) and checks them by
``fencepost audit check`` on a terminal, once for each engine, in turns:

    wall      from the start of the command to its end
    rss       the largest sum over its processes, looked at four times a second
    silence   the longest time in which nothing came to the terminal

The logs have no coordinator, so nothing is found, and what it would decide is unknown. Exit status 1 if one
was silent for longer than ``SILENT_SECONDS_MAX``, or ended with another status than 0.
"""

import os
import pty
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from tests.audit.bench_ingest import write_segments

SILENT_SECONDS_MAX: Final = 2.0
LOOK_SECONDS: Final = 0.25
ENGINES: Final = ("embedded", "spark")
_READ_BYTES: Final = 65_536


class Taken(NamedTuple):
    """Of one run. ``before``: what the terminal showed last before the longest silence."""

    status: int
    wall_s: float
    rss_mb: float
    silent_s: float
    before: str


@click.command()
@click.option("--bytes", "size", default=1_720_000_000, show_default=True)
@click.option("--engine", "engines", multiple=True, default=ENGINES, show_default=True)
@click.option("--rounds", default=1, show_default=True)
def main(size: int, engines: tuple[str, ...], rounds: int) -> None:
    """See above."""
    home = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
    is_right = True
    try:
        write_segments(home / "logs", size)
        for _ in range(rounds):
            for engine in engines:
                taken = _checked(home, engine)
                click.echo(
                    f"{engine:<9} {taken.wall_s:>6.1f} s, {taken.rss_mb:,.0f} MB, silent for"
                    f" {taken.silent_s:.1f} s after {taken.before!r}, status {taken.status},"
                    f" load {os.getloadavg()[0]:.1f}"
                )
                is_right &= taken.silent_s <= SILENT_SECONDS_MAX and taken.status == 0
    finally:
        shutil.rmtree(home)
    sys.exit(0 if is_right else 1)


def _checked(home: Path, engine: str) -> Taken:
    program = str(Path(sys.executable).with_name("fencepost"))
    command = [program, "audit", "check", str(home / "logs"), "--allow-unknown", "--engine", engine]
    begun = last = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(program, command)  # noqa: S606
    ended, peak = threading.Event(), [0.0]
    looker = threading.Thread(target=_look, args=(child, ended, peak), daemon=True)
    looker.start()
    silent, said, shown = 0.0, "", b""
    while True:
        try:
            came = os.read(terminal, _READ_BYTES)
        except OSError:  # its end, on Linux
            break
        now = time.monotonic()
        if now - last > silent:
            silent, said = now - last, shown.decode(errors="replace").split("\r")[-1].strip()
        last, shown = now, (shown + came)[-200:] if came else shown
        if not came:
            break
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    ended.set()
    looker.join()
    wall = time.monotonic() - begun
    return Taken(os.waitstatus_to_exitcode(status), wall, peak[0], silent, said[-60:])


def _look(child: int, ended: threading.Event, peak: list[float]) -> None:
    while not ended.wait(LOOK_SECONDS):
        peak[0] = max(peak[0], _rss_mb(child))


def _rss_mb(root: int) -> float:
    """Of a process and all below it."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(each.name)], sizes[int(each.name)] = int(fields[1]), int(fields[21]) * page
    total, level = 0, [root]
    while level:
        total += sum(sizes.get(each, 0) for each in level)
        level = [process for process, parent in parents.items() if parent in level]
    return total / 1e6


if __name__ == "__main__":
    main()
