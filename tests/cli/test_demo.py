"""The demo: what it counts as torn, and that it ends well."""

import re
import threading

import pytest

from fencepost.bench.demo_transactions import RECORDS, Name, Writers, _records, judge
from fencepost.client.read_back import Seen
from fencepost.client.transactional_producer import Outcome
from fencepost.cluster.target import Target
from tests.harness.command import fencepost
from tests.together import table

ONE = Name(0, 7)
WHOLE = [Seen(0, offset, record.value or b"") for offset, record in enumerate(_records(ONE))]

JUDGED = [
    pytest.param(Outcome.COMMITTED, WHOLE, True, id="committed-and-whole"),
    pytest.param(Outcome.COMMITTED, WHOLE[1:], False, id="committed-and-torn"),
    pytest.param(Outcome.COMMITTED, [], False, id="committed-and-lost"),
    pytest.param(Outcome.COMMITTED, [*WHOLE, WHOLE[0]], False, id="committed-and-repeated"),
    pytest.param(Outcome.ABORTED, [], True, id="aborted-and-hidden"),
    pytest.param(Outcome.ABORTED, WHOLE, False, id="aborted-and-seen"),
    pytest.param(Outcome.ABORTED, WHOLE[:1], False, id="aborted-and-one-seen"),
    pytest.param(Outcome.UNKNOWN, [], True, id="unknown-and-hidden"),
    pytest.param(Outcome.UNKNOWN, WHOLE, True, id="unknown-and-whole"),
    pytest.param(Outcome.UNKNOWN, WHOLE[:2], False, id="unknown-and-torn"),
]


@table(("outcome", "seen", "sound"), JUDGED)
def test_what_is_seen_is_held_against_how_it_ended(outcome: Outcome, seen: list[Seen], sound: bool) -> None:
    verdict = judge({ONE: outcome}, seen, hidden=0)
    assert (not verdict.faults) is sound
    assert verdict.ended[outcome] == 1
    assert verdict.seen[outcome] == (len(seen) == RECORDS)


def test_a_transaction_that_nobody_began_is_a_fault() -> None:
    assert judge({}, WHOLE, hidden=0).faults == ["transaction 7 of producer 0 is seen, and never ended"]


class Broken(Target):
    """Whose name cannot be had."""

    looked_at = threading.Event()

    @property
    def name(self) -> str:
        self.looked_at.set()
        raise ZeroDivisionError


def test_writers_that_end_by_a_bug_are_no_complete_run() -> None:
    with Writers(Broken(addresses=())) as writers:
        assert Broken.looked_at.wait(60)
        with pytest.raises(ZeroDivisionError):
            writers.stop()


def test_records_lie_on_two_partitions() -> None:
    assert len({record.partition for record in _records(ONE)}) == 2


@pytest.mark.slow
def test_the_demo_loses_its_leader_and_nothing_else() -> None:
    said = fencepost("demo")
    assert said.status == 0, said.stdout + said.stderr
    *_, transactions, ids = said.stdout.splitlines()
    found = re.fullmatch(
        r"transactions committed (\d+), seen (\d+); aborted (\d+), seen 0 \((\d+) records are hidden\); "
        r"torn or repeated 0",
        transactions,
    )
    assert found is not None, transactions
    committed, seen, aborted, hidden = map(int, found.groups())
    assert committed == seen > 0
    assert hidden >= aborted * RECORDS > 0
    assert re.fullmatch(r"ids handed out \d+, duplicates 0", ids)
