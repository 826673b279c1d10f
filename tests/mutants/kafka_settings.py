"""Mutants of settings that topics and brokers have from Kafka, and of those that change while brokers run."""

from typing import Final

from tests.mutants.mutant import Mutant

LOG: Final = "tests/broker/log/test_kafka_settings.py::"
CONFIGS: Final = "tests/controller/test_broker_configs.py::"
BROKER: Final = "tests/broker/test_broker_settings.py::"
SNAPSHOT: Final = "tests/snapshots/test_snapshot.py::"

KAFKA_SETTINGS: Final = (
    Mutant(
        "settings-index-of-any-size",
        "an index of a segment is at most as large as is set",
        "broker/log/retention.py",
        "    if not active.has_index_room(config.index_bytes_max):\n",
        "    if False:\n",
        (LOG + "test_a_segment_is_full_when_an_index_of_it_is",),
    ),
    Mutant(
        "settings-no-jitter",
        "a segment is rolled sooner by its jitter",
        "broker/log/retention.py",
        "config.segment_ms - jitter_ms(active, config)\n",
        "config.segment_ms\n",
        (LOG + "test_a_segment_is_rolled_sooner_by_its_jitter",),
    ),
    Mutant(
        "settings-jitter-beyond-its-segment",
        "jitter is less than segment.ms",
        "broker/log/retention.py",
        "min(config.segment_jitter_ms, config.segment_ms)\n",
        "config.segment_jitter_ms\n",
        (LOG + "test_jitter_is_of_the_segment_and_less_than_is_set",),
    ),
    Mutant(
        "settings-old-records-within-a-batch",
        "each record's own time counts",
        "broker/log/validation.py",
        "        time_ms = header.base_timestamp_ms + delta_ms\n",
        "        time_ms = header.base_timestamp_ms\n",
        (LOG + "test_a_record_may_be_so_old_and_no_older",),
    ),
    Mutant(
        "settings-no-level",
        "a codec works as hard as is set",
        "broker/log/validation.py",
        "        return recompressed(self.batch, self.header, self.codec, self.level)\n",
        "        return recompressed(self.batch, self.header, self.codec)\n",
        ("tests/broker/test_compression_type.py::test_a_topics_level_is_that_of_what_is_stored",),
    ),
    Mutant(
        "settings-all-before-one",
        "what is set for one broker counts before what is set for all",
        "controller/broker_configs.py",
        "        found[name] = (*found.get(name, ()), ConfigSynonym(name, value, SOURCE_BROKERS))\n",
        "        found[name] = (ConfigSynonym(name, value, SOURCE_BROKERS), *found.get(name, ()))\n",
        (CONFIGS + "test_a_broker_has_its_own_before_those_of_all_and_deleting_one_uncovers_the_next",),
    ),
    Mutant(
        "settings-of-brokers-below-their-level",
        "no setting of a broker is written while a voter may be there that does not keep it",
        "controller/levels.py",
        '    _require(view, SETTINGS_OF_BROKERS, "changing the settings of brokers")\n',
        "    pass\n",
        (CONFIGS + "test_below_its_log_level_nothing_is_changed",),
    ),
    Mutant(
        "settings-that-are-fixed",
        "a setting of a broker that cannot change here is refused by name",
        "controller/broker_configs.py",
        "    if each.of_broker and not each.is_fixed and name != MIN_INSYNC_REPLICAS\n",
        "    if each.of_broker\n",
        (
            CONFIGS + "test_what_no_broker_obeys_is_refused_by_name",
            CONFIGS + "test_what_can_change_is_what_topics_have_by_default_and_nothing_that_is_fixed",
        ),
    ),
    Mutant(
        "settings-of-brokers-that-are-none",
        "settings are of brokers that are registered",
        "controller/broker_configs.py",
        "    if view.get(BROKERS, BrokerId(int(name))) is None:\n",
        "    if False:\n",
        (CONFIGS + "test_what_no_broker_obeys_is_refused_by_name",),
    ),
    Mutant(
        "settings-of-all-in-no-digest",
        "a broker learns what is set for all brokers",
        "controller/broker_configs.py",
        '    return configs_digest((*one, *(("", ""), *every))) & INT64_MAX if one or every else 0\n',
        "    return configs_digest(one) & INT64_MAX if one else 0\n",
        (CONFIGS + "test_each_change_is_another_digest_and_another_version_of_the_cluster",),
    ),
    Mutant(
        "settings-of-brokers-not-announced",
        "a change of settings is one of the cluster, which brokers learn at once",
        "controller/broker_configs.py",
        "    cluster_version.advance(view)\n",
        "",
        (CONFIGS + "test_each_change_is_another_digest_and_another_version_of_the_cluster",),
    ),
    Mutant(
        "settings-of-brokers-in-no-snapshot",
        "a snapshot has the settings of brokers",
        "snapshots/snapshot.py",
        "    yield from broker_configs.records_of(view)\n",
        "",
        (SNAPSHOT + "test_topics_are_in_the_checkpoint_as_kafkas_records",),
    ),
    Mutant(
        "settings-not-of-open-logs",
        "logs that are open obey what is set for their broker",
        "broker/partitions.py",
        "        self._settings.set_own(settings)\n        for partition in self:\n"
        "            self._settings.apply_to(partition)\n",
        "        self._settings.set_own(settings)\n",
        (BROKER + "test_what_is_set_while_a_broker_runs_is_obeyed_with_the_next_heartbeat",),
    ),
    Mutant(
        "settings-of-brokers-over-a-topics",
        "what a topic sets counts before what is set for its broker",
        "broker/log_settings.py",
        "            self._of_topics[topic_id] = with_topic_settings(self._own, own)\n",
        "            self._of_topics[topic_id] = self._own\n",
        (BROKER + "test_what_is_set_while_a_broker_runs_is_obeyed_with_the_next_heartbeat",),
    ),
    Mutant(
        "settings-taken-before-they-are-known",
        "no record is taken before it is known what is set for the broker",
        "broker/log_settings.py",
        "self.is_complete and partition.topic_id in self._topics\n",
        "partition.topic_id in self._topics\n",
        (BROKER + "test_nothing_is_taken_before_it_is_known_what_is_set_for_the_broker",),
    ),
    Mutant(
        "settings-asked-for-at-each-heartbeat",
        "settings are asked for when their digest is another",
        "broker/broker_settings.py",
        "            if self._announced != self._digest and not await self.refresh():\n",
        "            if not await self.refresh():\n",
        (BROKER + "test_what_is_set_while_a_broker_runs_is_obeyed_with_the_next_heartbeat",),
    ),
    Mutant(
        "settings-of-a-moment-kept",
        "what a broker holds is known by its own digest, not by that which was announced",
        "broker/broker_settings.py",
        "        self._digest = digest\n",
        "        self._digest = self._announced\n",
        (BROKER + "test_what_was_set_for_a_moment_is_not_kept",),
    ),
    Mutant(
        "settings-of-tomorrow",
        "a setting that this version does not know is passed over",
        "broker/broker_settings.py",
        'if setting and setting.accepts(each.value or ""))\n',
        'if not setting or setting.accepts(each.value or ""))\n',
        (BROKER + "test_a_newer_controllers_settings_are_passed_over_and_named",),
    ),
    Mutant(
        "settings-with-values-of-tomorrow",
        "a value that this version does not know is passed over",
        "broker/broker_settings.py",
        'if setting and setting.accepts(each.value or ""))\n',
        "if setting)\n",
        (BROKER + "test_a_newer_controllers_settings_are_passed_over_and_named",),
    ),
    Mutant(
        "settings-with-synonyms-unasked",
        "synonyms are given to those that want them",
        "wire/k32_describe_configs.py",
        "        if request.with_synonyms:\n",
        "        if True:\n",
        (BROKER + "test_synonyms_say_all_that_a_setting_could_have_been",),
    ),
)
