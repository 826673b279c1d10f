"""What is broken on purpose where a node tells its store, its log directories and their partitions apart."""

from typing import Final

from tests.mutants.mutant import Mutant

IDS: Final = "tests/broker/test_partition_ids.py::"
IDENTITY: Final = "tests/settings/test_node_identity.py::"
NEW_STORE: Final = IDENTITY + "test_a_directory_without_its_store_is_a_new_one"
LOST: Final = "tests/broker/test_lost_logs.py::"
TOPICS: Final = "tests/coordinator/test_topic_server.py::"
PLACED: Final = TOPICS + "test_a_broker_learns_that_a_partition_was_placed"
RECOVERY: Final = "tests/controller/test_partition_recovery.py::"
SEVERAL: Final = "tests/broker/test_log_directories.py::"
FAULTY: Final = "tests/broker/test_faulty_directories.py::"
READ_ONLY: Final = (
    FAULTY + "test_of_a_directory_that_turns_read_only_partitions_are_offline_and_the_other_goes_on"
)
UNPLUGGED: Final = (
    FAULTY + "test_of_a_directory_that_is_gone_partitions_are_offline_and_nothing_is_made_in_its_place"
)
UNTIL_THE_START: Final = FAULTY + "test_a_directory_that_fails_is_offline_at_once_and_until_the_next_start"
UNREAD: Final = FAULTY + "test_what_the_scrub_cannot_read_is_named_and_the_rest_is_scrubbed"
NAMED: Final = SEVERAL + "test_a_directory_that_cannot_be_used_is_named_and_the_others_go_on"

