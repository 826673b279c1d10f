"""Faults of offsets and sequences, transactions that hang, and bytes that cannot be read."""

from tests.audit.checks.case import case
from tests.audit.checks.rows import Story


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


@case("sequences.duplicate")
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
    s.begin_at(40)
    s.data(transactional=False, sequence=2**31 - 10)
    s.data(transactional=False, sequence=5)


@case("sequences.gap")
def the_first_batch_of_a_producer_in_a_whole_log_does_not_begin_at_0(s: Story) -> None:
    s.topic_event("created")
    s.data(transactional=False, sequence=10)


@case("?sequences.gap")
def a_producer_went_on_in_a_topic_that_was_made_again(s: Story) -> None:
    s.topic_event("created")
    s.topic_event("deleted")
    s.topic_event("created")
    s.data(transactional=False, sequence=10)


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


@case("offsets.hole", apart=True)
def a_record_of_the_coordinators_log_is_gone(s: Story) -> None:
    s.transaction()
    s.transaction(epoch=1)
    gone = [row for row in s.tables["transaction_states"] if row["state"] == "PrepareCommit"][1]
    s.transaction(epoch=2)
    s.lose(gone)
