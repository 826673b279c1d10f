"""A watch prints each finding once; its exit status says what it printed."""

import pytest

from fencepost.audit.report.verdict import Verdict
from tests.audit.report.verdicts import NONE, TORN, finding, found, verdict

FIRST = finding(position=1, detail="open for 61 s", at_ms=1)
AGAIN = FIRST._replace(detail="open for 62 s", at_ms=2)
OTHER = finding(position=2)


@pytest.mark.parametrize(
    ("looks", "reported", "status"),
    [
        pytest.param([verdict()], [], 0, id="clean"),
        pytest.param([verdict(found(FIRST)), verdict(found(AGAIN, OTHER))], [FIRST, OTHER], 1, id="once"),
        pytest.param([verdict(found(FIRST)), verdict()], [FIRST], 1, id="what-was-told-stays-told"),
        pytest.param([verdict(files=TORN)], [], 3, id="torn"),
        pytest.param([verdict(files=TORN), verdict()], [], 0, id="torn-no-more"),
        pytest.param([verdict(files=NONE)], [], 3, id="nothing-there"),
        pytest.param([], [], 3, id="never-looked"),
    ],
)
def test_a_watch_tells_what_is_new(looks: list[Verdict], reported: list[object], status: int) -> None:
    from fencepost.audit.jobs.watch import Watch

    said: list[object] = []
    coming = iter(looks)
    watch = Watch(lambda: next(coming), said.append)
    for _ in looks:
        watch.look()
    assert (said, watch.exit_status) == (reported, status)


def test_a_watch_ends_to_tell_at_its_most(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.audit.jobs import watch as job

    monkeypatch.setattr(job, "REPORTED_MAX", 2)
    said: list[object] = []
    watch = job.Watch(lambda: verdict(found(*(finding(position=each) for each in range(3)))), said.append)
    watch.look()
    assert len(said) == 2


def test_growth_is_seen_in_sizes(tmp_path_factory: pytest.TempPathFactory) -> None:
    from fencepost.audit.jobs.growth import state_of

    log = tmp_path_factory.mktemp("t") / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(b"")
    roots = [str(log.parent.parent)]
    empty = state_of(roots)
    assert state_of(roots) == empty
    log.write_bytes(b"x")
    assert state_of(roots) != empty
