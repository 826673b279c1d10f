"""Faults of markers."""

from tests.audit.checks.case import case
from tests.audit.checks.rows import Story


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


@case()
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


@case("?markers.without_transaction")  # a partition of the coordinator's log that was not read may tell of it
def a_commit_marker_of_no_transaction(s: Story) -> None:
    s.transaction()
    s.marker(producer=3)


@case("markers.without_transaction")
def a_marker_in_a_partition_that_the_transaction_does_not_have(s: Story) -> None:
    s.transaction()
    s.marker(partition=1)


@case("markers.without_transaction")
def an_abort_in_a_partition_that_the_transaction_aborted_then_does_not_have(s: Story) -> None:
    s.transaction(committed=False, written=(0, 1), marked=(0, 1), ours=False)
    s.transaction(partitions=(0, 1), ours=False)


@case("markers.transactional_bit")
def a_marker_has_no_transactional_bit(s: Story) -> None:
    s.transaction()
    s.tables["record_batches"][-2]["attributes"] = 0x20
    s.transaction()


@case("markers.transactional_bit")
def a_marker_of_kafka_has_no_transactional_bit(s: Story) -> None:
    s.transaction(ours=False)
    s.transaction(ours=False, epoch=1)
    s.tables["record_batches"][-2]["attributes"] = 0x20
