"""``fencepost groups reset-offsets``: where groups without members begin again.

A group that has members is left as it is, the others are reset; as Kafka's tool does, whose exit status is 0
all the same.
"""

import csv
import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from fencepost.cli.group_calls import Place, commit, committed, describe_group, offsets_at, partitions_of
from fencepost.cli.group_options import chosen, cluster_options, groups_options, print_rows, topic_option
from fencepost.cli.group_output import RESET, Row
from fencepost.cli.group_resets import (
    Log,
    Plan,
    Reset,
    Scenario,
    new_offset,
    parse_plan,
    parse_reset,
    parse_topics,
    times,
)
from fencepost.cli.output import JSON, format_option
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.target import Target
from fencepost.controller.groups.describe import DEAD

INACTIVE: Final = frozenset({"Empty", DEAD})


class Wanted(NamedTuple):
    """What to reset, and to what. ``topics`` empty: all that is committed, or that the plan has."""

    topics: dict[str, tuple[int, ...] | None]
    reset: Reset
    plan: Plan | None


@click.command("reset-offsets")
@groups_options
@topic_option
@click.option("--all-topics", is_flag=True, help="Every partition that the group committed an offset of.")
@click.option("--to-earliest", is_flag=True, help="To the first record kept.")
@click.option("--to-latest", is_flag=True, help="To the end: what comes from now on.")
@click.option("--to-current", is_flag=True, help="To where it is, or to the end.")
@click.option("--to-offset", type=int, help="To this offset, as far as the log has it.")
@click.option("--shift-by", type=int, help="So many records forward, or backward if below 0.")
@click.option("--to-datetime", help="To the first record of YYYY-MM-DDTHH:MM:SS.sss[Z] or later.")
@click.option("--by-duration", help="To the first record of the last PnDTnHnMnS.")
@click.option(
    "--from-file", type=click.Path(path_type=Path), help="To what lines [GROUP,]TOPIC,PARTITION,OFFSET say."
)
@click.option("--dry-run", is_flag=True, help="Print the new offsets and commit nothing.  [default]")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
@click.option("--export", "is_export", is_flag=True, help="Print the new offsets as CSV, for --from-file.")
@cluster_options
@format_option
def reset_offsets(
    target: Target,
    timeout_s: float,
    group_ids: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    is_export: bool,
    output_format: str,
    **scenario: object,
) -> int:
    """Set the offsets of groups without members: what they read next. Without --execute a dry run.

    Exit status 1 if a group has members, or the file has nothing of it; the others are reset.
    """
    if dry_run and execute:
        raise WrongUsage("expected one of --dry-run and --execute")
    if is_export and output_format == JSON:
        raise WrongUsage("--export prints CSV, not JSON")
    reset = parse_reset({f"--{name.replace('_', '-')}": value for name, value in scenario.items()}, _now_ms())
    wanted = Wanted(parse_topics(topics), reset, _plan(reset, scenario["from_file"], group_ids))
    if wanted.plan is not None and (topics or all_topics):
        raise WrongUsage("--from-file says which partitions: expected no --topic, and no --all-topics")
    if wanted.plan is None and bool(topics) == all_topics:
        raise WrongUsage("expected --topic, or --all-topics")
    refused: list[str] = []

    async def ask(brokers: Brokers) -> list[Row]:
        found: dict[str, dict[Place, int]] = {}
        for group_id in await chosen(brokers, group_ids, all_groups=all_groups):
            try:
                found[group_id] = await _new_offsets(brokers, group_id, wanted)
            except _NotReset as reason:
                refused.append(str(reason))
        for group_id, offsets in found.items() if execute else ():
            await commit(brokers, group_id, offsets)
        return [
            dict(zip(RESET, (group_id, *place, offset), strict=True))
            for group_id, offsets in found.items()
            for place, offset in sorted(offsets.items())
        ]

    rows = run(target, ask, timeout_s=timeout_s)
    if is_export:
        click.echo(_csv(rows, with_group=len(group_ids) != 1), nl=False)
    else:
        print_rows("offsets", RESET, rows, output_format)
    for reason in refused:
        click.echo(f"Error: {reason}", err=True)
    if not execute and not dry_run:
        click.echo("nothing is committed without --execute", err=True)
    return 1 if refused else 0


class _NotReset(Exception):
    """This group is left as it is."""


def _plan(reset: Reset, file: object, group_ids: tuple[str, ...]) -> Plan | None:
    """Raises Unreadable, WrongUsage."""
    if reset.scenario is not Scenario.FILE:
        return None
    try:
        text = Path(str(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"--from-file: {error}") from error
    return parse_plan(text, group_ids[0] if len(group_ids) == 1 else None)


async def _new_offsets(brokers: Brokers, group_id: str, wanted: Wanted) -> dict[Place, int]:
    """Raises _NotReset; Failed: a partition is not there."""
    state = (await describe_group(brokers, group_id)).group.state
    if state not in INACTIVE:
        raise _NotReset(
            f"group {group_id} is {state}; expected one without members (Empty): stop its consumers first"
        )
    read = await committed(brokers, group_id)
    planned: Mapping[Place, int] = {}
    if wanted.plan is not None:
        if group_id not in wanted.plan:
            raise _NotReset(f"the file has no line of group {group_id}")
        planned = wanted.plan[group_id]
    places = await _places(brokers, wanted.topics) if wanted.topics else sorted(planned or read)
    earliest, latest, *at = [await offsets_at(brokers, each) for each in times(places, wanted.reset)]
    missing = [f"{topic}-{index}" for topic, index in places if (topic, index) not in earliest]
    if missing:
        raise Failed(f"no broker leads {', '.join(missing)}; expected partitions that have a leader")
    return {
        place: new_offset(
            place,
            wanted.reset,
            Log(
                earliest[place],
                latest[place],
                read[place].offset if place in read else None,
                at[0].get(place) if at else planned.get(place),
            ),
        )
        for place in places
    }


async def _places(brokers: Brokers, wanted: dict[str, tuple[int, ...] | None]) -> list[Place]:
    known = await partitions_of(brokers, wanted)
    missing = sorted(set(wanted) - set(known))
    if missing:
        raise Failed(f"there is no topic {', '.join(missing)}")
    return [
        (topic, index)
        for topic, indexes in sorted(wanted.items())
        for index in (known[topic] if indexes is None else indexes)
    ]


def _csv(rows: list[Row], *, with_group: bool) -> str:
    """As Kafka's tool prints it: no head; the group only where not one group was named."""
    columns = RESET if with_group else RESET[1:]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([row[each] for each in columns] for row in rows)
    return text.getvalue()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
