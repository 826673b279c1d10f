"""``fencepost groups``: consumer groups, their members, how far they have read; and how to change that.

Verbs, flags and columns are those of ``kafka-consumer-groups``, whose actions are verbs here. ``--group`` and
``--topic`` may be repeated, as there.
Exit status  1: a group is not there, is in use, or was refused; 3: an outcome is unknown.
"""

from collections.abc import Sequence
from typing import Final

import click

from fencepost.cli.group_calls import (
    Described,
    committed,
    delete_group,
    delete_offsets,
    describe_groups,
    list_groups,
    offsets_at,
    partitions_of,
)
from fencepost.cli.group_options import chosen, cluster_options, groups_options, print_rows, topic_option
from fencepost.cli.group_output import (
    LISTED,
    MEMBERS,
    OFFSETS,
    STATE,
    VERBOSE,
    Row,
    listed_row,
    member_rows,
    offset_rows,
    state_row,
    without,
)
from fencepost.cli.group_resets import parse_topics
from fencepost.cli.groups_reset import reset_offsets
from fencepost.cli.output import JSON, format_option
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.target import Target
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import CLASSIC, DEAD, ListGroups
from fencepost.wire.errors import error_for
from fencepost.wire.k02_list_offsets import LATEST

STATES: Final = (
    "Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", DEAD
)  # fmt: skip
TYPES: Final = (CLASSIC, "consumer")
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})


@click.group()
def groups() -> None:
    """Consumer groups: list, describe, reset offsets, delete."""


groups.add_command(reset_offsets)


@groups.command("list")
@click.option(
    "--state", "states", is_flag=False, flag_value="", help="Only in these states, such as stable,empty."
)
@click.option("--type", "types", is_flag=False, flag_value="", help="Only of these types, such as classic.")
@cluster_options
@format_option
def list_(
    target: Target, timeout_s: float, states: str | None, types: str | None, output_format: str
) -> None:
    """List groups: their type, the protocol type of their members, their state."""
    request = ListGroups(_names("--state", states, STATES), _names("--type", types, TYPES))
    found = run(target, lambda brokers: list_groups(brokers, request), timeout_s=timeout_s)
    print_rows("groups", LISTED, [listed_row(each) for each in found], output_format)


def _names(option: str, text: str | None, valid: Sequence[str]) -> tuple[str, ...]:
    """Any case, as in Kafka; none means all. Raises WrongUsage: one is not valid."""
    spelled = {each.lower(): each for each in valid}
    given = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if not set(given) <= set(spelled):
        raise WrongUsage(f"{option}: expected some of {', '.join(valid)}; got {text!r}")
    return tuple(spelled[each] for each in given)


# -- describe --------------------------------------------------------------------------------------------


@groups.command()
@groups_options
@click.option("--offsets", is_flag=True, help="Partitions, committed offsets and lag.  [default]")
@click.option("--members", is_flag=True, help="The members.")
@click.option("--state", is_flag=True, help="Coordinator, state, number of members.")
@click.option("--verbose", is_flag=True, help="Also leader epochs, assignments, epochs of groups.")
@cluster_options
@format_option
def describe(
    target: Target,
    timeout_s: float,
    group_ids: tuple[str, ...],
    all_groups: bool,
    offsets: bool,
    members: bool,
    state: bool,
    verbose: bool,
    output_format: str,
) -> None:
    """Describe groups: how far each has read, who its members are, or its state."""
    if offsets + members + state > 1:
        raise WrongUsage("expected one of --offsets, --members and --state")

    async def ask(brokers: Brokers) -> list[tuple[Described, list[Row]]]:
        found = await describe_groups(brokers, await chosen(brokers, group_ids, all_groups=all_groups))
        missing = [each.group.group_id for each in found if each.group.state == DEAD]
        if missing:
            raise Failed(f"there is no group {', '.join(missing)}")
        if state:
            return [(each, [state_row(each)]) for each in found]
        if members:
            return [(each, member_rows(each.group)) for each in found]
        return [(each, await _offset_rows(brokers, each)) for each in found]

    described = run(target, ask, timeout_s=timeout_s)
    columns: tuple[str, ...] = STATE if state else MEMBERS if members else OFFSETS
    columns = columns if verbose else without(columns, *VERBOSE)
    rows = [{each: row[each] for each in columns} for _, found in described for row in found]
    for each, _ in described:
        _warn(each)
    if members and all(row["GROUP-INSTANCE-ID"] is None for row in rows) and output_format != JSON:
        columns = without(columns, "GROUP-INSTANCE-ID")
    print_rows("groups" if state else "members" if members else "offsets", columns, rows, output_format)


