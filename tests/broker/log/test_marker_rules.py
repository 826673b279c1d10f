"""What a partition makes of a marker: every combination of what is open, epochs, versions and force."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log.producer_state import Producer, ProducerStates
from fencepost.broker.log.shapes import NO_OFFSET, VerificationGuard
from fencepost.controller.errors import (
    ApiError,
    InvalidProducerEpoch,
    InvalidTxnState,
    TransactionCoordinatorFenced,
)
from fencepost.records.batch import batch_header
from fencepost.records.end_marker import IMAGE_VERSION_MAX, EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId
from tests.broker.log.builders import NOW_MS, append, batch, crash, end_transaction, memory, open_log
from tests.together import table

P = ProducerId(7)
EPOCH = 5  # that the partition knows
VERSION = 9  # of the last marker that it knows
COORDINATOR_EPOCH = 3
FIRST = Offset(100)

APPENDED, NONE, OLD, FENCED = "appended", "none", InvalidProducerEpoch, TransactionCoordinatorFenced


def states(*, is_open: bool) -> ProducerStates:
    made = ProducerStates()
    made.restore(
        {
            P: Producer(
                epoch=EPOCH,
                coordinator_epoch=COORDINATOR_EPOCH,
                transaction_first=FIRST if is_open else NO_OFFSET,
                marker_version=ImageVersion(VERSION),
            )
        }
    )
    return made


def marker(
    epoch: int, version: int, coordinator_epoch: int = COORDINATOR_EPOCH, *, bumps_epoch: bool = False
) -> EndMarker:
    return EndMarker(
        producer_id=P,
        producer_epoch=epoch,
        committed=True,
        coordinator_epoch=coordinator_epoch,
        version=ImageVersion(version),
        bumps_epoch=bumps_epoch,
    )


FOREIGN, LATE, SAME, NEW = 0, VERSION - 1, VERSION, VERSION + 1

EXPECTED: dict[tuple[bool, str, int, bool], Any] = {
    # (open, epoch, version, forced): outcome. A version is only there if the connection was proved.
    **{(is_open, "below", FOREIGN, forced): OLD for is_open, forced in product((True, False), repeat=2)},
    **{
        (is_open, epoch, FOREIGN, forced): APPENDED
        for is_open, epoch, forced in product((True, False), ("equal", "above"), (True, False))
    },
    **dict.fromkeys(product((True, False), ("below", "equal", "above"), (LATE, SAME), (True, False)), NONE),
    **{
        (is_open, epoch, NEW, forced): APPENDED
        for is_open, epoch, forced in product((True, False), ("equal", "above"), (True, False))
    },
    (False, "below", NEW, False): NONE,  # nothing of its transaction can come
    (True, "below", NEW, False): OLD,  # wedged
    (False, "below", NEW, True): APPENDED,
    (True, "below", NEW, True): APPENDED,
}
EPOCHS = {"below": EPOCH - 1, "equal": EPOCH, "above": EPOCH + 1}


def test_every_combination_is_there() -> None:
    assert len(EXPECTED) == 2 * 3 * 4 * 2


@table(
    ("case", "outcome"),
    EXPECTED.items(),
    ids=[
        f"{'open' if is_open else 'closed'}-{epoch}-version-{version}-{'forced' if forced else 'plain'}"
        for is_open, epoch, version, forced in EXPECTED
    ],
)
def test_a_marker(case: tuple[bool, str, int, bool], outcome: Any) -> None:
    is_open, epoch, version, forced = case
    made = states(is_open=is_open)
    before = dict(made.table)
    sent = marker(EPOCHS[epoch], version)
    if outcome not in (APPENDED, NONE):
        with pytest.raises(outcome):
            made.check_marker(sent, forced=forced)
    else:
        assert made.check_marker(sent, forced=forced) == (outcome == APPENDED)
    assert made.table == before, "checking changed something"
    if outcome == APPENDED:
        ended = made.take_marker(sent, Offset(200), NOW_MS, NOW_MS)
        assert (ended is not None) == is_open
        assert made.first_unstable() is None
        assert made.table[P].epoch == max(EPOCH, EPOCHS[epoch]), "an epoch never goes back"
        assert made.table[P].marker_version == max(VERSION, version)
        again = made.check_marker(sent, forced=forced) if version == NEW else False
        assert not again, "a repetition is none's end"


V2: dict[tuple[bool, str, int, bool], Any] = {
    **EXPECTED,
    # A marker of transactions V2 has an epoch that no batch of its transaction has.
    (False, "equal", FOREIGN, False): NONE,
    (False, "equal", FOREIGN, True): NONE,
    (False, "below", FOREIGN, False): NONE,
    (False, "below", FOREIGN, True): NONE,
    (True, "equal", FOREIGN, False): OLD,
    (True, "equal", FOREIGN, True): OLD,
    (False, "equal", NEW, False): NONE,
    (True, "equal", NEW, False): OLD,  # wedged: it would end a later transaction
}


@pytest.mark.row("939.10")
@pytest.mark.parametrize("case", V2, ids=lambda case: "-".join(map(str, case)))
def test_a_marker_of_transactions_v2(case: tuple[bool, str, int, bool]) -> None:
    is_open, epoch, version, forced = case
    made = states(is_open=is_open)
    sent = marker(EPOCHS[epoch], version, bumps_epoch=True)
    if V2[case] in (APPENDED, NONE):
        assert made.check_marker(sent, forced=forced) == (V2[case] == APPENDED)
    else:
        with pytest.raises(V2[case]):
            made.check_marker(sent, forced=forced)


@pytest.mark.parametrize(
    ("asked", "epoch", "bumps_epoch", "stays"),
    [
        pytest.param(EPOCH + 1, EPOCH + 1, True, True, id="v2-ends-the-transaction-before-it"),
        pytest.param(EPOCH, EPOCH + 1, True, False, id="v2-ends-it"),
        pytest.param(EPOCH, EPOCH, False, False, id="v1-ends-it"),
        pytest.param(EPOCH + 1, EPOCH + 1, False, False, id="v1-may-end-it"),
    ],
)
def test_what_is_asked_about_the_next_transaction_outlives_the_marker_of_the_last(
    asked: int, epoch: int, bumps_epoch: bool, stays: bool
) -> None:
    """A client of transactions V2 begins its next one while the markers of the last are on their way."""
    made = states(is_open=False)
    guard = made.verification_guard(P, asked, 0, NOW_MS)
    made.take_marker(marker(epoch, NEW, bumps_epoch=bumps_epoch), Offset(150), NOW_MS, NOW_MS)
    header = batch_header(batch(P, 0, epoch=max(asked, epoch), transactional=True))
    if stays:
        made.check(header, guard, verification=True)
    else:
        with pytest.raises(InvalidTxnState):
            made.check(header, guard, verification=True)


@table(
    ("version", "coordinator_epoch", "outcome"),
    [
        pytest.param(FOREIGN, COORDINATOR_EPOCH - 1, FENCED, id="foreign-older"),
        pytest.param(FOREIGN, COORDINATOR_EPOCH, APPENDED, id="foreign-same"),
        pytest.param(NEW, COORDINATOR_EPOCH - 1, APPENDED, id="its-version-is-newer-whoever-leads"),
        pytest.param(SAME, COORDINATOR_EPOCH + 1, NONE, id="its-version-is-not"),
    ],
)
@table("is_open", [True, False], ids=["open", "closed"])
def test_coordinator_epochs(is_open: bool, version: int, coordinator_epoch: int, outcome: Any) -> None:
    made = states(is_open=is_open)
    sent = marker(EPOCH, version, coordinator_epoch)
    if outcome is FENCED:
        with pytest.raises(TransactionCoordinatorFenced):
            made.check_marker(sent)
    else:
        assert made.check_marker(sent) == (outcome == APPENDED)


def test_what_a_foreign_marker_claims_of_its_coordinator_stops_no_marker_of_ours() -> None:
    made = states(is_open=False)
    made.take_marker(marker(EPOCH, FOREIGN, 2**31 - 1), Offset(150), NOW_MS, NOW_MS)
    header = batch_header(batch(P, 0, epoch=EPOCH, transactional=True))
    made.take(header, Offset(151), NOW_MS)
    assert made.check_marker(marker(EPOCH, NEW))


@pytest.mark.parametrize("version", [IMAGE_VERSION_MAX + 1, 2**63 - 1], ids=["one-past", "the-highest"])
def test_a_version_that_no_coordinator_has_is_forgotten(version: int) -> None:
    """Logs and snapshots of a version that took such a marker from any sender heal when they are opened."""
    recovered = ProducerStates()
    recovered.take_marker(marker(EPOCH, version), Offset(1), NOW_MS, NOW_MS)
    assert recovered.table[P].marker_version == 0
    restored = ProducerStates()
    restored.restore({P: Producer(epoch=EPOCH, marker_version=ImageVersion(version))})
    assert restored.table[P].marker_version == 0
    assert restored.check_marker(marker(EPOCH, NEW))


def test_the_highest_version_is_kept() -> None:
    made = ProducerStates()
    made.restore({P: Producer(epoch=EPOCH, marker_version=IMAGE_VERSION_MAX)})
    made.take_marker(marker(EPOCH, IMAGE_VERSION_MAX), Offset(1), NOW_MS, NOW_MS)
    assert made.table[P].marker_version == IMAGE_VERSION_MAX


# -- what a marker that is passed over makes void ----------------------------------------


@pytest.mark.parametrize(
    ("asked", "void"),
    [
        pytest.param(EPOCH - 1, True, id="of-the-markers-epoch"),
        pytest.param(EPOCH - 2, True, id="of-an-older-one"),
        pytest.param(EPOCH, False, id="of-a-newer-one"),
    ],
)
def test_what_was_allowed_to_its_epoch_opens_nothing(asked: int, void: bool) -> None:
    made = states(is_open=False)
    guard = made.verification_guard(P, asked, 0, NOW_MS)
    made._announced[P] = asked
    passed = marker(EPOCH - 1, NEW)
    assert not made.check_marker(passed)
    made.pass_over(passed)
    assert (made.verification_guard(P, asked, 0, NOW_MS) != guard) == void
    assert made.is_announced(P, asked) == (not void)


def test_a_late_duplicate_makes_nothing_void() -> None:
    made = states(is_open=False)
    guard = made.verification_guard(P, EPOCH, 0, NOW_MS)
    late = marker(EPOCH, SAME)
    assert not made.check_marker(late)
    made.pass_over(late)
    assert made.verification_guard(P, EPOCH, 0, NOW_MS) == guard


# -- batches of another epoch than the open transaction's ----------------------------------------


@pytest.mark.parametrize("guarded", [True, False], ids=["verified", "not-verified"])
@pytest.mark.parametrize("ahead", [1, 7], ids="epoch+{}".format)
def test_a_batch_of_a_newer_epoch_is_verified_like_a_first_one(ahead: int, guarded: bool) -> None:
    made = states(is_open=True)
    guard = made.verification_guard(P, EPOCH + ahead, 0, NOW_MS)
    assert guard is not None, "the coordinator is to be asked"
    header = batch_header(batch(P, 0, epoch=EPOCH + ahead, transactional=True))
    if guarded:
        made.check(header, guard, verification=True)
        return
    for wrong in (None, VerificationGuard(guard + 1)):
        with pytest.raises(InvalidTxnState):
            made.check(header, wrong, verification=True)


@pytest.mark.parametrize(
    ("epoch", "refusal"),
    [
        pytest.param(EPOCH, None, id="its-own-epoch"),
        pytest.param(EPOCH - 1, InvalidProducerEpoch, id="an-older-one"),
    ],
)
def test_a_batch_of_its_epoch_or_an_older_one_needs_no_question(
    epoch: int, refusal: type[ApiError] | None
) -> None:
    made = states(is_open=True)
    assert made.verification_guard(P, epoch, 0, NOW_MS) is None
    header = batch_header(batch(P, 0, epoch=epoch, transactional=True))
    if refusal is None:
        made.check(header, None, verification=True)
        return
    with pytest.raises(refusal):
        made.check(header, None, verification=True)


@pytest.mark.parametrize("ahead", [0, 1, 7], ids="epoch+{}".format)
def test_a_batch_of_no_transaction_is_refused_while_one_is_open(ahead: int) -> None:
    made = states(is_open=True)
    with pytest.raises(InvalidTxnState):
        made.check(batch_header(batch(P, 0, epoch=EPOCH + ahead)), None, verification=True)


@pytest.mark.parametrize("transactional", [True, False], ids=["own-in-one", "own-in-none"])
def test_a_strangers_batch_is_not_repeated_by_one_of_the_producer(transactional: bool) -> None:
    """The same epoch and sequences, written before that epoch was given out: it would be lost."""
    made = ProducerStates()
    made.take(batch_header(batch(P, 0, epoch=6, transactional=not transactional)), Offset(0), NOW_MS)
    own = batch_header(batch(P, 0, epoch=6, transactional=transactional))
    assert made.duplicate(own) is None
    again = batch_header(batch(P, 0, epoch=6, transactional=not transactional))
    assert made.duplicate(again) is not None


# -- in a log ----------------------------------------


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "closed"])
def test_a_forced_marker_means_the_same_to_the_next_opening(
    tmp_path: Path, committed: bool, killed: bool
) -> None:
    log = open_log(tmp_path / "before")
    append(log, batch(7, 0, epoch=0, transactional=True), batch(7, 0, epoch=6, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, P, committed=committed, version=NEW)
    assert end_transaction(log, P, committed=committed, version=NEW, forced=True).appended
    log.flush()
    if killed:
        again = open_log(crash(log, tmp_path / "after"))
    else:
        log.close()
        again = open_log(tmp_path / "before")
    assert memory(again) == memory(log)
    assert (again.last_stable_offset, again.end) == (3, 3)
    assert len(again.aborted(Offset(0), Offset(3))) == (0 if committed else 1)
    assert not end_transaction(again, P, committed=committed, version=NEW, forced=True).appended
    again.close()
