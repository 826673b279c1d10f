"""What is broken on purpose in what a voter that knows the secret may send, and in the tests' own ports."""

from typing import Final

from tests.mutants.mutant import Mutant

VOTER: Final = "tests/quorum/test_hostile_voter.py::"
MESSAGES: Final = "tests/quorum/test_messages.py::test_anything_else_is_corrupt"

HOSTILE_VOTER: Final = (
    Mutant(
        "damaged-entry-journaled",
        "an entry whose CRC is wrong closes its connection",
        "quorum/messages.py",
        "            _check_command(command, entry_index)\n",
        "            pass\n",
        (
            MESSAGES,
            VOTER + "test_a_damaged_frame_closes_its_connection_and_reaches_nothing[seed-1]",
        ),
    ),
    Mutant(
        "negative-position",
        "a position in a file is never negative",
        "quorum/messages.py",
        "Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]",
        "Number = Annotated[int, msgspec.Meta(le=2**63 - 1)]",
        (MESSAGES,),
    ),
    Mutant(
        "nested-manifest",
        "a manifest that is nested too deeply is a corrupt snapshot",
        "snapshots/snapshot.py",
        "    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):\n        return\n",
        "    except (msgspec.DecodeError, UnicodeDecodeError):\n        return\n",
        (
            VOTER + "test_a_deeply_nested_manifest_is_a_corrupt_snapshot",
            VOTER + "test_no_number_or_name_in_a_message_stops_a_node[follower-SnapshotBegin]",
        ),
    ),
    Mutant(
        "votes-kept-for-ever",
        "only votes of the current term are remembered",
        "quorum/firewall.py",
        "        if message.term != self._raft.term:\n            return  # it elects",
        "        if False:\n            return  # it elects",
        (VOTER + "test_votes_of_other_terms_are_not_remembered",),
    ),
    Mutant(
        "refused-snapshots-unlimited",
        "lines about refused snapshots are limited",
        "quorum/snapshot_receiver.py",
        '        self._refusals.error("snapshot_refused"',
        '        self._log.error("snapshot_refused"',
        (VOTER + "test_refused_snapshots_fill_no_log",),
    ),
    Mutant(
        "snapshot-sent-to-no-one",
        "only a transfer that was under way is said to have ended",
        "quorum/snapshotter.py",
        "            if self._transfers.pop(peer, None) is not None:\n",
        "            if self._transfers.pop(peer, None) is None:\n",
        (VOTER + "test_refused_snapshots_fill_no_log",),
    ),
)
