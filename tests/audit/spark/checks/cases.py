"""Cases of the checks, by hand: what is in the logs, and what it is found to be. One fault, one finding."""

from collections.abc import Callable

from tests.audit.spark.checks.rows import Story

Expected = tuple[str, ...]
CASES: dict[str, tuple[Callable[[Story], None], Expected, bool]] = {}
"""By an id that reads as a sentence: a story; "check.rule" of each finding ("?check.rule": unknown); whether
it is told apart, among those that make the others' logs unknown."""


def case(*expected: str, apart: bool = False) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """The function's name is the case's."""

    def add(tell: Callable[[Story], None]) -> Callable[[Story], None]:
        CASES[tell.__name__.replace("_", "-")] = (tell, expected, apart)
        return tell

    return add


@case()
def commits_and_aborts_of_one_producer_in_two_partitions(s: Story) -> None:
    s.state("Empty")
    for committed in (True, False, True, True):
        s.transaction(partitions=(0, 1), committed=committed)


@case()
def batches_without_a_producer_and_idempotent_ones(s: Story) -> None:
    for _ in range(3):
        s.batch(count=5)
        s.data(producer=7, transactional=False)


@case()
def a_partition_that_was_added_and_never_written_to_has_its_marker(s: Story) -> None:
    s.transaction(partitions=(0, 1), written=(0,))


@case()
def an_abort_by_a_new_instance_is_at_the_next_epoch(s: Story) -> None:
    s.transaction(epoch=0)
    s.transaction(epoch=0, marker_epoch=1, committed=False)
    s.state("Empty", epoch=2)
    s.transaction(epoch=2)


@case()
def epochs_run_out_and_a_new_producer_id_begins_at_0(s: Story) -> None:
    s.transaction(epoch=32766)
    s.state("Empty", producer=1, epoch=0)
    s.transaction(producer=1, epoch=0)


@case()
def each_end_bumps_the_epoch(s: Story) -> None:
    for epoch in range(4):
        s.transaction(epoch=epoch, marker_epoch=epoch + 1, committed=epoch % 2 == 0, ours=False)


@case()
def a_transaction_that_is_still_being_ended_lacks_markers(s: Story) -> None:
    s.transaction()
    s.transaction(partitions=(0, 1), marked=(0,), complete=False)


@case()
def a_transaction_is_open_and_has_data(s: Story) -> None:
    s.transaction()
    s.state("Ongoing", partitions=(0,))
    s.data()


@case()
def a_topic_was_deleted_with_its_markers(s: Story) -> None:
    s.topic_event("created")
    s.transaction(written=(), marked=())
    s.topic_event("deleted", name=None)


@case()
def a_topic_was_deleted_and_made_again(s: Story) -> None:
    s.topic_event("created")
    s.transaction(written=(), marked=())
    s.topic_event("deleted")
    s.topic_event("created", topic_id="another")
    s.transaction(epoch=1)


@case("?offsets.hole")
def the_beginning_of_a_partition_is_no_longer_kept(s: Story) -> None:
    s.batch(at=100, count=10, partition=0)
    s._ends[s.topic, 0] = 110
    s.data(sequence=70, transactional=False)
    s.data(transactional=False)
    s.transaction(producer=1)


@case("?offsets.hole", "?markers.missing")
def a_marker_before_the_first_offset_that_is_kept(s: Story) -> None:
    s.transaction(written=(), marked=())
    s._ends[s.topic, 0] = 100
    s.transaction()


@case()
def an_operator_ended_a_hanging_transaction(s: Story) -> None:
    s.transaction()
    s.data()
    s.marker(committed=False, ours=False)
    s.transaction()


@case()
def a_compacted_topic_leaves_offsets_and_sequences_out(s: Story) -> None:
    s.topic_event("configured", config_key="cleanup.policy", config_value="compact,delete")
    s.data(producer=3, transactional=False)
    gone = s.data(producer=3, transactional=False)
    s.data(producer=3, transactional=False)
    s.lose(gone)


@case()
def sequences_wrap_after_the_largest_int32(s: Story) -> None:
    s.data(sequence=2**31 - 15, transactional=False)
    s.data(transactional=False)
    s.data(transactional=False)
    s.data(transactional=False)


@case()
def the_first_batch_that_is_kept_may_have_any_sequence(s: Story) -> None:
    s.data(sequence=500, transactional=False)
    s.data(transactional=False)


