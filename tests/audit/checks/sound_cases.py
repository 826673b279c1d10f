"""Logs in which nothing is wrong, whatever they look like."""

from tests.audit.checks.case import case
from tests.audit.checks.rows import Story


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
def offsets_of_a_group_are_written_from_sequence_0_on_in_each_transaction(s: Story) -> None:
    for _ in range(3):
        s.state("Ongoing", partitions=(s.number,), topics=("__consumer_offsets",))
        s.data(topic="__consumer_offsets", partition=s.number, count=1, sequence=0)
        s.state("PrepareCommit", partitions=(s.number,), topics=("__consumer_offsets",))
        s.marker(topic="__consumer_offsets", partition=s.number)
        s.state("CompleteCommit")


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


@case()
def the_beginning_of_a_partition_is_no_longer_kept(s: Story) -> None:
    s.batch(at=100, count=10, partition=0)
    s._ends[s.topic, 0] = 110
    s.data(sequence=70, transactional=False)
    s.data(transactional=False)
    s.transaction(producer=1)


@case("?markers.missing")
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
    later = s.data(producer=3, transactional=False)  # of the last segment the log cleaner takes nothing
    later |= {"path": later["path"].replace("0.log", f"{later['base_offset']}.log"), "position": 0}
    s.lose(gone)


def cleaned_up_to_its_last_batch(s: Story, producer: int, **said: int) -> None:
    """A compacted topic of a producer 3 and this one. A snapshot at its end says of it an epoch too low.

    said   of the entry something else.
    """
    s.topic_event("configured", config_key="cleanup.policy", config_value="compact")
    s.data(producer=3, epoch=5, transactional=False)
    gone = s.data(producer=3, epoch=5, transactional=False)
    last = s.data(producer=4, epoch=5, transactional=False)
    last |= {"path": last["path"].replace("0.log", f"{last['base_offset']}.log"), "position": 0}
    s.lose(gone)
    folder, end = last["path"].rpartition("/")[0], last["last_offset"] + 1
    s.tables["producer_states"].append({
        **{name: last[name] for name in ("node", "topic", "partition")}, "copy": folder, "offset": end,
        "path": f"{folder}/{end:020}.snapshot", "position": 10, "producer_id": s.first_id + producer,
        "producer_epoch": 4, "last_sequence": -1, "last_offset": -1, "timestamp_ms": s.now_ms,
        "coordinator_epoch": 0, "first_offset": -1, **said,
    })  # fmt: skip


@case()
def a_producer_snapshot_that_has_the_batch_a_cleaner_has_left(s: Story) -> None:
    cleaned_up_to_its_last_batch(s, 3, producer_epoch=5, last_offset=9, last_sequence=9)


@case("integrity.snapshot")
def a_producer_snapshot_has_another_sequence_than_the_batch_a_cleaner_has_left(s: Story) -> None:
    cleaned_up_to_its_last_batch(s, 3, producer_epoch=5, last_offset=9, last_sequence=8)


@case()
def a_producer_snapshot_that_names_a_batch_that_is_cleaned(s: Story) -> None:
    cleaned_up_to_its_last_batch(s, 3, producer_epoch=5, last_offset=19, last_sequence=18)


@case()
def a_producer_snapshot_of_a_broker_that_fetched_what_a_cleaner_had_left(s: Story) -> None:
    cleaned_up_to_its_last_batch(s, 3)


@case("integrity.snapshot")
def a_producer_snapshot_of_a_compacted_log_lacks_what_no_cleaner_was_near(s: Story) -> None:
    cleaned_up_to_its_last_batch(s, 4)


@case()
def sequences_wrap_after_the_largest_int32(s: Story) -> None:
    s.begin_at(40)
    s.data(sequence=2**31 - 15, transactional=False)
    s.data(transactional=False)
    s.data(transactional=False)
    s.data(transactional=False)


@case()
def the_first_batch_that_is_kept_may_have_any_sequence(s: Story) -> None:
    s.begin_at(40)
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
