"""``python -m tests.audit.kafka``: an audit of what three real brokers wrote finds nothing.

Three nodes of Apache Kafka run on loopback and go through a cluster's life (``life``) under clients of
four libraries (``writers``). Their directories are copied while they run, and once more when they are
stopped; both copies are audited. ``python -m tests.audit.kafka.single`` is the same of one broker, and
quicker.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from tests.audit.corpus import recording, share
from tests.audit.kafka.broker import NotHere
from tests.audit.kafka.life import WRITTEN, Life
from tests.audit.kafka.three import running
from tests.audit.kafka.writers import Writers

VERSIONS: Final = ("4.4.0", "3.9.1")
COPIES: Final = ("stopped", "running")


@click.command()
@click.option(
    "--version", "versions", multiple=True, default=VERSIONS, show_default=True, help="Of Apache Kafka."
)
@click.option(
    "--seed", default=1, show_default=True, help="Of the order of events; clients and clocks are their own."
)
@click.option("--seconds", default=100, show_default=True, help="Of writing, at least.")
@click.option("--pack", is_flag=True, help="Make the recordings of the tests anew from what was written.")
@click.option("--audit/--no-audit", default=True, show_default=True, help="Audit both copies.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the copies in this folder.")
def main(
    versions: tuple[str, ...], seed: int, seconds: int, pack: bool, audit: bool, keep: Path | None
) -> None:
    """Exit status: 0 no copy has a finding and enough is decided, else 1; 0 and NOT RUN without Maven."""
    is_right = True
    for version in versions:
        home = Path(tempfile.mkdtemp(prefix="fencepost-kafka-"))
        try:
            copies = home / "copies" if keep is None else keep / f"{version}-{seed}"
            shutil.rmtree(copies, ignore_errors=True)
            _record(home, version, seed, seconds, copies)
            for each in COPIES:
                if pack:
                    packed = recording.pack(copies / each, f"kafka-{version}-{each}")
                    click.echo(f"Packed: {packed}, {packed.stat().st_size:,} bytes")
                is_right &= not audit or share.passes(copies / each, is_stopped=each == "stopped")
        except NotHere as error:
            click.echo(f"NOT RUN: Apache Kafka {version}: {error}")
        finally:
            shutil.rmtree(home, ignore_errors=True)
    sys.exit(0 if is_right else 1)


def _record(home: Path, version: str, seed: int, seconds: int, copies: Path) -> None:
    began = time.monotonic()
    with running(home / "nodes", version) as cluster:
        click.echo(
            f"Apache Kafka {version}: three nodes are up after {time.monotonic() - began:.0f} s (seed {seed})"
        )
        life = Life(cluster, seed)
        life.make_topics()
        protocol = "classic" if version.startswith("3.") else "consumer"
        with Writers(cluster.bootstrap, WRITTEN, seed, home, version=version, protocol=protocol) as writers:
            life.live(seconds, writers, copies)
    files = [*(copies / "stopped").rglob("*.log")]
    size = sum(each.stat().st_size for each in files)
    click.echo(f"They wrote {size:,} bytes in {len(files)} segments, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