@case()
def a_forgotten_transactional_id_comes_back_with_a_new_producer_id(s: Story) -> None:
    s.transaction()
    s.state(None)
    s.state("Empty", producer=4)
    s.transaction(producer=4)


@case()
def blocks_of_any_length_grow(s: Story) -> None:
    for end in (s.first_id + 1, s.first_id + 500, s.first_id + 501):
        s.block(end)


@case("blocks.overlap")
def a_block_is_given_out_twice(s: Story) -> None:
    s.block(s.first_id + 300)
    s.block(s.first_id + 300, broker=2)
    s.block(s.first_id + 400)


@case("blocks.end_not_growing")
def a_block_ends_below_an_earlier_one(s: Story) -> None:
    s.block(s.first_id + 300)
    s.block(s.first_id + 200, broker=2)
    s.block(s.first_id + 400)


@case("blocks.hole")
def a_record_of_the_metadata_log_is_gone(s: Story) -> None:
    s.block(s.first_id + 100)
    gone = s.block(s.first_id + 200)
    s.block(s.first_id + 300)
    s.lose(gone)


@case("?blocks.hole")
def the_metadata_log_says_that_it_has_a_hole(s: Story) -> None:
    s.block(s.first_id + 100)
    gone = s.block(s.first_id + 200)
    s.block(s.first_id + 300)
    s.lose(gone)
    s.file(gone, kind="hole", base_offset=1, size=1)
    s.file(gone)


@case("integrity.unreadable", apart=True)
def a_record_of_the_metadata_log_cannot_be_read(s: Story) -> None:
    s.block(s.first_id + 100)
    hidden = s.block(s.first_id + 200)
    s.block(s.first_id + 300)
    s.hide(hidden, "unreadable")


@case("replicas.diverged")
def one_of_three_metadata_logs_has_another_record(s: Story) -> None:
    for end in (100, 200, 300):
        s.block(s.first_id + end)
    s.copy_log("__cluster_metadata", s.number, 2)
    other = s.copy_log("__cluster_metadata", s.number, 3)[1]
    other["crc"] = 99
    for each in s.tables["producer_id_blocks"]:
        if each["path"] == other["path"] and each["position"] == other["position"]:
            each["block_end"] = s.first_id + 100


@case("replicas.diverged")
def one_of_three_metadata_logs_lacks_two_records(s: Story) -> None:
    for end in (100, 200, 300, 400, 500):
        s.block(s.first_id + end)
    s.copy_log("__cluster_metadata", s.number, 2)
    other = s.copy_log("__cluster_metadata", s.number, 3)
    s.lose(other[1])
    s.lose(other[2])


@case()
def one_of_three_metadata_logs_is_shorter(s: Story) -> None:
    for end in (100, 200, 300, 400, 500):
        s.block(s.first_id + end)
    s.copy_log("__cluster_metadata", s.number, 2)
    other = s.copy_log("__cluster_metadata", s.number, 3)
    for row in (other[0], other[3], other[4]):
        s.lose(row)


@case("integrity.crc")
def a_flipped_byte_in_one_of_two_copies_of_a_partition(s: Story) -> None:
    s.transaction()
    s.transaction()
    copy = s.copy_log(s.topic, 0, 2)
    s.hide(copy[1])


@case("ids.outside_blocks")
def a_foreign_producer_writes_twice(s: Story) -> None:
    s.transaction()
    s.data(producer=10**9, transactional=False)
    s.transaction()
    s.data(producer=10**9, transactional=False, partition=1)


@case("ids.outside_blocks")
def the_producer_id_of_a_batch_is_changed(s: Story) -> None:
    s.transaction()
    s.state("Ongoing", partitions=(0,))
    s.data()
    s.data()["producer_id"] = 10**12
    s.data()
    s.state("PrepareCommit", partitions=(0,))
    s.marker()
    s.state("CompleteCommit")


@case("fencing.zombie")
def data_of_an_epoch_after_a_higher_one(s: Story) -> None:
    s.transaction(epoch=3)
    s.transaction(epoch=4)
    s.data(epoch=3)
    s.data(epoch=3)
    s.transaction(epoch=4)


