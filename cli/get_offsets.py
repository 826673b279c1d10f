"""``fencepost get-offsets``: the offsets of partitions at a time, by default where they end.

Flags and lines are those of ``kafka-get-offsets``; JSON has the columns' names.
Exit status  1: no partition matches; 3: the offset of a partition is not known now, the others are printed.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click

from fencepost.cli.group_calls import Place, offsets_at
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.wire.k02_list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from fencepost.wire.k03_metadata import TopicMetadata

TIMES: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": -4,
    "latest-tiered": -5,
}
NONE: Final = -1  # no record is that late, or none is in remote storage: left out, as by Kafka's tool

_RULE: Final = re.compile(r"(?P<topic>[^:,]*)(?::(?:(?P<one>[0-9]*)|(?P<first>[0-9]*)-(?P<end>[0-9]*)))?")

Filter = Callable[[str, int], bool]
"""A topic and a partition are wanted."""


@click.command("get-offsets")
@click.option("--topic", help="Topics whose whole name matches one of these expressions, by commas.")
@click.option("--partitions", help="Only these partitions: 0,1,2.")
@click.option(
    "--topic-partitions", metavar="TOPIC[:N|N-M],..",
    help="Partitions of topics, instead of both: orders:0, orders:0-3 (without 3), .*:5-, pay.*:-3, orders.",
)  # fmt: skip
@click.option(
    "--time", "when", default="latest", show_default=True,
    help=f"{', '.join(TIMES)}, their numbers from -1 down, or milliseconds since 1970.",
)  # fmt: skip
@click.option("--exclude-internal-topics", is_flag=True, help="Without topics of the cluster itself.")
@broker_options
@format_option
def get_offsets(
    directory: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    when: str,
    exclude_internal_topics: bool,
    output_format: str,
) -> int:
    """Print TOPIC:PARTITION:OFFSET of partitions: where each ends, or its offset at a time."""
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise WrongUsage("expected --topic-partitions, or --topic and --partitions")
    time_ms = _time_ms(when)
    wanted = _any_of(topic_partitions) if topic_partitions is not None else _both(topic, partitions)

    async def ask(brokers: Brokers) -> tuple[list[Place], dict[Place, int]]:
        known = await brokers.topics()
        places = sorted(_places(known, wanted, with_internal=not exclude_internal_topics))
        return places, await offsets_at(brokers, dict.fromkeys(places, time_ms))

    places, found = run(find_brokers(directory, bootstrap_server, command_config), ask)
    if not places:
        raise Failed("no partition matches")
    rows = [(*place, found[place]) for place in places if found.get(place, NONE) != NONE]
    if output_format == JSON:
        columns = ("topic", "partition", "offset")
        echo_json({"offsets": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        for row in rows:
            click.echo(":".join(map(str, row)))
    missing = [f"{name}-{index}" for name, index in places if (name, index) not in found]
    if missing:
        raise Unreadable(f"no broker leads {', '.join(missing)}: no offset is known")
    return 0


def _time_ms(text: str) -> int:
    """Raises WrongUsage."""
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise WrongUsage(f"--time: expected {', '.join(TIMES)} or a number, got {text!r}") from None


def _places(topics: Iterable[TopicMetadata], wanted: Filter, *, with_internal: bool) -> list[Place]:
    return [
        (topic.name, each.partition_index)
        for topic in topics
        if topic.name is not None and (with_internal or not topic.is_internal)
        for each in topic.partitions
        if wanted(topic.name, each.partition_index)
    ]


def _both(topic: str | None, partitions: str | None) -> Filter:
    """Raises WrongUsage."""
    pattern = _pattern("--topic", topic)
    if not partitions:
        return lambda name, _: pattern.fullmatch(name) is not None
    try:
        indexes = {int(each) for each in partitions.split(",")}
    except ValueError:
        raise WrongUsage(f"--partitions: expected numbers as 0,1,2; got {partitions!r}") from None
    return lambda name, index: pattern.fullmatch(name) is not None and index in indexes


def _any_of(text: str) -> Filter:
    """Raises WrongUsage."""
    rules = [_rule(each) for each in text.split(",")]
    return lambda name, index: any(
        pattern.fullmatch(name) is not None and index in indexes for pattern, indexes in rules
    )


def _rule(text: str) -> tuple[re.Pattern[str], range]:
    """The name's expression, and the partitions. Raises WrongUsage."""
    parsed = _RULE.fullmatch(text)
    if parsed is None:
        raise WrongUsage(f"--topic-partitions: expected TOPIC[:N|N-M],.., got {text!r}")
    pattern = _pattern("--topic-partitions", parsed["topic"] or None)
    if parsed["one"]:
        return pattern, range(int(parsed["one"]), int(parsed["one"]) + 1)
    return pattern, range(int(parsed["first"] or 0), int(parsed["end"] or 2**31))


def _pattern(option: str, text: str | None) -> re.Pattern[str]:
    """An expression, or several by commas. None matches every name. Raises WrongUsage."""
    try:
        return re.compile(".*" if text is None else text.replace(",", "|"))
    except re.error as error:
        raise WrongUsage(f"{option}: {text!r} is no regular expression: {error}") from error
