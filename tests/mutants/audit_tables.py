"""What is broken on purpose in the audit's tables: who may write, what counts, what is deleted or read."""

from typing import Final

from tests.mutants.mutant import Mutant

WRITING: Final = "tests/audit/tables/test_writing.py::"
INGEST: Final = "tests/audit/tables/test_ingest.py::"
DEEP: Final = "tests/audit/tables/test_deep.py::"
KILLED: Final = "tests/audit/tables/test_killed.py::test_killed_before_each_thing_it_does_to_its_folder"
SOURCE: Final = "tests/audit/source/"
SESSION: Final = "tests/audit/spark/source/test_session.py::"

AUDIT_TABLES: Final = (
    Mutant(
        "document-before-the-parts",
        "an ingest is committed when all that its document names is there",
        "audit/tables/ingest.py",
        "            parts += _files_part(place, taken.number, states)\n",
        "            commit(place, taken, parts, dict.fromkeys(everywhere, settled_ms))\n"
        "            parts += _files_part(place, taken.number, states)\n",
        (KILLED,),
    ),
    Mutant(
        "a-name-is-put-twice",
        "a name that is taken is not given to another content",
        "audit/tables/place.py",
        "            os.link(half, path)\n",
        "            os.rename(half, path)\n",
        (WRITING + "test_a_name_is_put_once[hard-links]",),
    ),
    Mutant(
        "a-taken-name-commits",
        "a writer whose number was abandoned does not commit",
        "audit/tables/writing.py",
        "    if taken.number not in numbers(place)[1] or not place.put_new(name, encode(ingest)):\n",
        "    place.put_new(name, encode(ingest))\n    if False:\n",
        (
            WRITING + "test_a_commit_that_finds_its_name_taken_is_refused",
            WRITING + "test_a_dead_writer_is_abandoned_and_what_it_left_is_deleted",
        ),
    ),
    Mutant(
        "both-writers-go-on",
        "of two writers of the same directories one is refused",
        "audit/tables/writing.py",
        '        if said is not None and _overlap(roots, said["roots"]):\n',
        "        if said is not None and not roots:\n",
        (WRITING + "test_a_writer_of_the_same_directories_is_refused_by_name",),
    ),
    Mutant(
        "no-writer-goes-on",
        "of two writers of the same directories the one with the lower number goes on",
        "audit/tables/writing.py",
        "        if other >= number or other in done:\n",
        "        if other == number or other in done:\n",
        (WRITING + "test_the_writer_with_the_lower_number_goes_on",),
    ),
    Mutant(
        "a-living-writer-is-swept",
        "what a writer that lives has written is not deleted",
        "audit/tables/writing.py",
        "        if ingest is not None and ingest not in writing and name not in named:\n",
        "        if ingest is not None and name not in named:\n",
        (WRITING + "test_a_writer_that_lives_is_never_abandoned",),
    ),
    Mutant(
        "deep-is-forgotten-by-the-task",
        "a task of a deep ingest opens the records",
        "audit/tables/bundle.py",
        "decode_file(file, piece.start, until, deep=deep, files=files)",
        "decode_file(file, piece.start, until, files=files)",
        (DEEP + "test_noise_under_a_right_checksum_is_a_finding_of_a_deep_check",),
    ),
    Mutant(
        "what-was-not-opened-stays-so",
        "a deep ingest reads a segment anew whose records were not opened before",
        "audit/tables/planning.py",
        'row["valid_end"] and not row["is_opened"]:\n',
        'not row["valid_end"]:\n',
        (DEEP + "test_what_was_read_without_it_is_read_anew_once",),
    ),
    Mutant(
        "a-shallow-tail-counts-as-opened",
        "a segment whose tail was not opened is not opened",
        "audit/tables/ingest.py",
        "    is_opened = start.is_opened and opens(file, deep=deep)\n",
        "    is_opened = start.is_opened\n",
        (DEEP + "test_a_tail_that_was_read_without_it_is_read_anew",),
    ),
    Mutant(
        "known-rows-cut",
        "a kept relation of Spark's is known whole, or is not a part of plans",
        "audit/engine/spark.py",
        "computed.limit(KNOWN_ROWS_MAX + 1)",
        "computed.limit(KNOWN_ROWS_MAX)",
        ("tests/audit/spark/checks/test_known.py::test_a_kept_relation_has_all_its_rows[one-more]",),
    ),
    Mutant(
        "heap-grows-to-its-limit",
        "the heap of a small JVM is collected while a check runs",
        "audit/source/session.py",
        '    "spark.cleaner.periodicGC.interval": "30s",',
        "   ",
        (SESSION + "test_setting[a-heap-that-shrinks]",),
    ),
    Mutant(
        "a-small-jvm-overrides-its-caller",
        "what the caller of a session sets stays, with a small JVM too",
        "audit/source/session.py",
        "(_LOCAL | _small(conf)).items():\n            conf.setIfMissing(key, value)\n",
        "(_LOCAL | _small(conf)).items():\n            conf.set(key, value)\n",
        (SESSION + "test_setting[the-caller's-for-ours]",),
    ),
    Mutant(
        "workers-import-for-themselves",
        "workers of this machine share the memory of what they import",
        "audit/source/session.py",
        '"fencepost.audit.jobs.workers"',
        '"pyspark.daemon"',
        (SESSION + "test_workers_are_forked_from_what_has_imported_their_modules",),
    ),
    Mutant(
        "many-cores-sort-in-nothing",
        "each task has memory to sort in, of however many cores",
        "audit/source/session.py",
        "min(cores * SORT_MB_PER_CORE / (_heap_mb(cores) - _RESERVED_MB), _FRACTION_MAX)",
        "0.2",
        (SESSION + "test_a_heap_is_as_large_as_the_tasks_that_run_at_once_need[many-cores]",),
    ),
    Mutant(
        "spark-starts-in-silence",
        "the time that Spark's start takes is shown while it takes it",
        "audit/jobs/session.py",
        "        while not ended.wait(LOOK_SECONDS):\n",
        "        while not ended.wait(600):\n",
        ("tests/audit/jobs/test_choice.py::test_a_wait_is_shown_with_its_time",),
    ),
    Mutant(
        "a-slow-engine-is-silence",
        "the time is shown while an engine does not say how far it is",
        "audit/jobs/session.py",
        's  {reached}".rstrip())\n',
        's  {progress()}".rstrip())\n',
        ("tests/audit/jobs/test_choice.py::test_a_wait_is_shown_while_the_engine_does_not_answer",),
    ),
    Mutant(
        "replaced-files-are-deleted-at-once",
        "a reader keeps the files that it began with",
        "audit/tables/writing.py",
        "        if now_ms - ingest.committed_ms >= RETIRED_SECONDS * 1000\n",
        "",
        (INGEST + "test_small_ingests_are_merged_and_old_ones_kept_for_their_readers",),
    ),
    Mutant(
        "superseded-rows-count",
        "rows of a log file that is another by now do not count",
        "audit/tables/snapshot.py",
        "        return frozenset(path for path in self.paths[number] if "
        'self.files[path][0]["first_ingest"] > number)\n',
        "        return frozenset()\n",
        (
            WRITING + "test_rows_below_the_first_ingest_of_their_file_do_not_count",
            INGEST + "test_a_file_that_was_changed_is_read_anew[truncated]",
            INGEST + "test_a_file_that_was_changed_is_read_anew[deleted]",
        ),
    ),
    Mutant(
        "one-listing",
        "a reader sees no ingest without what it builds on",
        "audit/tables/snapshot.py",
        "        if listed == before:\n",
        "        if before is not None:\n",
        (WRITING + "test_a_reader_sees_no_ingest_without_what_it_builds_on",),
    ),
    Mutant(
        "half-a-document-counts",
        "a document that was not written to its end commits nothing",
        "audit/tables/layout.py",
        '    if not content.endswith(b"\\n"):\n        return None\n',
        "",
        (WRITING + "test_half_a_document_does_not_count",),
    ),
    Mutant(
        "merged-beside-a-writer",
        "nothing is merged while one that began before writes",
        "audit/tables/merging.py",
        "        if not chosen or not is_alone(place, taken.number):\n",
        "        if not chosen:\n",
        (WRITING + "test_nothing_is_merged_while_one_that_began_before_writes",),
    ),
    Mutant(
        "other-machines-files-replace-ours",
        "two machines' files are not taken for one another",
        "audit/tables/planning.py",
        '    if NO_NODE not in {row["node"], file.node} and row["node"] != file.node:\n',
        '    if row["node"] is None:\n',
        (WRITING + "test_fifty_brokers_with_the_same_paths",),
    ),
    Mutant(
        "read-from-the-start-again",
        "a file that grew is read from where it was left",
        "audit/tables/planning.py",
        'Start(file, row["valid_end"], row["first_ingest"], ',
        'Start(file, 0, row["first_ingest"], ',
        (INGEST + "test_growing_files_are_read_once_and_from_where_they_were_left[fencepost]",),
    ),
    Mutant(
        "the-page-cache-is-emptied",
        "what the page cache had before stays in it",
        "audit/source/sparing.py",
        "        if wanted and self._cached(content, position) == wanted:\n            return content\n",
        "",
        (SOURCE + "test_sparing.py::test_the_page_cache_is_as_it_was[what-was-cached-stays]",),
    ),
    Mutant(
        "faster-than-allowed",
        "logs are read within the rate",
        "audit/source/sparing.py",
        "            self._budget.take(size)\n",
        "",
        (SOURCE + "test_sparing.py::test_never_faster_than_the_rate",),
    ),
)