@case("fencing.zombie")
def a_batch_in_the_middle_has_an_old_epoch(s: Story) -> None:
    s.transaction(epoch=3)
    s.state("Ongoing", epoch=4, partitions=(0,))
    s.data(epoch=4)
    s.data(epoch=4)["producer_epoch"] = 2
    s.data(epoch=4)
    s.state("PrepareCommit", epoch=4, partitions=(0,))
    s.marker(epoch=4)
    s.state("CompleteCommit", epoch=4)


@case("fencing.zombie")
def data_of_an_epoch_that_the_coordinator_left_long_ago(s: Story) -> None:
    s.transaction(epoch=3)
    s.state("Empty", epoch=4)
    s.later(5000)
    s.transaction(producer=1, name="another")
    s.data(epoch=3)


@case("epochs.reused")
def an_epoch_comes_back_in_the_coordinators_log(s: Story) -> None:
    s.transaction(epoch=3)
    s.transaction(epoch=4)
    s.state("Empty", epoch=3)
    s.transaction(epoch=5)


@case("epochs.reused")
def a_producer_id_comes_back_in_the_coordinators_log(s: Story) -> None:
    s.transaction(epoch=3)
    s.transaction(producer=1)
    s.state("Empty", epoch=4)
    s.transaction(producer=1)


@case("epochs.regressed")
def a_marker_of_a_lower_epoch(s: Story) -> None:
    s.transaction(epoch=3)
    s.transaction(epoch=4)
    s.marker(epoch=3)
    s.transaction(epoch=4)


@case("epochs.regressed")
def the_epoch_of_a_marker_is_changed(s: Story) -> None:
    s.transaction(epoch=4)
    s.transaction(epoch=4)
    s.tables["record_batches"][-2]["producer_epoch"] = 2
    s.transaction(epoch=4)


@case("markers.missing")
def a_marker_is_gone_and_leaves_a_hole(s: Story) -> None:
    s.transaction(partitions=(0, 1))
    s.transaction(partitions=(0, 1))
    gone = [row for row in s.tables["record_batches"] if row.get("control_type") is not None][2]
    s.transaction(partitions=(0, 1))
    s.lose(gone)


@case("markers.missing")
def a_marker_was_never_written(s: Story) -> None:
    s.transaction()
    s.transaction(epoch=1, marked=())
    s.transaction(epoch=2)


@case("markers.missing")
def the_last_marker_of_a_log_is_gone(s: Story) -> None:
    s.transaction()
    s.transaction(marked=())


@case("?markers.missing")
def a_partition_of_a_transaction_was_not_read(s: Story) -> None:
    s.transaction(partitions=(0, 9), written=(0,), marked=(0,))


@case("markers.double")
def a_marker_is_there_twice_with_its_version(s: Story) -> None:
    s.transaction()
    s.transaction()
    copy = dict(s.tables["record_batches"][-2])
    s.transaction()
    s.marker()
    s.tables["record_batches"][-1].update(
        marker_version=copy["marker_version"], base_timestamp_ms=copy["base_timestamp_ms"]
    )


@case("markers.double")
def a_marker_is_written_twice_by_kafka(s: Story) -> None:
    s.transaction(ours=False)
    s.transaction(ours=False, epoch=1)
    s.marker(ours=False, epoch=1)


@case("markers.double", "markers.missing")
def one_marker_twice_and_another_missing_of_one_epoch(s: Story) -> None:
    s.transaction()
    double = s.marker()
    double["marker_version"] = s._version - 1
    s._version -= 1
    s.later(60_000)
    s.transaction()
    s.transaction(marked=())
    s.later(60_000)
    s.transaction()


@case("markers.wrong_outcome")
def a_committed_transaction_has_an_abort_marker(s: Story) -> None:
    s.transaction()
    s.transaction()
    s.tables["record_batches"][-2]["control_type"] = 0
    s.transaction()


@case("markers.without_transaction")
def a_commit_marker_of_no_transaction(s: Story) -> None:
    s.transaction()
    s.marker(producer=3)


@case("markers.without_transaction")
def a_marker_in_a_partition_that_the_transaction_does_not_have(s: Story) -> None:
    s.transaction()
    s.marker(partition=1)


@case("offsets.hole")
def a_batch_is_gone(s: Story) -> None:
    s.data(transactional=False)
    gone = s.data(transactional=False)
    s.data(transactional=False)
    s.lose(gone)


@case("?offsets.hole")
def a_hole_that_the_log_names(s: Story) -> None:
    s.data(transactional=False)
    gone = s.data(transactional=False)
    s.data(transactional=False)
    s.lose(gone)
    s.file(gone, kind="hole", base_offset=10, size=10)
    s.file(gone)


