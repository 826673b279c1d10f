"""Mutants of the command line: what it leaves behind, what its JSON is, what it prints of logs."""

from typing import Final

from tests.mutants.mutant import Mutant

NEW: Final = "tests/cli/test_new_cluster.py::"
DOCUMENTS: Final = "tests/cli/test_documents.py::"
LOGS: Final = "tests/cli/test_logs.py::"

COMMAND_MUTANTS: Final = (
    Mutant(
        "failed-up-leaves-it",
        "a failed up leaves nothing",
        "cli/cluster.py",
        "        if _is_idle(directory):\n",
        "        if not directory.exists():\n",
        (NEW + "test_what_was_made_goes_with_the_folders_made_for_it",),
    ),
    Mutant(
        "failed-up-removes-what-runs",
        "a failed up leaves a cluster alone whose nodes another command started",
        "cli/cluster.py",
        "        if _is_idle(directory):\n",
        "        if True:\n",
        (NEW + "test_a_cluster_whose_nodes_another_command_started_stays",),
    ),
    Mutant(
        "heads-in-json",
        "keys of JSON are in snake_case",
        "cli/output.py",
        '    return _NO_LETTER.sub("_", _HUMP.sub("_", head)).strip("_").lower()\n',
        '    return _NO_LETTER.sub("_", head).strip("_").lower()\n',
        (DOCUMENTS + "test_heads_are_keys_in_snake_case_and_names_stay",),
    ),
    Mutant(
        "names-taken-for-heads",
        "names of settings and groups are no heads of a table",
        "cli/output.py",
        "value if snake_case(str(key)) in NAMED_BY_DATA else _inside(value)",
        "_inside(value)",
        (DOCUMENTS + "test_heads_are_keys_in_snake_case_and_names_stay",),
    ),
    Mutant(
        "json-as-the-last-word",
        "a command line that cannot be parsed is refused in the format that it names, wherever",
        "cli/output.py",
        '(value if equals else "".join(arguments[last + 1 : last + 2])) == JSON\n',
        '(value if equals else "".join(arguments[-1:])) == JSON\n',
        (DOCUMENTS + "test_each_command_says_in_json_why_it_does_nothing",),
    ),
    Mutant(
        "errors-never-json",
        "an error is a document where JSON is wanted",
        "cli/output.py",
        "    if not is_json(arguments):\n",
        "    if arguments:\n",
        (DOCUMENTS + "test_an_error_is_a_sentence_and_in_json_a_document[usage]",),
    ),
    Mutant(
        "old-file-for-ever",
        "a log is followed into the file that takes its place",
        "cli/logs.py",
        "if self._file is None or not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):",
        "if self._file is None:",
        (LOGS + "test_what_is_written_comes_once_and_whole_also_over_a_rotation",),
    ),
)