def _warn(described: Described) -> None:
    group = described.group
    if group.state == "Empty":
        click.echo(f"group {group.group_id} has no active members", err=True)
    elif group.state in REBALANCING:
        click.echo(f"group {group.group_id} is rebalancing: {group.state}", err=True)


async def _offset_rows(brokers: Brokers, described: Described) -> list[Row]:
    read = await committed(brokers, described.group.group_id)
    places = {(row["TOPIC"], row["PARTITION"]) for row in offset_rows(described.group, read, {})}
    return offset_rows(described.group, read, await offsets_at(brokers, dict.fromkeys(places, LATEST)))


# -- delete ----------------------------------------------------------------------------------------------


@groups.command()
@groups_options
@cluster_options
@format_option
def delete(
    target: Target, timeout_s: float, group_ids: tuple[str, ...], all_groups: bool, output_format: str
) -> int:
    """Delete groups without members, and their offsets. Exit status 1 if one could not be deleted."""

    async def ask(brokers: Brokers) -> list[Row]:
        group_ids_ = await chosen(brokers, group_ids, all_groups=all_groups)
        return [{"GROUP": each, "STATUS": _status(await delete_group(brokers, each))} for each in group_ids_]

    return _done("groups", ("GROUP", "STATUS"), run(target, ask, timeout_s=timeout_s), output_format)


@groups.command("delete-offsets")
@click.option("--group", "group_id", required=True, help="Which group.")
@topic_option
@cluster_options
@format_option
def delete_offsets_(
    target: Target, timeout_s: float, group_id: str, topics: tuple[str, ...], output_format: str
) -> int:
    """Forget what a group committed of topics that it does not read now.

    Exit status 1 if one could not be forgotten.
    """
    wanted = parse_topics(topics)
    if not wanted:
        raise WrongUsage("expected --topic")

    async def ask(brokers: Brokers) -> list[Row]:
        read = await committed(brokers, group_id)
        known = await partitions_of(brokers, [topic for topic, indexes in wanted.items() if indexes is None])
        places = {place for place in read if place[0] in wanted and wanted[place[0]] is None}
        places |= {(topic, index) for topic, indexes in known.items() for index in indexes}
        places |= {(topic, index) for topic, indexes in wanted.items() for index in indexes or ()}
        answers = await delete_offsets(brokers, group_id, places)
        missing = sorted(
            {topic for topic, indexes in wanted.items() if indexes is None} - {each for each, _ in places}
        )
        rows = [_deleted(topic, None, _unknown(topic)) for topic in missing]
        return [*rows, *(_deleted(*place, error) for place, error in sorted(answers.items()))]

    done = run(target, ask, timeout_s=timeout_s)
    return _done("partitions", ("TOPIC", "PARTITION", "STATUS"), done, output_format)


def _deleted(topic: str, index: int | None, error: Exception | None) -> Row:
    return {"TOPIC": topic, "PARTITION": index, "STATUS": _status(error)}


def _unknown(topic: str) -> Exception:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error_for(code, f"{code.name}: there is no topic {topic}")


SUCCESSFUL: Final = "Successful"


def _status(error: Exception | None) -> str:
    return SUCCESSFUL if error is None else f"Error: {error}"


def _done(name: str, columns: Sequence[str], rows: Sequence[Row], output_format: str) -> int:
    print_rows(name, columns, rows, output_format)
    return 0 if all(row["STATUS"] == SUCCESSFUL for row in rows) else 1
