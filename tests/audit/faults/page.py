"""``python -m tests.audit.faults.page``: write docs/audit-faults.md, what is planted and who finds it.

Each fault is planted once, in the first of the logs that has a place for it; what is expected of the audit is
what the planter says. A test holds the page against the table, and each planting against the page.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from tests.audit.corpus import recording
from tests.audit.faults import cluster
from tests.audit.faults.fault import Planted
from tests.audit.faults.kinds import ALL, seed
from tests.audit.faults.words import WORDS
from tests.audit.kafka import fixture

PAGE: Final = Path(__file__).parents[3] / "docs/audit-faults.md"
SEED: Final = 7
HEAD: Final = """\
# Faults, and which check finds them

Each fault below is planted by the tests, one at a time and by bytes, into logs that the audit calls clean:
recordings of a cluster of fencepost and of three brokers of Apache Kafka. A checksum is made right where the
fault is not the checksum. The audit has to name each once, with file and position, and with the producer id
and transaction where there are some; whatever follows from it is listed below that finding. Where several
checks are named, the first that can tell what happened does. `make audit-faults` plants by chance, as many
seeds as are wanted.

*Unknown* is what no reader of the logs could decide; the reason stands beside it. So is each batch and marker
of a producer of which no coordinator's log tells on that partition, in the first minute that these logs tell
of: it may belong to what compaction took, as clocks of machines differ.

| fault | planted as | found by |
|---|---|---|
"""

Sources = Mapping[str, Path]


def unpacked(home: Path, recorded: Callable[[str], Path] | None = None) -> Sources:
    """The logs that faults are planted in, in the order in which they are tried.

    ``recorded``   opens a recording; None: in ``home``.
    """
    opened = recorded or partial(recording.unpack, home)
    stopped = [each for each in recording.names() if each.endswith("-stopped")]
    return {
        "fencepost": cluster.unpacked(home / "fencepost"),
        "groups": cluster.unpacked(home / "groups", cluster.GROUPS),
        "kafka": fixture.unpack(home / "kafka"),
        **{name: opened(name) for name in stopped},
    }


def planted(sources: Sources, kind: str, variant: str, copy: Path) -> Planted | None:
    """The fault in a copy of the first source that has a place for it."""
    for source in sources.values():
        shutil.rmtree(copy, ignore_errors=True)
        seeded = seed(source, copy, [(kind, variant)], Random(SEED))
        if seeded:
            return seeded[0].planted
    return None


def expected(fault: Planted) -> str:
    """The last cell of its row."""
    if fault.unknown:
        return f"*unknown*: {fault.unknown}"
    rules = {rule if "." in rule else f"{fault.check}.{rule}" for rule in fault.rules}
    first = sorted(each for each in rules if each.startswith(f"{fault.check}."))
    return ", ".join(f"`{each}`" for each in (*first, *sorted(rules - {*first})))


def row(kind: str, variant: str, cell: str, *, is_first: bool) -> str:
    return f"| {f'**{kind}**. {WORDS[kind]}' if is_first else ''} | {variant} | {cell} |"


def rows_of(text: str) -> dict[tuple[str, str], str]:
    """What the page expects, by kind and variant."""
    found = {}
    kind = ""
    for line in text.removeprefix(HEAD).splitlines():
        first, variant, cell = (each.strip() for each in line.strip("|").split("|"))
        kind = first.split("**")[1] if first else kind
        found[kind, variant] = cell
    return found


def _rows(home: Path) -> Iterator[str]:
    sources = unpacked(home)
    for kind, variants in ALL.items():
        for number, variant in enumerate(variants):
            fault = planted(sources, kind, variant, home / "copy")
            if fault is None:
                raise ValueError(f"no logs have a place for {kind} ({variant})")
            yield row(kind, variant, expected(fault), is_first=number == 0)


def main() -> None:
    """Write the page anew."""
    with tempfile.TemporaryDirectory(prefix="fencepost-faults-") as home:
        PAGE.write_text(HEAD + "".join(f"{line}\n" for line in _rows(Path(home))), "utf-8")


if __name__ == "__main__":
    main()
