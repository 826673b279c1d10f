"""``python -m tests.checker``: applications read, process and write while nodes and applications are killed.

Exit status: 0 nothing was found, 1 something was: the facts are printed, the folder with the history stays.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from tests.checker.application import PLANTS
from tests.checker.evidence import events_of, evidence_of
from tests.checker.findings import Finding, find
from tests.checker.run import Plan, Run
from tests.checker.settings import CLIENTS, MIXED
from tests.checker.summary import summary_of
from tests.harness.nodes import NO_QUOTA, running

FACTS_MAX: Final = 5  # of each kind
DEFAULT: Final = Plan()


@click.command()
@click.option("--seconds", default=DEFAULT.seconds, show_default=True, help="Of trouble.")
@click.option("--nodes", default=3, show_default=True, help="Of the cluster.")
@click.option("--seed", default=DEFAULT.seed, show_default=True, help="Of the trouble.")
@click.option("--kill-every", default=DEFAULT.kill_every, show_default=True, help="Seconds; 0: no node.")
@click.option("--trouble-every", default=DEFAULT.trouble_every, show_default=True, help="Seconds; 0: none.")
@click.option("--groups", default=DEFAULT.groups, show_default=True, help="Each with an input topic.")
@click.option("--applications", default=DEFAULT.applications, show_default=True, help="Of each group.")
@click.option("--partitions", default=DEFAULT.partitions, show_default=True, help="Of each input topic.")
@click.option("--rate", default=DEFAULT.records_per_second, show_default=True, help="Inputs per second.")
@click.option("--strategy", default=DEFAULT.strategy, show_default=True, help="Of the assignment.")
@click.option("--assignment", type=click.Choice(["group", "static"]), default="group", help="Without groups?")
@click.option("--static-members", is_flag=True, help="Each application has an instance id.")
@click.option("--plant", type=click.Choice([*PLANTS]), help="A fault of the applications, to be found.")
@click.option("--client", type=click.Choice([*CLIENTS, MIXED]), default=DEFAULT.client, show_default=True,
              help="Of the applications.")  # fmt: skip
@click.option("--feature-every", default=DEFAULT.feature_every, show_default=True,
              help="Seconds between changes of transaction.version; 0: none.")  # fmt: skip
@click.option("--bootstrap-server", help="Another cluster, whose nodes live.")
@click.option("--again", type=click.Path(path_type=Path), help="Only analyse the history in this folder.")
@click.option("--keep", is_flag=True, help="Leave the folder, though nothing was found.")
def main(
    nodes: int, assignment: str, bootstrap_server: str | None, again: Path | None, keep: bool, **plan: Any
) -> None:
    """Run it, and print what was found."""
    if again is not None:
        sys.exit(report(again, find(evidence_of(events_of(again)))))
    folder = Path(tempfile.mkdtemp(prefix="fencepost-checker-"))
    plan["records_per_second"] = plan.pop("rate")
    chosen = Plan(**plan, with_groups=assignment == "group")
    (folder / "history").mkdir()
    if bootstrap_server is not None:
        found = Run(chosen, bootstrap_server, folder / "history").go(None)
    else:
        found = run_on_new_cluster(chosen, folder, nodes)
    status = report(folder / "history", found)
    if status or keep:
        click.echo(f"the history is in {folder / 'history'}")
    else:
        shutil.rmtree(folder)
    sys.exit(status)


def run_on_new_cluster(plan: Plan, folder: Path, count: int) -> list[Finding]:
    """What a node's log must not hold is a finding, too."""
    found: list[Finding] = []
    try:
        with running(folder / "cluster", NO_QUOTA, count=count) as cluster:
            found += Run(plan, cluster.bootstrap, folder / "history").go(cluster)
    except AssertionError as failed:
        found.append(Finding("node", str(failed)))
    return found


def report(folder: Path, findings: list[Finding]) -> int:
    """The exit status."""
    for line in summary_of(events_of(folder)):
        click.echo(line)
    counted = Counter(each.name for each in findings)
    click.echo(", ".join(f"FOUND {count} {name}" for name, count in counted.items()) or "nothing was found")
    for name in counted:
        for each in [each for each in findings if each.name == name][:FACTS_MAX]:
            click.echo(f"  {each.name}: {each.facts}")
    return 1 if findings else 0


if __name__ == "__main__":
    main()
