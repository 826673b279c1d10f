"""Mutants of what changes a topic: its settings, its partitions, where its logs begin."""

from typing import Final

from tests.mutants.mutant import Mutant

CONFIGS: Final = "tests/controller/test_config_changes.py::"
PARTITIONS: Final = "tests/controller/test_partition_creation.py::"
DELETED: Final = "tests/broker/test_delete_records.py::"
ANNOUNCER: Final = "tests/coordinator/test_announcer.py::"
LINKS: Final = "tests/coordinator/test_marker_links.py::"
REGISTRATION: Final = "tests/broker/test_registration.py::"
ANNOUNCED: Final = "tests/broker/test_announcements.py::"
BROKER: Final = "tests/broker/test_changed_topics.py::"
COMMAND: Final = "tests/cli/test_topics_change.py::"

TOPIC_CHANGES: Final = (
    Mutant(
        "changes-validated-and-written",
        "settings that are only validated are not written",
        "controller/config_changes.py",
        "    return Decision(() if request.validate_only else tuple(records), ",
        "    return Decision(tuple(records), ",
        (CONFIGS + "test_what_is_only_validated_is_not_written",),
    ),
    Mutant(
        "changes-fewer-partitions",
        "a topic never loses a partition",
        "controller/partition_creation.py",
        "    if count <= 0:\n",
        "    if count == 0:\n",
        (PARTITIONS + "test_a_topic_that_is_refused_is_as_it_was_and_others_get_theirs",),
    ),
    Mutant(
        "changes-partitions-validated-and-created",
        "partitions that are only validated are not created",
        "controller/partition_creation.py",
        "    return Decision(() if request.validate_only else tuple(records), ",
        "    return Decision(tuple(records), ",
        (PARTITIONS + "test_what_is_only_validated_is_not_written",),
    ),
    Mutant(
        "changes-partitions-that-seem-to-move",
        "an assignment that would move a partition is refused",
        "cli/topics_change.py",
        "        if wanted != tuple(there.get(index, wanted)):\n",
        "        if False:\n",
        (COMMAND + "test_a_partition_that_is_there_is_not_moved",),
    ),
    Mutant(
        "changes-partitions-assigned-from-the-first",
        "only partitions that are new are assigned",
        "cli/topics_change.py",
        "    return brokers[len(there) :]\n",
        "    return brokers\n",
        (COMMAND + "test_the_list_begins_with_the_partitions_that_are_there",),
    ),
    Mutant(
        "changes-above-the-high-watermark",
        "records are deleted up to the high watermark, never beyond",
        "broker/delete_records.py",
        "    if not HIGH_WATERMARK <= offset <= partition.log.high_watermark:\n",
        "    if offset < HIGH_WATERMARK:\n",
        (DELETED + "test_what_cannot_be_deleted_is_refused_row_by_row",),
    ),
    Mutant(
        "changes-start-in-memory-first",
        "a log begins later for readers once that is on the disk",
        "broker/partitions.py",
        "            await off_loop(partial(self._directories.record_starts, rows))\n"
        "            for each, start in starts.items():\n"
        "                each.log.first_kept = max(each.log.first_kept, start)\n",
        "            for each, start in starts.items():\n"
        "                each.log.first_kept = max(each.log.first_kept, start)\n"
        "            await off_loop(partial(self._directories.record_starts, rows))\n"
        "            for each in starts:\n",
        (DELETED + "test_nothing_is_deleted_for_readers_before_it_is_on_the_disk",),
    ),
    Mutant(
        "changes-start-of-an-earlier-topic",
        "the next log of a name does not begin where the last one did",
        "broker/log_directories.py",
        "            self._at(log.directory).starts.forget(log.directory.name)\n",
        "",
        (DELETED + "test_the_next_topic_of_its_name_begins_at_zero",),
    ),
    Mutant(
        "changes-below-their-level",
        "no setting is changed while a broker may be there that would not obey",
        "controller/levels.py",
        '    _require(view, CHANGED_TOPICS, "changing a topic")\n',
        "    pass\n",
        (CONFIGS + "test_below_its_log_level_nothing_is_changed",),
    ),
    Mutant(
        "changes-not-obeyed",
        "a broker reads settings anew when their digest is another",
        "broker/partitions.py",
        "            if self._settings.digest(topic.topic_id) != topic.configs_digest\n",
        "            if self._settings.digest(topic.topic_id) is None\n",
        (BROKER + "test_settings_are_read_anew_when_their_digest_is_another",),
    ),
    Mutant(
        "changes-of-a-moment-kept",
        "what a topic's logs hold is known by its own digest, not by that which was announced",
        "broker/topics.py",
        "                    self._partitions.configure(found[each.name], each.configs)\n",
        "                    self._partitions.configure(found[each.name], each.configs)\n"
        "                    held = self._partitions._settings._topics\n"
        "                    announced = {topic.topic_id: topic.configs_digest for topic in topics}\n"
        "                    topic_id = found[each.name]\n"
        "                    held[topic_id] = announced[topic_id], held[topic_id][1]\n",
        (BROKER + "test_what_was_set_for_a_moment_is_not_kept",),
    ),
    Mutant(
        "changes-not-announced",
        "brokers learn of a change of the cluster when it is made",
        "coordinator/transaction_server.py",
        "        self.announcer.announce_changes()\n",
        "",
        (ANNOUNCER + "test_a_change_of_the_cluster_is_announced_once_to_every_broker_that_is_not_fenced",),
    ),
    Mutant(
        "changes-announced-at-each-tick",
        "a change is announced once",
        "coordinator/announcer.py",
        "        self._version = version\n",
        "",
        (ANNOUNCER + "test_a_change_of_the_cluster_is_announced_once_to_every_broker_that_is_not_fenced",),
    ),
    Mutant(
        "changes-of-an-earlier-leader",
        "a leader announces what its predecessor may not have announced",
        "coordinator/transaction_server.py",
        "        self.announcer.activated()\n",
        "",
        (ANNOUNCER + "test_changes_are_announced_to_the_broker_of_this_process_and_by_the_next_leader",),
    ),
    Mutant(
        "changes-while-no-connection-was-open",
        "a connection that opens says that there may have been a change",
        "coordinator/marker_links.py",
        "            _announce(link.connection, AnnouncePartitions(()))\n",
        "            pass\n",
        (LINKS + "test_an_announcement_is_heard_once_a_connection_is_open_and_again_after_it_was_lost",),
    ),
    Mutant(
        "changes-announced-by-anyone",
        "only the coordinator's announcement makes a broker send a heartbeat",
        "broker/announcements.py",
        "        if context.proved:\n",
        "        if context.proved or not request.announcements:\n",
        (
            ANNOUNCED
            + "test_an_announced_change_is_a_heartbeat_at_once_and_what_it_shows_is_asked_for[False]",
        ),
    ),
    Mutant(
        "changes-without-a-heartbeat",
        "an announced change is a heartbeat at once",
        "broker/announcements.py",
        "            self._on_change()\n",
        "            pass\n",
        (ANNOUNCED + "test_an_announced_change_is_a_heartbeat_at_once_and_what_it_shows_is_asked_for[True]",),
    ),
    Mutant(
        "changes-during-a-heartbeat",
        "a heartbeat that is wanted while another is under way is not forgotten",
        "broker/registration.py",
        "            retry.succeeded()\n            if epoch",
        "            retry.succeeded()\n            self._wanted.clear()\n            if epoch",
        (REGISTRATION + "test_a_heartbeat_that_is_wanted_during_another_follows_it_however_many_want_it",),
    ),
)
