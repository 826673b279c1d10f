"""``fencepost schema``: JSON Schema of what commands print with ``--format json``."""

import json

import click

from fencepost.cli.documents.catalogue import DOCUMENTS, schema_of
from fencepost.cli.documents.catalogue import schema as whole
from fencepost.cluster.console import WrongUsage


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
def schema(words: tuple[str, ...]) -> None:
    """Print the JSON Schema of what COMMAND prints with --format json; of every command without one."""
    name = " ".join(words)
    if name and name not in DOCUMENTS:
        raise WrongUsage(f"no command {name!r} prints JSON; they are {', '.join(sorted(DOCUMENTS))}")
    click.echo(json.dumps(schema_of(name) if name else whole(), indent=2))
