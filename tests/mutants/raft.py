"""Mutants of the Raft core's firewall, its journal, its links and its proposer."""

from typing import Final

from tests.mutants.mutant import Mutant

CORE: Final = "tests/quorum/test_raft_log.py::"
FIREWALL: Final = "tests/quorum/test_firewall.py::"
PROPOSER: Final = "tests/quorum/test_proposer.py::"
DURABILITY: Final = "tests/quorum/test_durability.py::"
ELECTORATE: Final = "tests/quorum/test_electorate.py::"
READMISSION: Final = "tests/quorum/test_readmission.py::"
LINKS: Final = "tests/quorum/test_links.py::"
SNAPSHOTS: Final = "tests/quorum/test_snapshots.py::"
JOURNAL: Final = "tests/quorum/test_journal.py::"
STORMS: Final = "tests/simulation/test_storms.py::test_storms_of_one_kind"

FLUSH: Final = "        if self.journal.must_flush:\n            self.journal.flush()\n"
RELEASE: Final = "        self._transport.release()\n"

RAFT: Final = (
    Mutant(
        "a-led-cluster-hurried",
        "once a node has led, a follower that reaches all voters waits for the leader's silence",
        "quorum/raft_log.py",
        "(self.term > 0 if lost is None else",
        "(False if lost is None else",
        (CORE + "test_a_cluster_that_was_led_waits_for_its_leaders_silence",),
    ),
    Mutant(
        "new-cluster-not-hurried",
        "in a new cluster the lowest rank campaigns as soon as all voters are connected",
        "quorum/raft_log.py",
        "(self.term > 0 if lost is None else",
        "(True if lost is None else",
        (CORE + "test_the_lowest_rank_of_a_new_cluster_campaigns_once_all_are_connected",),
    ),
    # -- the firewall (docs/raft-hazards.md H1-H4) -----------------------------------------------------------
    Mutant(
        "conflict-cut",
        "entries that the log has already are stripped, so that only a conflict cuts (H1)",
        "quorum/firewall.py",
        "                if journal.term_at(index) != term:\n                    break\n",
        "                break\n",
        (
            FIREWALL + "test_h1_a_late_duplicate_does_not_cut_what_was_acknowledged_since",
            FIREWALL + "test_h1_an_overlapping_message_adds_only_what_is_new",
            STORMS + "[duplicates]",
        ),
    ),
    Mutant(
        "commit-cap",
        "the commit index stays below what the message vouches for (H1)",
        "quorum/firewall.py",
        "        commit = min(message.commit_index, claimed_end)",
        "        commit = message.commit_index",
        (FIREWALL + "test_h1_the_commit_index_does_not_reach_entries_that_the_leader_never_vouched_for",),
    ),
    Mutant(
        "heartbeat-acks-junk",
        "the ack of a heartbeat says only what the leader vouched for (H1)",
        "quorum/firewall.py",
        "        self._ack_next = matched + 1",
        "        self._ack_next = None",
        (
            FIREWALL + "test_h1_a_heartbeat_below_junk_is_not_an_ack_of_the_junk",
            FIREWALL + "test_h1_the_ack_of_a_late_duplicate_says_only_what_it_vouched_for",
        ),
    ),
    Mutant(
        "ack-terms",
        "an ack counts only in the term that it was given in (H2)",
        "quorum/firewall.py",
        "        if message.term != raft.term or not raft.is_leader:",
        "        if not raft.is_leader:",
        (
            FIREWALL + "test_h2_an_ack_of_an_old_term_counts_for_nothing",
            FIREWALL
            + "test_h2_an_ack_that_stalled_over_two_elections_does_not_commit_what_replaced_its_entry",
        ),
    ),
    Mutant(
        "voters-not-votes",
        "a vote counts once per voter and term (H3)",
        "quorum/firewall.py",
        "        if (message.term, peer) in self._votes or not self._counted.counts(peer):",
        "        if not self._counted.counts(peer):",
        (FIREWALL + "test_h3_a_vote_that_arrives_twice_counts_once",),
    ),
    Mutant(
        "stale-resets",
        "a late refusal does not send a follower back below what it has (H4)",
        "quorum/firewall.py",
        "        if message.reset and message.next_index <= raft.match_index(peer):",
        "        if False:",
        (FIREWALL + "test_h4_a_late_refusal_does_not_move_the_next_index_below_what_was_acknowledged",),
    ),
    Mutant(
        "matches-outlive-connections",
        "a follower that comes back with less than it acknowledged is sent it again (H4)",
        "quorum/firewall.py",
        "            if not is_first:\n",
        "            if True:\n",
        (
            "tests/quorum/test_older_store.py::test_a_follower_with_less_than_it_acknowledged_is_sent_it_again",
        ),
    ),
    Mutant(
        "refusals-go-back",
        "a refusal moves the next index back, never forward",
        "quorum/firewall.py",
        "        reset = message.reset and message.next_index < next_before",
        "        reset = message.reset",
        (FIREWALL + "test_a_follower_with_a_conflict_far_behind_catches_up",),
    ),
    Mutant(
        "behind-once",
        "a follower that is behind is told once per round trip",
        "quorum/firewall.py",
        "            self._raft.keep_next_index(peer, LogIndex(self._journal.last_index + 1))\n",
        "",
        (ELECTORATE + "test_a_leader_that_is_behind_is_told_once_not_without_end",),
    ),
    # -- flushes (H9, H10) -----------------------------------------------------------------------------------
    Mutant(
        "flush-before-send",
        "acks and votes wait for the flush of the next turn",
        "quorum/transport.py",
        "            self._parked.append((peer, typed))\n        return True\n",
        "            self._send(peer, encode(typed))\n        return True\n",
        (
            DURABILITY + "test_h9_an_ack_leaves_when_the_entry_is_on_disk",
            DURABILITY + "test_h9_a_vote_leaves_when_it_is_on_disk",
            DURABILITY + "test_h9_a_candidate_asks_for_votes_when_its_own_is_on_disk",
        ),
    ),
    Mutant(
        "flush-before-tick",
        "the leader's own entry is on disk before the tick that counts it",
        "quorum/replica.py",
        FLUSH + RELEASE,
        FLUSH.replace("must_flush", "must_flush and not self.raft.is_leader") + RELEASE,
        (
            DURABILITY + "test_h9_an_answer_leaves_when_the_leaders_own_entry_is_on_disk",
            STORMS + "[deaths]",
        ),
    ),
    Mutant(
        "commit-clamp",
        "a commit index beyond the log is cut back at a start (H10)",
        "quorum/journal.py",
        "min(1 if commit_index is None else commit_index, self.last_index)",
        "1 if commit_index is None else commit_index",
        (JOURNAL + "test_h10_a_commit_index_beyond_the_log_is_cut_back_to_it",),
    ),
    Mutant(
        "truncation-guard",
        "a cut at or below the commit index halts",
        "quorum/journal.py",
        "        invariant(index > self._commit_index, ",
        "        invariant(index >= 0, ",
        (JOURNAL + "test_what_must_not_happen_halts[cut-at-the-commit-index]",),
    ),
    # -- the fence -------------------------------------------------------------------------------------------
    Mutant(
        "fence-version",
        "an entry applies only on the version it was decided on",
        "controller/replay.py",
        "(entry.base_version, entry.controller_epoch) != (before.version, before.controller_epoch)",
        "entry.controller_epoch != before.controller_epoch",
        ("tests/controller/test_replay.py::test_of_two_decisions_on_one_version_one_applies",),
    ),
    Mutant(
        "fence-epoch",
        "an entry applies only in the epoch it was decided in",
        "controller/replay.py",
        "(entry.base_version, entry.controller_epoch) != (before.version, before.controller_epoch)",
        "entry.base_version != before.version",
        (
            "tests/controller/test_replay.py::test_an_entry_of_a_deposed_leader_is_superseded",
            "tests/transcripts/test_transcripts.py::test_transcript[a-fence-needs-the-epoch]",
        ),
    ),
    # -- answers ---------------------------------------------------------------------------------------------
    Mutant(
        "fate-at-apply",
        "losing leadership says nothing about what is in flight",
        "quorum/proposer.py",
        "        waiting, self._pending, self._clients_wait, self._alone = self._pending, deque(), 0, 0\n",
        "        waiting, self._pending, self._clients_wait, self._alone = self._pending, deque(), 0, 0\n"
        "        if self._in_flight is not None:\n"
        "            self._settle(self._in_flight, Superseded(self._store.image.header.version))\n",
        (
            PROPOSER + "test_losing_leadership_says_nothing_about_what_is_in_flight",
            PROPOSER + "test_an_entry_that_outlives_its_leadership_is_answered_with_success",
        ),
    ),
    Mutant(
        "answers-ride-on-an-entry",
        "refusals and reads leave when an entry of their batch is applied",
        "quorum/draft.py",
        "            self.refuse(request, refusal)\n",
        "            request.refuse(refusal)\n            request.respond()\n",
        (
            PROPOSER + "test_every_answer_waits_for_its_entry",
            PROPOSER + "test_h16_a_deposed_leader_tells_nobody_anything_about_the_image",
        ),
    ),
    Mutant(
        "reads-ride-on-an-entry",
        "a read waits for an entry, an empty one if need be",
        "quorum/draft.py",
        "            return self._take_records(request, decision)\n        self.answers.append(request)\n",
        "            return self._take_records(request, decision)\n        request.respond()\n",
        (
            PROPOSER + "test_a_read_alone_waits_for_an_entry_too",
            PROPOSER + "test_h16_a_deposed_leader_tells_nobody_anything_about_the_image",
        ),
    ),
    Mutant(
        "skipped-is-unknown",
        "an entry that a snapshot skipped is not taken for superseded",
        "quorum/replica.py",
        "        self.proposer.skipped()\n",
        "",
        (PROPOSER + "test_a_snapshot_that_skips_an_entry_leaves_its_fate_unknown",),
    ),
    # -- voters and directories ------------------------------------------------------------------------------
    Mutant(
        "unbound-votes",
        "a voter whose directory is not bound does not vote",
        "quorum/electorate.py",
        "        return self.counts(self._node_id)",
        "        return True",
        (
            ELECTORATE + "test_a_wiped_voter_that_caught_up_does_not_vote_before_it_is_readmitted",
            ELECTORATE + "test_a_wiped_voter_does_not_campaign",
        ),
    ),
    Mutant(
        "unbound-acks",
        "the acks of a voter whose directory is not bound commit nothing",
        "quorum/firewall.py",
        "        if not self._counted.counts(peer):\n            if success:",
        "        if False:\n            if success:",
        (ELECTORATE + "test_the_acks_of_a_wiped_voter_commit_nothing",),
    ),
    Mutant(
        "match-of-the-wiped",
        "a leader forgets what a wiped voter had acknowledged",
        "quorum/replica.py",
        "            self.raft.forget(peer)\n",
        "            pass\n",
        (ELECTORATE + "test_a_leader_forgets_what_a_wiped_voter_had_acknowledged",),
    ),
    Mutant(
        "candidate-says-who-votes",
        "a voter whose log does not bind it yet votes if the candidate's log does",
        "quorum/firewall.py",
        "        voting = self._counted.may_vote or (later and self._counted.is_own(message.directory))",
        "        voting = self._counted.may_vote",
        (ELECTORATE + "test_who_was_readmitted_votes_even_if_only_the_candidate_knows_it",),
    ),
    Mutant(
        "later-log-says-who-counts",
        "a vote is given to a candidate whose log is later, though ours does not count it",
        "quorum/firewall.py",
        "        if voting and (later or self._counted.counts(peer)):",
        "        if voting and self._counted.counts(peer):",
        (ELECTORATE + "test_who_was_readmitted_is_elected_even_by_those_who_do_not_know_it",),
    ),
    Mutant(
        "readmission-in-flight",
        "a voter is readmitted also while something is always in flight",
        "quorum/proposer.py",
        "        if not self.active or self.stopping or self._controls:",
        "        if not self.active or self.stopping or self._controls or self._in_flight is not None:",
        (ELECTORATE + "test_it_is_readmitted_also_while_there_is_always_something_in_flight",),
    ),
    Mutant(
        "readmission-of-the-quick",
        "a voter is readmitted also where its last ack is always older than the last commit",
        "quorum/readmission.py",
        "        goal = committed if self._looked is None or self._looked[0] != term else self._looked[1]",
        "        goal = committed",
        (READMISSION + "test_one_whose_last_ack_is_always_older_than_the_last_commit_is_readmitted",),
    ),
    Mutant(
        "readmission-by-an-old-look",
        "what was committed in an earlier leadership is no measure of who caught up",
        "quorum/readmission.py",
        "        goal = committed if self._looked is None or self._looked[0] != term else self._looked[1]",
        "        goal = committed if self._looked is None else self._looked[1]",
        (READMISSION + "test_one_that_fell_behind_before_this_leadership_is_not",),
    ),
    Mutant(
        "readmission-of-the-absent",
        "a voter that falls further and further behind is not readmitted",
        "quorum/readmission.py",
        "            if self._firewall.learner_match.get(peer, 0) >= goal:\n",
        "            if True:\n",
        (READMISSION + "test_one_that_falls_further_and_further_behind_is_not",),
    ),
    Mutant(
        "readmission-logged-early",
        "a step of a readmission is logged when it is decided, as what it is",
        "quorum/readmission.py",
        "            known = voters.bindings(view).get(peer)\n",
        "            known = None\n",
        (READMISSION + "test_each_step_is_logged_as_what_it_is_also_where_entries_take_long",),
    ),
    Mutant(
        "journal-waits",
        "the journal keeps what a follower needs next that is being sent a snapshot",
        "quorum/snapshotter.py",
        "        return min([self._compact_to, *(index for index, _ in self._needed.values())])",
        "        return self._compact_to",
        (
            SNAPSHOTS
            + "test_the_journal_waits_for_a_follower_that_installs_longer_than_the_next_snapshot_takes",
        ),
    ),
    Mutant(
        "journal-waits-too-short",
        "the journal waits until a follower that installs has been asked again, and its answer is here",
        "quorum/snapshotter.py",
        "        return self._clock() + 2 * CHUNK_WAIT_S",
        "        return self._clock() + CHUNK_WAIT_S",
        (
            SNAPSHOTS
            + "test_the_journal_waits_for_a_follower_that_installs_longer_than_the_next_snapshot_takes",
        ),
    ),
    Mutant(
        "past-directory",
        "the process at a peer's address ends the connection of an earlier directory",
        "quorum/links.py",
        "            self.links.meet_dialled(self._peer, self._theirs)",
        "            self.links.meet(self._peer, self._theirs)",
        (LINKS + "test_the_process_at_a_peers_address_ends_what_an_earlier_directory_still_says",),
    ),
)