@case("offsets.overlap")
def a_batch_is_there_twice_byte_for_byte(s: Story) -> None:
    s.data(transactional=False)
    first = s.data(transactional=False)
    s.data(transactional=False)
    s.batch(**{name: first[name] for name in first if name not in ("node", "path", "position", "base_offset",
                                                                   "last_offset", "partition")}
            | {"at": first["base_offset"], "count": 10})  # fmt: skip
    s.data(transactional=False)


@case("offsets.overlap")
def the_base_offset_of_a_batch_is_changed(s: Story) -> None:
    s.data(transactional=False)
    moved = s.data(transactional=False)
    s.data(transactional=False)
    moved["base_offset"] += 4096
    moved["last_offset"] += 4096
    s.data(transactional=False)


@case("sequences.gap")
def a_batch_was_never_written(s: Story) -> None:
    s.data(transactional=False)
    s.data(transactional=False, sequence=20)
    s.data(transactional=False)


@case("sequences.gap")
def the_sequence_of_a_batch_is_changed(s: Story) -> None:
    rows = [s.data(transactional=False) for _ in range(4)]
    rows[1]["base_sequence"] += 5


@case("sequences.gap")
def a_gap_over_the_wrap(s: Story) -> None:
    s.data(transactional=False, sequence=2**31 - 10)
    s.data(transactional=False, sequence=5)


@case("sequences.gap")
def a_new_epoch_does_not_begin_at_0(s: Story) -> None:
    s.data(transactional=False)
    s.data(transactional=False, epoch=1, sequence=10)


@case("sequences.duplicate")
def a_batch_was_written_twice(s: Story) -> None:
    s.data(transactional=False)
    s.data(transactional=False)
    s.data(transactional=False, sequence=0)
    s.data(transactional=False, sequence=20)


@case("sequences.duplicate")
def a_batch_of_a_transaction_was_written_again_at_the_end(s: Story) -> None:
    s.transaction()
    s.transaction()
    s.data(sequence=10)


@case("hanging.open_past_timeout")
def a_transaction_is_open_for_longer_than_its_timeout(s: Story) -> None:
    s.state("Ongoing", partitions=(0,), timeout_ms=1000)
    s.data()
    s.later(2000)
    s.transaction(producer=1, name="another")


@case("hanging.orphan")
def data_that_no_transaction_will_ever_end(s: Story) -> None:
    s.transaction()
    s.transaction(epoch=1)
    s.data(epoch=1)


@case("integrity.crc", "?integrity.crc")
def a_flipped_byte_in_a_batch_of_data(s: Story) -> None:
    s.transaction()
    s.state("Ongoing", partitions=(0,))
    hidden = s.data()
    s.data()
    s.state("PrepareCommit", partitions=(0,))
    s.marker()
    s.state("CompleteCommit")
    s.hide(hidden)


@case("integrity.unreadable", "?integrity.crc", "?markers.missing")
def a_marker_that_cannot_be_read(s: Story) -> None:
    s.transaction()
    s.transaction()
    marker = s.tables["record_batches"][-2]
    s.transaction()
    s.hide(marker, "unreadable")


@case("integrity.torn")
def a_segment_in_the_middle_ends_in_a_batch(s: Story) -> None:
    first = s.data(transactional=False)
    later = s.data(transactional=False, at=20, sequence=20)
    later["path"] = later["path"].replace("0.log", "1.log")
    s.file(first, stop="torn", valid_end=1000, size=1500, last_of_partition=False)


@case("integrity.record")
def a_record_of_a_sound_batch_cannot_be_read_in_three_copies(s: Story) -> None:
    row = s.block(s.first_id + 100)
    s.tables["producer_id_blocks"].clear()
    place = {name: row[name] for name in ("topic", "partition", "path", "position")}
    for node in (1, 2, 3):
        fault = place | {"node": node, "offset": 0, "fault": "record", "reason": "too short"}
        s.tables["record_faults"].append(fault)


@case("offsets.hole", "?markers.without_transaction", apart=True)
def a_record_of_the_coordinators_log_is_gone(s: Story) -> None:
    s.transaction()
    s.transaction(epoch=1)
    gone = [row for row in s.tables["transaction_states"] if row["state"] == "PrepareCommit"][1]
    s.transaction(epoch=2)
    s.lose(gone)
