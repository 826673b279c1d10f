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
        click.echo(f"  in the way: {reason}")


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


def print_preflight(result: dict[str, Any], is_ready: bool, seen: Seen | None) -> None:
    """The verdict of a preflight, and what it rests on."""
    block = result["block"]
    facts: dict[str, object] = {
        "ZooKeeper": f"{result['zookeeper']}, of Kafka cluster {result['ensemble']}",
        "Block": "none"
        if block is None
        else f"[{block['first']}, {block['end']}) of broker {block['broker']}; ids go on at {block['end']}",
        "ZnodeVersion": "-" if result["zk_version"] is None else result["zk_version"],
        "Controller": "-" if result["controller"] is None else result["controller"],
        "Topics": result["topics"],
        "Phase": result["phase"] or "no fencepost cluster was contacted",
    }
    click.echo(lines(facts))
    if seen is not None:
        _print_seen(seen)
    rows = [
        (each["broker_id"], each["address"] or "-", each["protocol"] or "unknown",
         "yes" if each["ready"] else "no")
        for each in result["brokers"]
    ]  # fmt: skip
    if rows:
        click.echo("\n" + table(("BROKER", "ADDRESS", "PROTOCOL", "READY"), rows) + "\n")
    for each in result["brokers"]:
        for reason in each["reasons"]:
            click.echo(f"Broker {each['broker_id']}: {reason}")
    for remark in result["remarks"]:
        click.echo(f"Note: {remark}")
    for reason in result["blocking"]:
        click.echo(f"Blocked: {reason}")
    not_ready = [str(each["broker_id"]) for each in result["brokers"] if not each["ready"]]
    if is_ready:
        click.echo("Verdict: ready")
    elif result["blocking"]:
        click.echo("Verdict: blocked")
    else:
        names = ", ".join(not_ready)
        click.echo(f"Verdict: bridge and import may go ahead; the fence would stop broker {names}")
