"""What is broken on purpose where log levels are said, raised and read."""

from typing import Final

from tests.mutants.mutant import Mutant

DECISIONS: Final = "tests/controller/test_levels.py::"
VOTERS: Final = "tests/quorum/test_log_levels.py::"
HELLOS: Final = "tests/quorum/test_handshake.py::"
LINKS: Final = "tests/quorum/test_link_levels.py::"
CONTROL: Final = "tests/records/test_control.py::"
ENTRY: Final = "tests/records/test_entry.py::"
SNAPSHOT: Final = "tests/snapshots/test_snapshot_levels.py::"
STORM: Final = "tests/simulation/test_level_storms.py::test_levels_in_short_storms"
REACHED: Final = "dialler.log_level_max is not None and acceptor.log_level_max is not None"

LEVELS: Final = (
    Mutant(
        "level-ignored",
        "what a leader writes follows the level in force",
        "controller/voters.py",
        "    version = 0 if log_level >= LEADER_CHANGE_0 else 1\n",
        "    version = 0\n",
        (
            DECISIONS + "test_the_version_of_a_leader_change_follows_the_level",
            VOTERS + "test_an_old_cluster_stays_as_it_is_until_it_is_raised",
        ),
    ),
    Mutant(
        "born-at-level-0",
        "a new cluster is at the level it was formatted at from its first record on",
        "controller/levels.py",
        "    return max(in_force(view), formatted) if is_new(view) else in_force(view)\n",
        "    return in_force(view)\n",
        (
            DECISIONS + "test_the_version_of_a_leader_change_follows_the_level",
            VOTERS + "test_a_new_cluster_is_at_its_formatted_level_from_the_first_record_on",
        ),
    ),
    Mutant(
        "raised-with-an-old-voter",
        "every bound voter reads the level before it is raised",
        "controller/levels.py",
        "    if behind and level > current:\n",
        "    if False:\n",
        (
            DECISIONS + "test_upgrade_is_refused",
            VOTERS + "test_an_old_cluster_stays_as_it_is_until_it_is_raised",
            STORM,
        ),
    ),
    Mutant(
        "raised-without-who-is-away",
        "a voter that is not connected has not said what it reads",
        "controller/levels.py",
        "        if highest.get(node, -1) < level\n",
        "        if highest.get(node, level) < level\n",
        (DECISIONS + "test_upgrade_is_refused",),
    ),
    Mutant(
        "decided-beside-the-raise",
        "nothing is decided at a new level for the entry that raises it",
        "quorum/draft.py",
        "self.cost + cost if not decision.ends_entry else max(self.cost + cost, ENTRY_COST_MAX)",
        "self.cost + cost",
        (VOTERS + "test_what_is_decided_after_a_raise_is_in_an_entry_of_its_own",),
    ),
    Mutant(
        "readmitted-below-the-level",
        "a node that cannot read what is written never becomes a voter",
        "quorum/readmission.py",
        "        if self._named_levels.get(peer, 0) < levels.in_force(view):\n",
        "        if False:\n",
        (VOTERS + "test_who_cannot_read_the_level_is_not_readmitted[older]",),
    ),
    Mutant(
        "proof-over-nine-fields",
        "the proofs cover the eight old fields if one Hello has no level",
        "quorum/handshake.py",
        f"    with_level = {REACHED}\n",
        "    with_level = True\n",
        (HELLOS + "test_old_and_new_prove_the_same",),
    ),
    Mutant(
        "proof-over-eight-fields",
        "a level that is changed on the way breaks the proof",
        "quorum/handshake.py",
        f"    with_level = {REACHED}\n",
        "    with_level = False\n",
        (HELLOS + "test_who_is_in_between_cannot_change_a_level",),
    ),
    Mutant(
        "hello-below-the-level",
        "a node that cannot read the level in force is refused by its peers",
        "quorum/handshake.py",
        "    if readable < log_level:\n",
        "    if False:\n",
        (
            HELLOS + "test_a_peer_must_read_the_level_of_this_cluster",
            LINKS + "test_a_node_below_the_level_of_the_cluster_is_refused_on_both_sides",
            LINKS + "test_a_raise_ends_the_connections_of_who_cannot_read_it",
        ),
    ),
    Mutant(
        "version-1-not-read",
        "a LeaderChange of version 1 is read by its own schema, for ever",
        "records/control.py",
        "    if record_type is LeaderChange and version == 0:\n",
        "    if record_type is LeaderChange:\n",
        (
            CONTROL + "test_the_bytes_are_kafkas",
            VOTERS + "test_both_versions_are_read_again_after_a_restart",
        ),
    ),
    Mutant(
        "version-0-not-read",
        "a LeaderChange of version 0 is read by its own schema",
        "records/control.py",
        "    if record_type is LeaderChange and version == 0:\n",
        "    if False:\n",
        (
            CONTROL + "test_the_bytes_are_kafkas",
            VOTERS + "test_both_versions_are_read_again_after_a_restart",
        ),
    ),
    Mutant(
        "later-entry-is-damage",
        "an entry above this node's level is not damage",
        "records/entry.py",
        "    _require_readable(encoded)\n",
        "",
        (
            ENTRY + "test_an_entry_of_a_later_level_is_no_damage",
            VOTERS + "test_an_entry_of_a_later_layout_stops_who_applies_it",
        ),
    ),
    Mutant(
        "later-entry-binds-no-one",
        "an entry above this node's level is decoded before its votes are counted",
        "records/entry.py",
        "        if not encoded.startswith(_GROUP_LOG_PREFIX):\n            return True\n",
        "        if not encoded.startswith(_GROUP_LOG_PREFIX):\n            return False\n",
        (VOTERS + "test_an_entry_of_a_later_layout_stops_who_would_lead_on_it",),
    ),
    Mutant(
        "later-snapshot-is-damage",
        "a snapshot above this node's level is not damage",
        "snapshots/snapshot.py",
        "    _require_readable(raw, origin)\n",
        "",
        (
            SNAPSHOT + "test_a_sound_manifest_of_a_later_level_is_no_damage",
            VOTERS + "test_a_snapshot_of_a_later_level_is_not_set_aside_at_the_start",
        ),
    ),
    Mutant(
        "damage-is-a-later-snapshot",
        "a manifest whose checksum does not fit is damage, whatever level it claims",
        "snapshots/snapshot.py",
        "    if sound and isinstance(level, int) and level > LEVEL_MAX:\n",
        "    if isinstance(level, int) and level > LEVEL_MAX:\n",
        (SNAPSHOT + "test_a_level_that_a_broken_byte_made_is_damage",),
    ),
    Mutant(
        "image-above-the-node",
        "a node whose image is above its level says so, and goes no further",
        "quorum/log_levels.py",
        "    if level > config.log_level_max:\n",
        "    if False:\n",
        (
            VOTERS + "test_the_level_record_itself_stops_a_node_that_does_not_read_it",
            VOTERS + "test_an_image_above_the_software_is_said_at_the_start",
        ),
    ),
    Mutant(
        "level-0-leaves-a-trace",
        "a snapshot at level 0 is byte for byte what it was before log levels",
        "snapshots/snapshot.py",
        "        log_level=levels.in_force(reader) or msgspec.UNSET,\n",
        "        log_level=levels.in_force(reader),\n",
        (SNAPSHOT + "test_level_0_leaves_no_trace_in_a_snapshot",),
    ),
)
