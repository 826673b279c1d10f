"""What ended how: the table of ``make test-clients``."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import click

from fencepost.cluster.console import table
from tests.clients.players import CallFailed, Hangs, NotHere
from tests.clients.stories import StoryFailed

PASSED: Final = "passed"
FAILED: Final = "FAILED"
NOT_RUN: Final = "NOT RUN"
SAID_MAX: Final = 100


class Row(NamedTuple):
    """One row of the table."""

    client: str
    version: str
    scenario: str
    result: str
    said: str


def shortened(said: str) -> str:
    """What a table has place for."""
    return " ".join(said.split())[:SAID_MAX]


class Results:
    """What ended how, said as it ends."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def tell(self, client: str, version: str, scenario: str, story: Callable[[], str]) -> None:
        """Run it to its end."""
        began = time.monotonic()
        try:
            result, said = PASSED, story()
        except NotHere as error:
            result, said = NOT_RUN, str(error)
        except (StoryFailed, CallFailed, Hangs) as error:
            result, said = FAILED, str(error)
        except (Exception, AssertionError) as error:  # noqa: BLE001  (each library has its own)
            result, said = FAILED, repr(error)
        self.add(client, version, scenario, result, said, time.monotonic() - began)

    def add(
        self, client: str, version: str, scenario: str, result: str, said: str, seconds: float | None = None
    ) -> None:
        """One that ended, in so many seconds if that is known."""
        said = " ".join(said.split())
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        click.echo(f"{result:8} {client} {version}: {scenario}{took}: {said}")
        self.rows.append(Row(client, version, scenario, result, shortened(said)))

    def failed(self) -> bool:
        """Something did."""
        return any(row.result == FAILED for row in self.rows)

    def summary(self) -> str:
        """The table, and how many of each."""
        counted = Counter(row.result for row in self.rows)
        columns = ("CLIENT", "VERSION", "SCENARIO", "RESULT", "SAID")
        counts = ", ".join(f"{counted[each]} {each}" for each in (PASSED, FAILED, NOT_RUN))
        return f"{table(columns, self.rows)}\n\n{counts}"
