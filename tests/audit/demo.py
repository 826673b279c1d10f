"""``make demo-audit``: a cluster with transactions and a kill is audited, then its copy with ten faults.

Real        the nodes, the producers (confluent-kafka), the commands and their output.
Planted     one fault of each kind of ``tests.audit.faults.kinds``, in a copy, each in a partition of its own.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import click

from fencepost.bench.demo_transactions import Writers
from fencepost.cluster.console import table
from fencepost.cluster.target import brokers_of
from tests.audit.faults import cluster as clusters
from tests.audit.faults.judge import complaints, matched
from tests.audit.faults.kinds import KINDS, Seeded, one_of_each, seed
from tests.audit.kafka.traffic import Traffic

COMMAND_SECONDS_MAX = 600
CALM_SECONDS = 1.5
PARTITIONS = 6
TOPICS = ("orders", "payments")
SETTINGS = ("producer.id.block.size=5", "producer.id.allocation.rate=0", "num.partitions=3")
TRIES_MAX = 20
ENGINE = ("--engine", "spark")
FINDINGS, CLEAN = 1, 0
NO_GAP = ("sequence gap", "duplicate")  # a sequence that comes twice: not what this story is about
GAP = ("sequence gap", "skipped")


@click.command()
@click.option("--seed", "number", type=int, default=None, help="Of the faults; by default another each time.")
@click.option("--keep", is_flag=True, help="Leave the folder: the cluster, the copy, the page.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("build/audit.html"), show_default=True
)
def main(number: int | None, keep: bool, output: Path) -> None:
    """Exit status 0: the logs are clean, and each of ten faults is found once, and nothing else is."""
    home = Path(tempfile.mkdtemp(prefix="fencepost-audit-"))
    began = time.monotonic()
    number = Random().randrange(10_000) if number is None else number
    try:
        is_sound = _show(home, number, output)
    finally:
        if keep:
            click.echo(f"\nThe folder is {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    click.echo(f"{time.monotonic() - began:.0f} s in all")
    sys.exit(0 if is_sound else 1)


def _show(home: Path, number: int, output: Path) -> bool:
    logs = home / "cluster"
    _live(logs)
    _tell(3, "The audit of its directories")
    clean = _audit(logs)
    _tell(4, f"A copy with ten faults, one of each kind (--seed {number})")
    copy = home / "faults"
    seeded = _plant(logs, copy, number)
    _print_planted(seeded, copy)
    _tell(5, "The audit of the copy")
    tables = home / "tables"
    faulty = _audit(copy, "--tables", str(tables))
    _tell(6, "Its page, and its findings once more, for a program")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    report = _run("report", "--tables", str(tables), "--output", str(output), "--stopped", "--format", "json")
    if not output.exists():
        raise click.ClickException(report.stderr or report.stdout)
    click.echo(f"   {output.resolve()}: {output.stat().st_size:,} bytes")
    findings = [each for each in json.loads(report.stdout)["findings"] if not each.get("cause")]
    _tell(7, "What was planted, and what was found")
    is_found = _compare(seeded, findings, copy)
    statuses = f"the audit's exit status: {clean} before, {faulty} with the faults"
    click.echo(f"\n{statuses}; findings {len(findings)}, faults {len(seeded)}")
    return is_found and (clean, faulty) == (CLEAN, FINDINGS) and len(seeded) == len(KINDS)


def _live(directory: Path) -> None:
    """A cluster's life, from its start to its end."""
    began = time.monotonic()
    with clusters.running(directory, SETTINGS) as cluster:
        _tell(1, f"Three nodes, live after {time.monotonic() - began:.1f} s; producers of all kinds at work")
        traffic = Traffic(cluster.bootstrap)
        traffic.make_topics({name: {} for name in TOPICS}, PARTITIONS)
        with Writers(brokers_of(cluster)) as writers:
            for topic in TOPICS:
                traffic.spread(topic, PARTITIONS)
            traffic.fenced()
            traffic.timed_out()
            before = writers.count().total()
            dead = clusters.kill_leader(cluster)
            click.echo(f"   kill -9 of node {dead}, the leader, after {before} transactions")
            clusters.bring_back(cluster, dead)
            for topic in TOPICS:
                traffic.spread(topic, PARTITIONS)
            time.sleep(CALM_SECONDS)
            writers.stop()
            ended = Counter({outcome.value: count for outcome, count in writers.count().items()})
        click.echo(f"   node {dead} is back; transactions of the writers: {dict(ended)}")
    _tell(2, "The cluster is down. What it leaves:")
    rows = [
        (node, f"{len(files)} segments", f"{sum(each.stat().st_size for each in files):,} bytes")
        for node in sorted(directory.glob("nodes/*"))
        for files in [[*node.rglob("*.log")]]
    ]
    click.echo(table(("NODE", "LOGS", "SIZE"), [(node.name, *rest) for node, *rest in rows]))


def _plant(logs: Path, copy: Path, number: int) -> list[Seeded]:
    """Some variant has no place in some logs, or none beside the others: then another is tried."""
    for attempt in range(TRIES_MAX):
        random = Random(f"{number} {attempt}")
        shutil.rmtree(copy, ignore_errors=True)
        faults = [each if each != NO_GAP else GAP for each in one_of_each(random)]
        seeded = seed(logs, copy, faults, random, is_any=True)
        if len(seeded) == len(KINDS):
            return seeded
    raise click.ClickException(f"in {TRIES_MAX} tries no place was found for {len(KINDS)} faults")


def _print_planted(seeded: Sequence[Seeded], copy: Path) -> None:
    for each in seeded:
        path, position = each.planted.places()[0]
        click.echo(f"   {each.kind:<17} {each.variant}: {each.planted.said}")
        click.echo(f"   {'':<17} {path.relative_to(copy)}:{position}")


def _compare(seeded: Sequence[Seeded], findings: Sequence[dict[str, Any]], copy: Path) -> bool:
    rows = []
    for fault, finding in matched(seeded, findings):
        if finding is None:
            rows.append((fault.kind, "NOT FOUND", ""))
        else:
            where = f"{Path(finding['path']).resolve().relative_to(copy.resolve())}:{finding['position']}"
            rows.append((fault.kind, f"{finding['check']}.{finding['rule']}", where))
    click.echo(table(("PLANTED", "FOUND", "AT"), rows))
    wrong = complaints(seeded, findings)
    for each in wrong:
        click.echo(f"   {each}")
    return not wrong


def _audit(directory: Path, *options: str) -> int:
    """As an operator runs it; returns its exit status."""
    options = (*options, "--stopped", "--allow-unknown")
    click.echo(f"   $ fencepost audit check {' '.join((str(directory), *options, *ENGINE))}")
    ended = _run("check", str(directory), *options)
    for line in (ended.stdout or ended.stderr).rstrip().splitlines():
        click.echo(f"   {line}".rstrip())
    click.echo(f"   exit status {ended.returncode}")
    return ended.returncode


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises ClickException: it did not end in time."""
    program = Path(sys.executable).with_name("fencepost")
    try:
        return subprocess.run(
            [str(program), "audit", *arguments, *ENGINE],
            capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise click.ClickException(
            f"out of time: 'fencepost audit {arguments[0]}' did not end in {COMMAND_SECONDS_MAX} s. "
            "Nothing is known to be wrong: this machine has too much else to do. Run the demo again later."
        ) from None


def _tell(number: int, text: str) -> None:
    click.echo(f"\n{number}. {text}\n")


if __name__ == "__main__":
    main()
