"""Groups that commit offsets: what is a fault, and what only looks like one."""

from typing import Any

from tests.audit.checks.case import case
from tests.audit.checks.rows import Row, Story

LOG = "__consumer_offsets"
ID_OF_TOPIC = "id-of-input"


class Group:
    """One group of a story, whose log has the story's number."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.generation = 0
        self.state = "Empty"

    def members(self, *member_ids: str, static: str | None = None, generation: int | None = None) -> None:
        """Another generation, of these members; without any the group is empty."""
        self.generation = self.generation + 1 if generation is None else generation
        self.state = "Stable" if member_ids else "Empty"
        batch = self.story.batch(topic=LOG, partition=self.story.number)
        members = [{"member_id": each, "instance_id": static} for each in member_ids]
        self.story.tables["group_generations"].append(
            self._row(batch) | {"state": self.state, "generation": self.generation, "members": members}
        )

    def deleted(self) -> None:
        batch = self.story.batch(topic=LOG, partition=self.story.number)
        self.story.tables["group_generations"].append(self._row(batch) | {"forgotten": True})

    def plain(self, offset: int | None, **columns: Any) -> Row:
        """A commit of a member, or of anyone while there is none; None: a tombstone."""
        batch = self.story.batch(topic=LOG, partition=self.story.number)
        return self._commit(batch, offset, **columns)

    def pending(self, offset: int, producer: int, member: str | None, **columns: Any) -> Row:
        """A commit in a transaction."""
        batch = self.story.data(
            producer=producer, topic=LOG, partition=self.story.number, count=1, sequence=0
        )
        given = {"member_id": member, "is_identified": member is not None, **columns}
        return self._commit(batch, offset, **{"generation": self.generation, **given})

    def transaction(
        self, offset: int, *, producer: int = 0, member: str | None = "a", committed: bool = True,
        marked: bool | None = None, **columns: Any,
    ) -> Row:  # fmt: skip
        """From its beginning to its marker."""
        self.open(producer)
        row = self.pending(offset, producer, member, **columns)
        self.end(producer, committed=committed, marked=marked)
        return row

    def open(self, producer: int) -> None:
        self._state("Ongoing", producer)

    def end(self, producer: int, *, committed: bool = True, marked: bool | None = None) -> None:
        """``marked``: the outcome that the marker says."""
        self._state("PrepareCommit" if committed else "PrepareAbort", producer)
        says = committed if marked is None else marked
        self.story.marker(
            producer=producer, topic=LOG, partition=self.story.number, committed=says, ours=False
        )
        self.story.state("CompleteCommit" if committed else "CompleteAbort", producer=producer,
                         name=self._name(producer))  # fmt: skip

    def _state(self, state: str, producer: int) -> None:
        number = self.story.number
        self.story.state(
            state, producer=producer, partitions=(number,), topics=(LOG,), name=self._name(producer)
        )

    def _name(self, producer: int) -> str:
        return f"x{self.story.number}" + f"-{producer}"

    def _row(self, batch: Row) -> Row:
        row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
        batched = {"offset": batch["base_offset"], "timestamp_ms": batch["base_timestamp_ms"]}
        return row | batched | {"group_id": "copier", "forgotten": False}

    def _commit(self, batch: Row, offset: int | None, **columns: Any) -> Row:
        row = {name: value for name, value in self._row(batch).items() if name != "forgotten"}
        row |= {
            "commit_topic": self.story.topic,
            "commit_partition": 0,
            "committed_offset": offset,
            "producer_id": batch["producer_id"],
            "producer_epoch": batch["producer_epoch"],
            "topic_id": ID_OF_TOPIC,
            **columns,
        }
        self.story.tables["offset_commits"].append(row)
        return row


def group(story: Story, *member_ids: str) -> Group:
    found = Group(story)
    found.members(*member_ids)
    return found


# -- faults ------------------------------------------------------------------------------------------------


@case("groups.aborted")
def an_offset_of_an_aborted_transaction_took_effect(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.transaction(20, committed=False, marked=True)
    copier.transaction(15)


@case("markers.wrong_outcome")
def an_offset_of_a_committed_transaction_was_dropped(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.transaction(20, marked=False)
    copier.transaction(20)


@case("groups.beyond_end")
def a_transaction_commits_an_offset_beyond_the_end(s: Story) -> None:
    s.data(transactional=False)
    copier = group(s, "a")
    copier.transaction(10)
    copier.transaction(11)
    copier.transaction(12)


@case("groups.beyond_end")
def a_member_commits_an_offset_beyond_the_end(s: Story) -> None:
    s.data(transactional=False)
    group(s, "a").plain(11)


@case()
def an_offset_beyond_the_end_that_never_took_effect(s: Story) -> None:
    s.data(transactional=False)
    copier = group(s, "a")
    copier.transaction(10)
    copier.transaction(11, committed=False)


@case()
def an_offset_beyond_the_end_of_a_topic_that_was_made_again(s: Story) -> None:
    group(s, "a").plain(11)
    s.topic_event("created")
    s.data(transactional=False)


@case("groups.went_back")
def an_offset_goes_back_from_one_generation_to_the_next(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")
    copier.transaction(20, producer=1, member="b")


@case("groups.went_back")
def an_offset_goes_back_at_the_marker_of_an_older_transaction(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.open(0)
    copier.pending(20, 0, "a")
    copier.members("b")
    copier.open(1)
    copier.pending(14, 1, "b")
    copier.end(0)
    copier.end(1)


@case("groups.two_owners")
def two_members_commit_one_partition_in_one_generation(s: Story) -> None:
    copier = group(s, "a", "b")
    copier.transaction(10)
    copier.transaction(20, producer=1, member="b")
    copier.transaction(30)
    copier.transaction(40, producer=1, member="b")


@case("groups.stale_generation")
def a_producer_presents_the_generation_before(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(20, generation=1)
    copier.transaction(30, producer=1, member="b")


# -- what is legitimate, or cannot be known ----------------------------------------------------------------


@case()
def an_offset_stays_over_aborts_and_rebalances(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.transaction(20, committed=False)
    copier.members("a", "b")
    copier.transaction(12, producer=1, member="b")
    copier.members("a")
    copier.transaction(12)


@case()
def a_member_has_several_producers(s: Story) -> None:
    copier = group(s, "a")
    for producer in (0, 1, 0, 1):
        copier.transaction(10, producer=producer)


@case()
def a_static_member_is_replaced_in_its_generation(s: Story) -> None:
    copier = Group(s)
    copier.members("a", static="one")
    copier.transaction(10)
    copier.members("b", static="one", generation=1)
    copier.transaction(20, producer=1, member="b")


@case()
def an_administrator_resets_a_group_without_members(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.members()
    copier.plain(0)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


@case()
def a_consumer_without_a_group_commits_as_it_likes(s: Story) -> None:
    for offset in (9, 3, 7):
        Group(s).plain(offset)


@case()
def offsets_begin_anew_after_they_are_deleted(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.plain(None)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


@case()
def offsets_begin_anew_in_another_topic_of_that_name(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(4, producer=1, member="b", topic_id="another")


@case()
def offsets_begin_anew_in_a_topic_that_was_made_again(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10, topic_id=None)
    s.topic_event("created")
    copier.members("b")
    copier.transaction(4, producer=1, member="b", topic_id=None)


@case()
def a_plain_commit_overtakes_an_older_one_in_a_transaction(s: Story) -> None:
    copier = group(s, "a")
    copier.open(0)
    copier.pending(5, 0, "a")
    copier.plain(9)
    copier.end(0)
    copier.members("b")
    copier.transaction(9, producer=1, member="b")


@case()
def a_tombstone_drops_what_is_pending(s: Story) -> None:
    copier = group(s, "a")
    copier.open(0)
    copier.pending(50, 0, "a")
    copier.plain(None)
    copier.end(0)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


@case()
def the_last_of_two_commits_in_one_transaction_counts(s: Story) -> None:
    copier = group(s, "a")
    copier.open(0)
    copier.pending(50, 0, "a")
    copier.pending(10, 0, "a")
    copier.end(0)
    copier.members("b")
    copier.transaction(12, producer=1, member="b")


@case("?groups.went_back")
def an_application_seeks_back(s: Story) -> None:
    copier = group(s, "a")
    copier.plain(10)
    copier.plain(5)
    copier.transaction(20)
    copier.transaction(15, producer=1)


@case("?groups.two_owners")
def a_log_that_does_not_say_which_member_committed(s: Story) -> None:
    copier = group(s, "a")
    for producer in (0, 1):
        copier.transaction(10, producer=producer, member=None, is_identified=None, generation=None)


@case("markers.missing")
def a_missing_marker_is_no_offset_that_goes_back(s: Story) -> None:
    copier = group(s, "a")
    copier.open(0)
    copier.pending(50, 0, "a")
    copier._state("PrepareAbort", 0)
    s.later(5_000)
    s.state("CompleteAbort", name=copier._name(0))
    copier.open(0)
    copier.pending(10, 0, "a", commit_partition=1)  # its marker would commit the 50 as well
    copier.end(0)
    copier.members("b")
    copier.transaction(12, producer=1, member="b")


def cleaned_behind(copier: Group, end: int, *gone: int) -> None:
    """Of two copies one ends before offset ``end``; the other was cleaned of the offsets ``gone``."""
    story, log = copier.story, (LOG, copier.story.number)
    for rows in story.tables.values():
        for row in rows:
            if (row["topic"], row["partition"]) == log:
                row["path"] = row["path"].replace("/archive/", "/data/")
    story.copy_log(*log, 2)
    for row in [each for each in story.tables["record_batches"] if (each["topic"], each["partition"]) == log]:
        if row["base_offset"] in gone if row["node"] == 2 else row["base_offset"] >= end:
            story.lose(row)


@case("?markers.missing")
def an_aborted_offset_whose_marker_the_longer_copy_is_cleaned_of(s: Story) -> None:
    copier = group(s, "a")
    copier.open(0)
    copier.pending(50, 0, "a")
    copier.end(0, committed=False)
    copier.transaction(10, commit_partition=1)  # its marker would commit the 50 as well
    copier.members("b")
    copier.transaction(12, producer=1, member="b")
    cleaned_behind(copier, 2, 0, 1, 2)


@case()
def a_generation_that_the_longer_copy_is_cleaned_of(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(20, producer=1, member="b")
    copier.members("a")
    cleaned_behind(copier, 3, 0, 1, 2, 3)


@case()
def an_offset_that_was_forgotten_where_the_longer_copy_is_cleaned(s: Story) -> None:
    copier = group(s, "a")
    copier.plain(10)
    copier.plain(None)
    copier.plain(5)
    cleaned_behind(copier, 2, 0, 1, 2)


@case("groups.stale_generation")
def a_generation_before_the_end_of_the_shorter_copy(s: Story) -> None:
    copier = group(s, "a")
    copier.members("b")
    copier.transaction(20, generation=1)
    copier.members("a")
    copier.transaction(30)
    cleaned_behind(copier, 5)


@case("integrity.crc", "?integrity.crc")
def across_bytes_that_cannot_be_read_nothing_is_compared(s: Story) -> None:
    copier = group(s, "a")
    copier.transaction(10)
    hidden = copier.plain(1, size=1000)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")
    s.hide(hidden)
