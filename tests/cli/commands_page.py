"""Prints the table of docs/commands.md: ``python -m tests.cli.commands_page``."""

import click

from tests.cli.test_documents import LEAVES

if __name__ == "__main__":
    for name, command in LEAVES.items():
        click.echo(f"| `{name}` | {command.get_short_help_str(200)} |")
