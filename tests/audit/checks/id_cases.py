"""Faults of producer ids, their blocks and their epochs."""

from tests.audit.checks.case import case
from tests.audit.checks.rows import Story


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


@case("blocks.broker_epoch")
def a_block_of_an_epoch_after_its_broker_registered_again(s: Story) -> None:
    s.broker_event("registered", 7)
    s.block(s.first_id + 100)
    s.broker_event("registered", 9)
    s.block(s.first_id + 200)
    s.block(s.first_id + 300, epoch=9)


@case("blocks.broker_epoch")
def a_block_of_a_broker_that_was_unregistered(s: Story) -> None:
    s.broker_event("registered", 7)
    s.broker_event("unregistered", 7)
    s.block(s.first_id + 100)


@case("blocks.broker_epoch")
def a_block_of_an_epoch_that_its_broker_never_had(s: Story) -> None:
    s.broker_event("registered", 7)
    s.block(s.first_id + 100, epoch=8)


@case()
def blocks_of_brokers_that_registered_again(s: Story) -> None:
    s.broker_event("registered", 7)
    s.broker_event("registered", 8, broker=2)
    s.block(s.first_id + 100)
    s.broker_event("registered", 9)
    s.block(s.first_id + 200, epoch=9)
    s.block(s.first_id + 300, broker=2, epoch=8)
    s.broker_event("registered", 9)
    s.block(s.first_id + 400, epoch=9)


@case()
def a_block_before_the_first_registration_that_is_kept(s: Story) -> None:
    s.block(s.first_id + 100, epoch=3)
    s.broker_event("registered", 7)


@case("?blocks.hole")
def a_block_of_an_epoch_whose_registration_may_be_lost(s: Story) -> None:
    s.broker_event("registered", 7)
    gone = s.broker_event("registered", 9)
    s.block(s.first_id + 100, epoch=9)
    s.lose(gone)
    s.file(gone, kind="hole", base_offset=1, size=1)
    s.file(gone)


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


@case("integrity.unreadable", "?integrity.crc", apart=True)
def a_record_of_the_metadata_log_cannot_be_read(s: Story) -> None:
    s.block(s.first_id + 100)
    hidden = s.block(s.first_id + 200)
    s.block(s.first_id + 300)
    s.hide(hidden, "unreadable")


@case("ids.outside_blocks", "integrity.unreadable", apart=True)
def a_foreign_producer_beside_a_block_that_one_of_two_metadata_logs_hides(s: Story) -> None:
    s.block(s.first_id + 100)
    s.block(s.first_id + 200)
    s.block(s.first_id + 300)
    s.hide(s.copy_log("__cluster_metadata", s.number, 2)[1], "unreadable")
    s.data(producer=10**9, transactional=False)


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


@case("ids.outside_blocks", "?hanging.orphan")
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


@case("epochs.ahead")
def data_of_an_epoch_that_was_never_given(s: Story) -> None:
    s.transaction(epoch=3)
    s.data(epoch=5)


@case()
def data_of_the_epoch_that_the_coordinator_gave_last(s: Story) -> None:
    s.transaction(epoch=3)
    s.state("Ongoing", epoch=4, partitions=(0,))
    s.data(epoch=4)


@case("coordinator.short")
def two_producers_have_epochs_that_the_coordinators_log_never_gave(s: Story) -> None:
    for producer in (0, 1):
        s.transaction(epoch=3, producer=producer, name=f"{s.transactional_id}-{producer}")
        s.data(epoch=5, producer=producer)
