"""What a check of large logs takes, by engine: ``python -m tests.audit.bench_check``

Makes segments (``bench_ingest``; 1,720,000,000 bytes are 1.5 million batches) and checks them by
``fencepost audit check`` on a terminal, once for each engine, in turns:

    wall      from the start of the command to its end
    CPU       of all its processes, up to the last look at each
    memory    the largest sum over its processes, looked at four times a second, and the parts of that sum: a
              page that several of them share counts once (PSS)
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
    cpu_s: float
    parts_mb: list[float]
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
                parts = " + ".join(f"{each:.0f}" for each in taken.parts_mb)
                click.echo(
                    f"{engine:<9} {taken.wall_s:>6.1f} s, {taken.cpu_s:.1f} s CPU,"
                    f" {sum(taken.parts_mb):,.0f} MB ({parts}), silent for"
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
    ended, looks = threading.Event(), _Looks(child)
    looker = threading.Thread(target=looks.until, args=(ended,), daemon=True)
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
    cpu = sum(looks.cpu_s.values())
    return Taken(os.waitstatus_to_exitcode(status), wall, cpu, looks.peak, silent, said[-60:])


class _Looks:
    """At a process and all below it. Between two looks nothing is known."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.cpu_s: dict[int, float] = {}
        self.peak: list[float] = []

    def until(self, ended: threading.Event) -> None:
        while not ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        known = set(self.cpu_s)
        tree = _tree(self.root)
        self.cpu_s |= tree
        # A process counts from the second look on: a JVM's child has all of the JVM's memory until it runs
        # its own program.
        sizes = sorted((_mb(each) for each in tree if each in known), reverse=True)
        self.peak = max(self.peak, sizes, key=sum)


def _tree(root: int) -> dict[int, float]:
    """A process and all below it, and the seconds of CPU of each."""
    parents: dict[int, int] = {}
    taken: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(each.name)] = int(fields[1])
        taken[int(each.name)] = (int(fields[11]) + int(fields[12])) / tick
    found: dict[int, float] = {}
    level = [root]
    while level:
        found |= {each: taken[each] for each in level if each in taken}
        level = [process for process, parent in parents.items() if parent in level]
    return found


def _mb(process: int) -> float:
    """Of memory; of what it shares its part. 0: it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


if __name__ == "__main__":
    main()
