"""What the coordinator announces of open transactions: to whom, when, and as of which image."""

from tests.quorum.coordinator import TOPIC, Bench
from wire.k20024_announce_partitions import Announcement


def test_each_partition_leader_is_told_its_own_part_as_of_the_decisions_image(bench: Bench) -> None:
    pair = bench.begun("alice", 0, 1)
    first, second = bench.announced
    version = bench.rig[1].image.header.version
    assert (first.broker_id, second.broker_id) == (1, 2)
    (told,) = first.request.announcements
    assert told == Announcement(*pair, told.image_version, ((TOPIC, (0,)),))
    assert told.image_version <= version
    bench.end("alice", pair)
    bench.settle()
    assert told.image_version < bench.row("alice").prepared_version, "a marker is newer than what began it"


def test_one_request_to_a_broker_is_under_way_and_what_comes_meanwhile_shares_the_next(bench: Bench) -> None:
    for name in ("alice", "bob", "carol"):
        bench.begun(name, 0)
    (only,) = bench.announced
    assert len(only.request.announcements) == 1
    only.done(None)
    (_, following) = bench.announced
    assert len(following.request.announcements) == 2


def test_what_a_lost_broker_was_to_be_told_is_forgotten(bench: Bench) -> None:
    for name in ("alice", "bob"):
        bench.begun(name, 0)
    bench.announced[0].done(ConnectionError("gone"))
    assert len(bench.announced) == 1
    bench.begun("carol", 0)
    assert len(bench.announced) == 2


def test_a_refused_addition_is_not_announced(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.announced[0].done(None)
    bench.add("alice", (pair[0], pair[1] + 1), 1)
    bench.settle()
    assert len(bench.announced) == 1
