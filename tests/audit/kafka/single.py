"""``python -m tests.audit.kafka.single``: an audit of what one Apache Kafka wrote finds nothing.

A broker of KRaft runs on loopback; real clients do to it all that clients do (``traffic``), with a clean
restart and a SIGKILL in between; it is stopped, and ``fencepost audit check`` reads its log directory.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.audit.kafka import broker, fixture, traffic

AUDIT_SECONDS_MAX = 600


@click.command()
@click.option("--rounds", default=6, show_default=True, help="Transactions of each producer, more or less.")
@click.option("--pack", is_flag=True, help="Make the fixture of the tests anew from what was written.")
@click.option("--worn", is_flag=True, help="As after months: compacted, forgotten, begun at a snapshot.")
@click.option("--keep", is_flag=True, help="Leave the folder.")
def main(rounds: int, pack: bool, worn: bool, keep: bool) -> None:
    """Exit status: the audit's own; 0 and NOT RUN, with the reason, where Java or Maven is missing."""
    home = Path(tempfile.mkdtemp(prefix="fencepost-kafka-"))
    began = time.monotonic()
    try:
        with broker.running(home, broker.WORN if worn else "") as kafka:
            click.echo(f"Apache Kafka {broker.VERSION} is up after {time.monotonic() - began:.1f} s")
            (traffic.wear_out if worn else traffic.perform)(kafka, home, rounds)
            kafka.stop()
            files = [*kafka.logs.rglob("*.log")]
            size = sum(each.stat().st_size for each in files)
            click.echo(f"It wrote {size:,} bytes in {len(files)} segments, {time.monotonic() - began:.0f} s")
        if pack:
            packed = fixture.WORN if worn else fixture.PACKED
            fixture.pack(home / "logs", packed)
            click.echo(f"Packed: {packed}, {packed.stat().st_size:,} bytes")
        program = Path(sys.executable).with_name("fencepost")
        command = [str(program), "audit", "check", str(home / "logs"), "--master", "local[2]"]
        click.echo(f"$ fencepost {' '.join(command[1:])}")
        sys.exit(subprocess.run(command, timeout=AUDIT_SECONDS_MAX, check=False).returncode)
    except broker.NotHere as error:
        click.echo(f"NOT RUN: {error}")
    finally:
        if keep:
            click.echo(f"The folder is {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
