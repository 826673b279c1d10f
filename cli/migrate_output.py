"""How ``fencepost migrate`` says what it found: lines that a human understands, or one JSON document."""

from typing import Any

import click
from msgspec.structs import asdict

from fencepost.cli.highest_id import Seen
from fencepost.cli.migrate_source import Source
from fencepost.cli.output import JSON, echo_json
from fencepost.cluster.console import lines, table
from fencepost.wire.k20021_migrate import Migrated


def print_answer(
    answer: Migrated | None,
    output_format: str,
    *,
    source: Source | None = None,
    seen: Seen | None = None,
) -> None:
    """One line that a human understands, and what else there is to say; or JSON."""
    if output_format == JSON:
        result: dict[str, Any] = {} if answer is None else _plain(answer)
        if source is not None:
            result["source"] = {
                **source._asdict(),
                "fence": None if source.fence is None else source.fence._asdict(),
            }
        if seen is not None:
            result["highest_producer_id"] = seen.producer_id
        echo_json(result)
        return
    if source is not None:
        ids = (
            "no block was ever given out"
            if source.block_end < 0
            else f"its last block ends at {source.block_end}"
        )
        click.echo(f"ZooKeeper of Kafka cluster {source.ensemble}: {ids} (znode version {source.zk_version})")
        for remark in source.remarks:
            click.echo(f"  {remark}")
    if seen is not None:
        _print_seen(seen)
    if answer is None:
        click.echo("no fencepost cluster was contacted")
        return
    prefix = "dry run: " if answer.dry_run else ""
    following = f" Next: fencepost migrate {answer.next_command}" if answer.next_command else ""
    click.echo(f"{answer.phase}: {prefix}{answer.message}.{following}")
    if answer.progress:
        click.echo(f"  under way: {answer.progress}")
    for reason in answer.blocking:
        click.echo(f"  {'in the way' if answer.next_command else 'stands still'}: {reason}")
    for way in answer.ways if answer.blocking else ():
        click.echo(f"  way out: {way}")


def _plain(answer: Migrated) -> dict[str, Any]:
    result = asdict(answer)
    result["fence"] = None if answer.fence is None else asdict(answer.fence)
    result["zookeeper"] = None if answer.zookeeper is None else asdict(answer.zookeeper)
    return result


def _print_seen(seen: Seen) -> None:
    highest = "none" if seen.producer_id < 0 else f"{seen.producer_id} (in {seen.file})"
    click.echo(f"Highest producer id in {seen.files} files: {highest}")
    for remark in seen.remarks:
        click.echo(f"  {remark}")


def print_preflight(result: dict[str, Any], seen: Seen | None) -> None:
    """The verdict of a preflight, and what it rests on."""
    block = result["block"]
    facts: dict[str, object] = {
        "ZooKeeper": f"{result['zookeeper']}, of Kafka cluster {result['ensemble']}",
        "Block": "none"
        if block is None
        else f"[{block['first']}, {block['end']}) for broker {block['broker']}; ids go on at {block['end']}",
        "ZnodeVersion": "-" if result["zk_version"] is None else result["zk_version"],
        "Controller": "-" if result["controller"] is None else result["controller"],
        "Topics": result["topics"],
        "Phase": result["phase"] or "no fencepost cluster was contacted",
    }
    click.echo(lines(facts))
    if seen is not None:
        _print_seen(seen)
    _print_brokers(result["brokers"])
    for remark in result["remarks"]:
        click.echo(f"Note: {remark}")
    for reason in result["blocking"]:
        click.echo(f"Blocked: {reason}")
    click.echo(f"Verdict: {_verdict(result)}")


def _print_brokers(brokers: list[dict[str, Any]]) -> None:
    """One row each, and below it what the fence does to it."""
    blocks = {True: "Kafka's controller", False: "the znode itself", None: "unknown"}
    again = {True: "yes", False: "no", None: "unknown"}
    rows = [
        (each["broker_id"], each["address"] or "-", each["protocol"] or "unknown", each["known_from"] or "-",
         blocks[each["asks_controller"]], "no new ids", again[each["starts_again"]])
        for each in brokers
    ]  # fmt: skip
    if rows:
        header = (
            "BROKER",
            "ADDRESS",
            "PROTOCOL",
            "KNOWN FROM",
            "BLOCKS FROM",
            "BEHIND THE FENCE",
            "STARTS AGAIN",
        )
        click.echo("\n" + table(header, rows) + "\n")
    for each in brokers:
        for reason in each["reasons"]:
            click.echo(f"Broker {each['broker_id']}: {reason}")
    for after in dict.fromkeys(each["after_the_fence"] for each in brokers):
        alike = [each["broker_id"] for each in brokers if each["after_the_fence"] == after]
        click.echo(f"{brokers_named(alike)} behind the fence: {after}")


def _verdict(result: dict[str, Any]) -> str:
    if result["verdict"] != "cuts-off":
        return str(result["verdict"])
    brokers = result["brokers"]
    cut_off = brokers_named([each["broker_id"] for each in brokers]).lower()
    text = f"bridge and import may go ahead; the fence cuts off {cut_off}"
    stuck = [each["broker_id"] for each in brokers if not each["starts_again"]]
    return text if not stuck else f"{text}; not to be stopped behind it: {brokers_named(stuck).lower()}"


def brokers_named(ids: list[int]) -> str:
    """``Broker 1`` or ``Brokers 1, 2``."""
    return f"Broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