DISKS: Final = (
    Mutant(
        "disks-repaired-store-votes-as-before",
        "a voter whose store is gone forgot its votes",
        "settings/node_identity.py",
        "    renewed = replace(identity, voter_id=random_id(), initial_voters",
        "    renewed = replace(identity, initial_voters",
        (NEW_STORE,),
    ),
    Mutant(
        "disks-older-version-votes-twice",
        "an older version takes a new voter for one whose store is lost",
        "settings/node_identity.py",
        "    if identity.has_store or is_new_voter:\n",
        "    if identity.has_store:\n",
        (NEW_STORE,),
    ),
    Mutant(
        "disks-lost-log-made-anew",
        "a log that is not where it was made is lost, not new",
        "broker/log_directories.py",
        "        if at is None or not (at.path / str(log) / PARTITION_FILE).is_file():\n",
        "        if at is None:\n",
        (LOST + "test_a_folder_that_is_gone_is_offline_by_name_until_it_is_back",),
    ),
    Mutant(
        "disks-not-remembered-when-opened",
        "a log of before the file is remembered when it is opened",
        "broker/log_directories.py",
        "        self._hosted.add(logs)\n",
        "        self._hosted.add(())\n",
        (LOST + "test_a_log_of_before_the_file_is_remembered_when_it_is_opened",),
    ),
    Mutant(
        "disks-other-directory-made-anew",
        "a partition that was placed in another directory is not made in this one",
        "broker/partitions.py",
        "            if self.broker_id not in placed.offline_replicas:\n",
        "            if placed.leader_id == self.broker_id:\n",
        (LOST + "test_a_partition_that_was_placed_in_another_directory_is_not_made_here",),
    ),
    Mutant(
        "disks-other-directory-unseen",
        "the controller compares where a partition was placed with what its broker has",
        "coordinator/topic_descriptions.py",
        "    if kept.directories and here not in (kept.directories[0], _UNKNOWN):\n",
        "    if kept.leader == -2:\n",
        (PLACED + "_in_a_directory_it_has_no_more",),
    ),
    Mutant(
        "disks-fenced-broker-makes-logs",
        "while it is fenced a broker does not know what is lost",
        "broker/partitions.py",
        "            if self.broker_id not in placed.offline_replicas:\n",
        "            if self.broker_id not in placed.offline_replicas or placed.leader_id < 0:\n",
        (LOST + "test_a_fenced_broker_makes_no_log",),
    ),
    Mutant(
        "disks-unregistered-broker-makes-logs",
        "before it is registered what a broker hears of itself may be of its predecessor",
        "broker/topics.py",
        "            may_make = self._is_unfenced()\n            topics =",
        "            may_make = True\n            topics =",
        (LOST + "test_no_log_is_made_by_what_was_asked_before_this_process_was_registered",),
    ),
    Mutant(
        "disks-unregistered-broker-makes-logs-looked-up",
        "before it is registered what a broker hears of itself may be of its predecessor",
        "broker/topics.py",
        "            may_make = self._is_unfenced()\n            found =",
        "            may_make = True\n            found =",
        (LOST + "test_no_log_is_made_by_what_was_asked_before_this_process_was_registered",),
    ),
    Mutant(
        "disks-changed-topic-id-believed",
        "a log whose partition.metadata changed is that of its topic, and is not deleted",
        "broker/log_directories.py",
        "                folders = self._identified(each, partition_folders(each.path))\n",
        "                folders = partition_folders(each.path)\n",
        (IDS + "test_whichever_bit_of_it_flips_it_is_written_again",),
    ),
    Mutant(
        "disks-any-folder-is-the-log",
        "another topic's log that was put in the place of one is not taken for it",
        "broker/partition_ids.py",
        "_differing(id_text(found), id_text(ids[0])) == 1",
        "True",
        (IDS + "test_another_logs_folder_is_offline_and_kept",),
    ),
    Mutant(
        "disks-conflict-passed-over",
        "another topic's log that was put in the place of one is not opened",
        "broker/log_directories.py",
        "            found.append(replace(folder, conflict=conflict))\n",
        "            found.append(folder)\n",
        (IDS + "test_another_logs_folder_is_offline_and_kept",),
    ),
    Mutant(
        "disks-half-made-logs-pile-up",
        "a log that a full disk left half made is not put aside",
        "broker/log_directories.py",
        "            if is_half_made(folder):\n",
        "            if False:\n",
        (LOST + "test_on_a_full_disk_a_log_that_was_given_up_begins_once_there_is_room",),
    ),
    Mutant(
        "disks-offline-uncounted",
        "metrics count log directories that cannot be used",
        "broker/log_maintenance.py",
        "sum(not is_usable for _, is_usable in self._directories.states())",
        "0",
        ("tests/broker/test_log_maintenance.py::test_what_is_offline_is_counted",),
    ),
    Mutant(
        "disks-full-directory-half-offline",
        "a full directory takes all its partitions offline",
        "broker/log_directories.py",
        "        if error.errno not in OF_THE_DIRECTORY and not self._why_gone(at):\n",
        "        if not self._why_gone(at):\n",
        (LOST + "test_a_full_directory_is_named_and_all_its_partitions_are_offline",),
    ),
    Mutant(
        "disks-all-logs-in-one",
        "a new log is made where the fewest are",
        "broker/log_directories.py",
        "        for each in sorted(self._usable(), key=lambda each: counts[each.directory_id]):\n",
        "        for each in self._usable():\n",
        (SEVERAL + "test_logs_are_made_where_the_fewest_are_and_found_again",),
    ),
    Mutant(
        "disks-one-bad-directory-stops-all",
        "a directory that cannot be used does not keep the others from being used",
        "broker/log_directories.py",
        "            except (OSError, StorageError) as error:\n                if each.path == self._home:\n",
        "            except (OSError, StorageError) as error:\n                if each.path != self._home:\n",
        (NAMED,),
    ),
    Mutant(
        "disks-foreign-directory-used",
        "a directory of another node or cluster is not used",
        "broker/log_directories.py",
        "        require_identity(path, found, cluster_id=own.cluster_id, node_id=own.node_id)\n",
        "",
        (NAMED,),
    ),
    Mutant(
        "disks-copy-used",
        "two directories of one id are one and its copy",
        "broker/log_directories.py",
        "        if taken is not None or found.directory_id == own.directory_id:\n",
        "        if found.directory_id == own.directory_id:\n",
        (NAMED,),
    ),
    Mutant(
        "disks-any-of-two-logs-used",
        "of two logs of a partition none is used unless one is remembered",
        "broker/log_directories.py",
        "            if len(named) != 1:\n",
        "            if False:\n",
        (SEVERAL + "test_a_log_in_two_directories_is_the_remembered_one_or_none",),
    ),
    Mutant(
        "disks-verified-without-lost-logs",
        "a log that is not there is not sound",
        "cli/storage_verify.py",
        "            yield from _lost(config)\n",
        "",
        ("tests/cli/test_storage_verify.py::test_every_log_directory_is_read_and_lost_logs_are_named",),
    ),
    Mutant(
        "disks-given-up-log-thrown-away",
        "a log that is there is not given up",
        "broker/partitions.py",
        "        if found is not None and found.topic_id == topic_id:\n            if given_up:",
        "        if found is not None and found.topic_id == topic_id:\n            if False:",
        (LOST + "test_a_log_that_is_there_is_not_given_up_and_its_next_loss_is_one",),
    ),
    Mutant(
        "disks-given-up-for-ever",
        "an operator's word counts for one loss",
        "broker/log_directories.py",
        "        return known is None or known.leader_epoch < leader_epoch\n",
        "        return True\n",
        (LOST + "test_a_log_that_was_given_up_begins_anew_in_its_leader_epoch_and_only_once",),
    ),
    Mutant(
        "disks-given-up-from-zero",
        "a log that was given up begins where the operator's command says",
        "broker/log/recovery.py",
        "        Segment.create(directory, start)\n        sync_path(directory)\n",
        "        Segment.create(directory, LOG_START)\n        sync_path(directory)\n",
        (LOST + "test_a_log_that_was_given_up_begins_anew_in_its_leader_epoch_and_only_once",),
    ),
    Mutant(
        "disks-recovered-without-its-broker",
        "a broker that is away may have the log",
        "controller/partition_recovery.py",
        "    if kept is None or broker is None or broker.fenced:\n",
        "    if kept is None or broker is None:\n",
        (RECOVERY + "test_a_broker_that_is_away_may_have_the_log",),
    ),
    Mutant(
        "disks-recovered-below-an-earlier-start",
        "a partition never begins below an earlier start",
        "controller/partition_recovery.py",
        "    start = max(request.start_offset, before, reported or 0)\n",
        "    start = max(request.start_offset, reported or 0)\n",
        (RECOVERY + "test_a_start_is_never_below_an_earlier_one_and_goes_with_its_topic",),
    ),
    Mutant(
        "disks-given-up-in-any-later-epoch",
        "a leader epoch that no operator's word began gives up no log",
        "coordinator/topic_descriptions.py",
        "    return offset if leader_epoch == kept.leader_epoch else -1\n",
        "    return offset\n",
        (TOPICS + "test_a_partition_was_started_again_only_in_the_leader_epoch_of_an_operators_word",),
    ),
    Mutant(
        "disks-mount-points-filled",
        "no log is made in a mount point whose disk is gone",
        "broker/log_directories.py",
        "                if (why := self._why_gone(each)) is not None:\n",
        "                if (why := self._why_gone(each)) is not None and why.errno == 0:\n",
        (UNPLUGGED + "[topics-a mount point]",),
    ),
    Mutant(
        "disks-starts-in-a-mount-point",
        "the scrub writes no file in a mount point whose disk is gone",
        "broker/log_directories.py",
        "            if self._why_gone(each) is None:\n",
        "            if True:\n",
        (UNPLUGGED + "[scrub-a mount point]",),
    ),
    Mutant(
        "disks-chosen-though-read-only",
        "a directory in which no folder can be made gets no new log, and is named",
        "broker/log_directories.py",
        "                if error.errno not in OF_THE_FOLDERS:\n",
        "                if True:\n",
        (READ_ONLY + "[topics-EACCES]",),
    ),
    Mutant(
        "disks-scrub-ends-with-the-first-error",
        "a file that cannot be read ends no scrub of other directories",
        "broker/log_directories.py",
        "            scrub()\n        except OSError as error:\n",
        "            scrub()\n        except ZeroDivisionError as error:\n",
        (UNREAD + "[log-starts]",),
    ),
    Mutant(
        "disks-unread-sums-unsaid",
        "sums that cannot be read are named",
        "broker/log_scrub.py",
        "            if isinstance(fault, OSError):\n",
        "            if isinstance(fault, OSError) and False:\n",
        (UNREAD + "[sums]",),
    ),
    Mutant(
        "disks-unread-sums-a-warning",
        "sums that cannot be read are an error of the disk",
        "broker/log_scrub.py",
        '                self._log.error("sums_not_read"',
        '                self._log.warning("sums_not_read"',
        (UNREAD + "[sums]",),
    ),
    Mutant(
        "disks-shorter-segments-scrubbed",
        "a segment that has fewer bytes than were written is found by the scrub, though it was never summed",
        "broker/log/scrub.py",
        "            if size < part.size:\n",
        "            if False:\n",
        ("tests/broker/log/test_active_segment.py::test_the_scrub_finds_that_bytes_without_a_sum_are_gone",),
    ),
    Mutant(
        "disks-unread-store-unnamed",
        "what the scrub cannot read of the store is named by its file",
        "snapshots/store.py",
        "        with self._naming():\n            whole = self.",
        "        with nullcontext():\n            whole = self.",
        ("tests/quorum/test_scrubbed_images.py::test_a_store_that_cannot_be_read_by_the_scrub_is_named",),
    ),
    Mutant(
        "disks-gone-unnoticed",
        "a directory that is gone is offline, whatever the call that found it says",
        "broker/log_directories.py",
        "        if error.errno not in OF_THE_DIRECTORY and not self._why_gone(at):\n",
        "        if error.errno not in OF_THE_DIRECTORY:\n",
        (UNTIL_THE_START + "[gone]",),
    ),
    Mutant(
        "disks-each-partition-by-itself",
        "a directory that fails takes all its partitions offline at once",
        "broker/partitions.py",
        "(partition,) if directory is None else tuple(self)",
        "(partition,)",
        (LOST + "test_a_full_directory_is_named_and_all_its_partitions_are_offline",),
    ),
    Mutant(
        "disks-others-taken-along",
        "the partitions of other directories go on",
        "broker/partitions.py",
        "            if directory is None or path.parent == directory:\n",
        "            if True:\n",
        (READ_ONLY + "[records-EROFS]", UNPLUGGED + "[records-nothing]"),
    ),
    Mutant(
        "disks-offline-and-used",
        "a directory that is offline is named once, and used no more",
        "broker/log_directories.py",
        '        at.fault = str(error)\n        self._log.error("log_directory_offline", '
        "directory=str(at.path), reason=at.fault)\n",
        '        self._log.error("log_directory_offline", directory=str(at.path), reason=str(error))\n',
        (READ_ONLY + "[records-EROFS]", UNPLUGGED + "[records-nothing]"),
    ),
    Mutant(
        "disks-failed-append-acknowledged",
        "a record that could not be written is not acknowledged",
        "broker/produce.py",
        '            self._partitions.fail(partition, error, doing="append")\n'
        "            pending.refused(position, ErrorCode.KAFKA_STORAGE_ERROR)\n",
        '            self._partitions.fail(partition, error, doing="append")\n'
        "            pending.refused(position, ErrorCode.NONE)\n",
        (READ_ONLY + "[records-EROFS]", READ_ONLY + "[records-EIO]"),
    ),
    Mutant(
        "disks-offline-and-open",
        "a partition whose directory fails takes no more records",
        "broker/partitions.py",
        "        if not partition.is_open or self._is_exhausted(error, str(partition), doing):\n",
        "        if True:\n",
        (UNTIL_THE_START + "[read-only]", UNTIL_THE_START + "[gone]"),
    ),
)
