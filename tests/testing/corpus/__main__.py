"""``python -m tests.testing.corpus``: known exactly-once bugs, each found by a test of the kit; how-to pages.

Table    bug, library, seconds until it was found, the longest of the right application's runs.
Options  --runs N of each right application (1); --only NAME; --nodes N (3).
Status   1 if a bug was not found in time, or a right application did not pass. What this machine cannot run
         is NOT RUN, with the reason.
"""

import argparse
import sys
import time
import traceback
from typing import Final

from fencepost.cluster.console import table
from fencepost.testing import Cluster, RunningCluster
from tests.clients.players import NotHere
from tests.testing.corpus.copying import COPYING
from tests.testing.corpus.how_to import HOW_TOS, HowTo
from tests.testing.corpus.other_clients import OTHERS
from tests.testing.corpus.other_languages import OTHER_LANGUAGES
from tests.testing.corpus.producing import PRODUCING
from tests.testing.corpus.world import Case, World

CASES: Final = (*COPYING, *PRODUCING, *OTHERS, *OTHER_LANGUAGES)
FOUND_S_MAX: Final = 60.0
PASSED_S_MAX: Final = 10.0


def found_in(cluster: RunningCluster, case: Case) -> tuple[float, str]:
    """How long the test took to find the bug, and what it said; nothing, if it did not find it."""
    began = time.monotonic()
    said = ""
    try:
        case.test(World(cluster), case.wrong)
    except NotHere:
        raise
    except AssertionError as finding:
        said = " ".join(str(finding).splitlines()[:3])
    except Exception:  # noqa: BLE001  (the application ended otherwise than by the bug)
        traceback.print_exc()
    finally:
        cluster.faults.clear()
    return time.monotonic() - began, said


def passes(cluster: RunningCluster, case: Case) -> float:
    """How long the right application took. Raises AssertionError."""
    began = time.monotonic()
    case.test(World(cluster), case.right)
    left = cluster.faults.clear()
    assert not left, f"left armed: {left}"
    return time.monotonic() - began


def row(cluster: RunningCluster, case: Case, runs: int) -> tuple[bool, tuple[object, ...]]:
    """Whether all is well, and the line of the table."""
    try:
        found_s, said = found_in(cluster, case)
    except NotHere as reason:
        return True, (case.name, case.library, "NOT RUN", "", "", str(reason))
    longest_s, passed = 0.0, 0
    for _ in range(runs):
        try:
            longest_s = max(longest_s, passes(cluster, case))
        except Exception:  # noqa: BLE001  (whatever it is, the right application did not pass)
            traceback.print_exc()
            cluster.faults.clear()
            continue
        passed += 1
    is_well = bool(said) and found_s <= FOUND_S_MAX and passed == runs and longest_s <= PASSED_S_MAX
    cells = (case.name, case.library, f"{found_s:.1f} s" if said else "NOT FOUND", f"{passed} of {runs}",
             f"{longest_s:.1f} s", case.bug)  # fmt: skip
    return is_well, cells


def page_row(page: HowTo) -> tuple[bool, tuple[object, ...]]:
    """The same of a page, whose application is right."""
    try:
        cells = ("1 of 1", f"{page.run():.1f} s", "")
    except NotHere as reason:
        return True, (page.name, page.library, "NOT RUN", "", "", str(reason))
    except Exception:  # noqa: BLE001  (as above)
        traceback.print_exc()
        return False, (page.name, page.library, "", "0 of 1", "", "")
    return True, (page.name, page.library, "", *cells)


def main(arguments: list[str] | None = None) -> int:
    """Run them on one cluster and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", action="append", choices=[each.name for each in (*CASES, *HOW_TOS)])
    parser.add_argument("--nodes", type=int, default=3)
    chosen = parser.parse_args(arguments)
    rows, is_well = [], True

    def add(well: bool, cells: tuple[object, ...]) -> None:
        nonlocal is_well
        sys.stderr.write(f"{'' if well else 'NOT WELL: '}{cells[0]}\n")
        rows.append(cells)
        is_well = is_well and well

    cases = [each for each in CASES if chosen.only is None or each.name in chosen.only]
    if cases:
        with Cluster(chosen.nodes, faults=True, config={"group.min.session.timeout.ms": 1000}) as cluster:
            for case in cases:
                add(*row(cluster, case, chosen.runs))
    for page in HOW_TOS:
        if chosen.only is None or page.name in chosen.only:
            add(*page_row(page))
    heads = ("CASE", "LIBRARY", "FOUND IN", "RIGHT ONE PASSES", "LONGEST", "BUG")
    sys.stdout.write(table(heads, rows) + "\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
