"""What is broken on purpose where SCRAM credentials are records of the metadata log."""

from typing import Final

from tests.mutants.mutant import Mutant

CRASHES: Final = (
    "tests/quorum/test_access_crashes.py::test_a_change_is_whole_or_not_there_wherever_nodes_are_killed"
)
RECORDS: Final = "tests/controller/test_scram.py::"
SERVER: Final = "tests/coordinator/test_scram_server.py::"
FOLLOWER: Final = "tests/broker/test_scram_follower.py::"
BORN: Final = "tests/settings/test_born_users.py::"
LOGIN: Final = "tests/wire/test_scram.py::"

SCRAM_USER_MUTANTS: Final = (
    Mutant(
        "scram-few-iterations",
        "a credential with too few iterations is refused",
        "controller/scram.py",
        "    if change.iterations < ITERATIONS_MIN:\n",
        "    if change.iterations < 1:\n",
        (RECORDS + "test_what_is_refused_harms_no_other_user",),
    ),
    Mutant(
        "scram-altered-twice",
        "a user is altered once in a request",
        "controller/scram.py",
        "        if changes.pop(each.name, None) is not None:\n",
        "        if False:\n",
        (RECORDS + "test_what_is_refused_harms_no_other_user",),
    ),
    Mutant(
        "scram-below-its-level",
        "credentials are written at log level 10 and above",
        "controller/scram.py",
        "    levels.require_scram_users(view)\n",
        "",
        (RECORDS + "test_limits",),
    ),
    Mutant(
        "scram-born-again",
        "users of the directory are for a cluster that is being born",
        "controller/scram.py",
        "    return formatted if level >= SCRAM_USERS and levels.is_new(view) else ()\n",
        "    return formatted if level >= SCRAM_USERS else ()\n",
        (RECORDS + "test_a_cluster_is_born_with_users_and_no_later_one",),
    ),
    Mutant(
        "scram-shown",
        "no text shows what verifies a user's proof",
        "records/schema.py",
        "    stored_key: bytes = field(metadata=BYTES, repr=False)\n",
        "    stored_key: bytes = field(metadata=BYTES)\n",
        (RECORDS + "test_no_repr_shows_a_secret",),
    ),
    Mutant(
        "scram-followed-unproved",
        "credentials go to connections that proved the cluster's secret",
        "coordinator/scram_server.py",
        "        if not context.proved:\n",
        "        if False:\n",
        (SERVER + "test_credentials_go_to_connections_alone_that_proved_the_secret",),
    ),
    Mutant(
        "scram-pages-mixed",
        "pages of different changes are no whole",
        "broker/scram_follower.py",
        "            if answer.users is None or first not in (None, answer.changes):\n",
        "            if answer.users is None:\n",
        (FOLLOWER + "test_pages_of_different_changes_are_no_whole",),
    ),
    Mutant(
        "scram-file-before-log",
        "a user of the log counts before one of the file",
        "wire/scram.py",
        "        return self.recorded(user, MECHANISMS[mechanism]) or ",
        "        return ",
        (LOGIN + "test_users_of_the_metadata_log_come_before_those_of_the_file",),
    ),
    Mutant(
        "scram-bootstrap-for-all",
        "a file with users is its owner's alone",
        "settings/node_identity.py",
        "        mode = 0o600 if identity.users else 0o644\n",
        "        mode = 0o644\n",
        (BORN + "test_a_directory_keeps_them_for_its_owner_alone",),
    ),
    Mutant(
        "access-answered-when-proposed",
        "a change of ACLs or users is answered when it is applied, not when it is proposed",
        "quorum/proposer.py",
        "        self._raft.propose(encoded)\n\n    # -- learning",
        "        self._due += answers\n        self._in_flight.answers = []\n"
        "        self._raft.propose(encoded)\n\n    # -- learning",
        (CRASHES,),
    ),
)
