"""Mutants of what a voter's driver does beside Raft: a simulation notices each of them."""

from typing import Final

from tests.mutants.mutant import Mutant

DUTIES: Final = "tests/simulation/test_driver_duties.py::"
CLEAN_STOP: Final = "tests/node/test_clean_stop.py::"

SIMULATED: Final = (
    Mutant(
        "goes-on-after-a-failed-flush",
        "a disk that fails ends the process",
        "node/driver.py",
        "            self.stop()\n            return [Halt(where, error)]",
        "            if not isinstance(error, OSError):\n"
        "                self.stop()\n                return [Halt(where, error)]",
        (
            DUTIES + "test_a_disk_that_fails_ends_its_process_and_what_was_acknowledged_is_there",
            DUTIES + "test_one_flush_that_fails_halts_its_node[leader-EIO]",
            DUTIES + "test_one_flush_that_fails_halts_its_node[follower-ENOSPC]",
        ),
    ),
    Mutant(
        "a-halt-that-still-speaks",
        "the frames of an event that raised are not sent",
        "node/driver.py",
        "            self.stop()\n            return [Halt(where, error)]",
        "            self.stopped = True\n            return [*self._out, Halt(where, error)]",
        (DUTIES + "test_a_disk_that_fails_ends_its_process_and_what_was_acknowledged_is_there",),
    ),
    Mutant(
        "no-session-of-grace",
        "a new leader gives every broker one whole session",
        "controller/brokers.py",
        "        heartbeat_ms = self._heartbeats_ms.get(broker_id, self.activated_ms)\n",
        "        heartbeat_ms = self._heartbeats_ms.get(broker_id, 0)\n",
        (DUTIES + "test_a_new_leader_gives_every_broker_a_whole_session",),
    ),
    Mutant(
        "a-stop-without-a-hand-over",
        "a clean stop hands leadership over before the process ends",
        "node/driver.py",
        "        self.handed_over = self.handed_over or self.replica.hand_over()\n",
        "",
        (
            DUTIES + "test_a_clean_stop_leaves_a_cluster_that_is_led[0]",
            DUTIES + "test_a_clean_stop_leaves_a_cluster_that_is_led[1]",
            DUTIES + "test_a_clean_stop_leaves_a_cluster_that_is_led[2]",
            CLEAN_STOP + "test_a_leader_hands_over_and_then_may_end",
        ),
    ),
    Mutant(
        "hands-over-once",
        "each tick of a clean stop tries to hand over again",
        "node/driver.py",
        "        if self._leaves_at_s is not None:\n            self._hand_over()\n",
        "",
        (CLEAN_STOP + "test_each_tick_of_a_clean_stop_asks_again_until_a_voter_is_ready",),
    ),
    Mutant(
        "a-stop-that-never-ends",
        "a clean stop ends in time though no voter takes over",
        "node/driver.py",
        "(not leads or self._clock() >= leaves_at_s)",
        "not leads",
        (CLEAN_STOP + "test_a_clean_stop_of_a_leader_that_no_voter_relieves_ends_in_time",),
    ),
    Mutant(
        "nothing-is-set-aside",
        "a timer passes by the rows on which its decision fails",
        "quorum/quarantine.py",
        " if row.concern == concern and now_s < row.retry_at_s\n",
        " if row.concern == concern and now_s < 0.0\n",
        (DUTIES + "test_rows_that_cannot_be_decided_keep_no_others_from_their_timeout",),
    ),
    Mutant(
        "a-service-that-fails-ends-the-process",
        "a service's timer that fails stops nothing else",
        "node/driver.py",
        "        except Exception as error:  # noqa: BLE001 - around one decision of a service\n",
        "        except ZeroDivisionError as error:\n",
        (DUTIES + "test_a_services_timer_that_fails_stops_nothing_else",),
    ),
    Mutant(
        "earlier-terms-are-forgotten",
        "a leader answers for what it proposed in an earlier term",
        "quorum/proposer.py",
        "            self._previous_proposals.append(self._in_flight)\n",
        "",
        (DUTIES + "test_a_leader_that_comes_back_answers_for_what_it_proposed_in_an_earlier_term",),
    ),
    Mutant(
        "maintenance-lost",
        "a maintenance tick takes snapshots and readmits voters",
        "node/driver.py",
        "        self.replica.maintenance_tick()\n",
        "",
        (DUTIES + "test_maintenance_takes_snapshots_and_readmits_a_wiped_voter",),
    ),
    Mutant(
        "services-are-not-activated",
        "services begin a leadership when this node decides",
        "node/driver.py",
        "            service.activated(now_ms)\n",
        "            del service\n",
        (DUTIES + "test_a_new_leader_gives_every_broker_a_whole_session",),
    ),
    Mutant(
        "archive-batches-unchecked",
        "an archive is cut at the first batch of which a power loss took a part",
        "snapshots/segments.py",
        '        raise TornTail(f"the file ends after {len(content)} bytes of a batch of {header.size}")\n'
        "    checked_header(content)\n",
        '        raise TornTail(f"the file ends after {len(content)} bytes of a batch of {header.size}")\n',
        (
            "tests/simulation/test_power_loss.py::test_an_archive_that_lost_sectors_is_again_what_was_committed",
        ),
    ),
)
