"""What is broken on purpose in the audit trail."""

from typing import Final

from tests.mutants.mutant import Mutant

TRAIL: Final = "tests/broker/access/test_trail.py::"
FILE: Final = "broker/access/trail.py"
AUDITED: Final = "broker/access/audited.py"

TRAIL_MUTANTS: Final = (
    Mutant(
        "trail-a-line-for-each-denial",
        "equal denials of a second are one line",
        FILE,
        "            self._denied[act] = self._denied.get(act, 0) + 1\n",
        '            self._sink.write(_fields("denied", act, 1))\n',
        (TRAIL + "test_equal_denials_are_a_line_with_their_number",),
    ),
    Mutant(
        "trail-denials-unbounded",
        "denials have so many lines a second, however many there are",
        FILE,
        "        if act in self._denied or len(self._denied) < LINES_MAX:\n",
        "        if True:\n",
        (TRAIL + "test_so_many_denials_have_a_line_each_and_the_others_are_counted",),
    ),
    Mutant(
        "trail-administration-lost",
        "an administrative request has its line where the file cannot be written",
        FILE,
        '            if fields["decision"] == "allowed":\n',
        "            if False:\n",
        (TRAIL + "test_where_the_file_cannot_be_written_administration_is_in_the_nodes_log",),
    ),
    Mutant(
        "trail-administration-too-late",
        "an administrative request has its line before it is carried out",
        AUDITED,
        "            if noted:\n                _write(trail, noted, context, name, required)\n"
        "            endpoint(request, context, reply)\n",
        "            endpoint(request, context, reply)\n"
        "            if noted:\n                _write(trail, noted, context, name, required)\n",
        (TRAIL + "test_what_changes_the_cluster_is_written_before_it_is_done",),
    ),
    Mutant(
        "trail-of-what-is-left-out",
        "what an answer leaves out was not denied",
        AUDITED,
        "            noted, door.noted = door.noted, None\n            if noted:\n"
        "                _write(trail, noted, context, name, required)\n            endpoint(",
        "            endpoint(",
        (TRAIL + "test_what_a_list_leaves_out_is_not_denied",),
    ),
    Mutant(
        "trail-refused-whole-unwritten",
        "a request that is refused for the cluster was denied",
        AUDITED,
        "            needed = None\n",
        "            pass\n",
        (TRAIL + "test_a_request_with_alternatives_that_is_refused_is_denied",),
    ),
)
