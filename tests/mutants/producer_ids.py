"""What is broken on purpose where producer ids are given out, told of, and taken over from ZooKeeper."""

from typing import Final

from tests.mutants.mutant import Mutant

IDS: Final = "tests/controller/test_producer_ids.py::"
MIGRATION: Final = "tests/controller/test_migration.py::"
BRIDGE: Final = "tests/bridge/test_migrator.py::"
UPGRADE: Final = "tests/bridge/test_upgrade.py::"
WRITTEN: Final = (
    '            if isinstance(outcome, Written):\n                self._reach("allocate:range-written")\n'
)
UPGRADE_STORM: Final = "tests/simulation/test_upgrade_storms.py::test_upgrade"
GIVEN_OUT: Final = "tests/cli/test_commands.py::test_a_block_that_only_the_best_journal_has_was_given_out_too"

PRODUCER_IDS: Final = (
    # -- producer ids ----------------------------------------------------------------------------------------
    Mutant(
        "exhaustion-boundary",
        "the last block ends exactly at 2^63 - 1",
        "controller/producer_ids.py",
        "    if first > PRODUCER_ID_MAX - block_length:",
        "    if first >= PRODUCER_ID_MAX - block_length:",
        (IDS + "test_allocate",),
    ),
    Mutant(
        "block-end",
        "the end of a block is exclusive: the first id that was never given out (KAFKA-15552)",
        "controller/producer_ids.py",
        "ProducerId(first + block_length)",
        "ProducerId(first + block_length - 1)",
        (IDS + "test_allocate", IDS + "test_blocks_follow_one_another_without_overlap"),
    ),
    Mutant(
        "told-from-the-image",
        "what was answered since the image went to disk is told, too",
        "cli/images.py",
        "        if command[:1] != NO_OP:\n",
        "        if False:\n",
        (GIVEN_OUT,),
    ),
    Mutant(
        "longest-journal-is-best",
        "the best journal is the one whose last entry has the highest term, then index (Raft paper, 5.4.1)",
        "cli/images.py",
        "    return term, index, reader.header.version\n",
        "    return index, term, reader.header.version\n",
        (GIVEN_OUT,),
    ),
    # -- the upgrade from ZooKeeper --------------------------------------------------------------------------
    Mutant(
        "import-at-block-start",
        "the quorum goes on at block_end + 1, not at block_start (KAFKA-15552)",
        "controller/migration.py",
        "    return block_end + 1\n",
        "    return max(0, block_end - ZOOKEEPER_BLOCK_LENGTH + 1)\n",
        (
            MIGRATION + "test_a_step",
            UPGRADE + "test_the_whole_way",
            UPGRADE_STORM + "[upgrade-seed-1]",
        ),
    ),
    Mutant(
        "import-at-block-end",
        "the quorum goes on at block_end + 1, not at block_end",
        "controller/migration.py",
        "    return block_end + 1\n",
        "    return max(0, block_end)\n",
        (
            MIGRATION + "test_a_step",
            UPGRADE + "test_the_whole_way",
            UPGRADE_STORM + "[upgrade-seed-1]",
        ),
    ),
    Mutant(
        "allocation-before-the-switch",
        "the quorum allocates only when the switch is applied",
        "controller/migration_phase.py",
        "BY_QUORUM: Final = (Phase.NONE, Phase.QUORUM, Phase.FINALIZED)",
        "BY_QUORUM: Final = (Phase.NONE, Phase.FENCING, Phase.QUORUM, Phase.FINALIZED)",
        (
            UPGRADE + "test_those_who_wait_for_zookeeper_are_let_go_when_it_is_fenced",
            UPGRADE_STORM + "[upgrade-seed-0]",
        ),
    ),
    Mutant(
        "adopted-after-unknown",
        "what the znode holds after a write of unknown outcome is never taken for ours",
        "bridge/migrator.py",
        WRITTEN,
        "            if not isinstance(outcome, Written):\n"
        "                there = await self._zookeeper.look()\n"
        "                if there.block_end == whole.first + whole.length - 1:\n"
        f"                    outcome = Written(there.version)\n{WRITTEN}",
        (
            BRIDGE + "test_what_the_znode_holds_after_an_unknown_write_is_never_taken_for_ours",
            "tests/simulation/test_upgrade_storms.py::test_a_rough_upgrade",
        ),
    ),
    Mutant(
        "bridge-answers-early",
        "a block of the bridge is answered when its record is applied",
        "bridge/migrator.py",
        "        self._submit(self._charged(parked.request, decide), applied)\n",
        "        self._submit(self._charged(parked.request, decide), lambda _outcome, _throttle_ms: None)\n"
        "        applied(block, 0)\n",
        (
            BRIDGE + "test_a_block_is_answered_when_its_record_is_applied",
            UPGRADE_STORM + "[upgrade-seed-1]",
        ),
    ),
    Mutant(
        "bridge-in-a-brokers-name",
        "a broker before Kafka 3.0 never finds in the znode, in its own name, a block that the bridge wrote",
        "bridge/znodes.py",
        "ON_BEHALF: Final = BrokerId(-1)",
        "ON_BEHALF: Final = BrokerId(0)",
        (
            "tests/bridge/test_upgrade_refusals.py::test_a_block_of_the_bridge_is_nobodys_in_zookeeper",
            "tests/simulation/test_upgrade_storms.py::test_an_upgrade_with_brokers_before_3_0",
        ),
    ),
    Mutant(
        "fence-before-intent",
        "the intent is applied before the fence is written",
        "bridge/upgrade.py",
        "        await self._upgrade.applied(partial(migration.decide_fence_intent, intent=intent, ",
        "        (partial(migration.decide_fence_intent, intent=intent, ",
        (UPGRADE + "test_an_intent_of_unknown_fate_fences_nothing",),
    ),
    Mutant(
        "rollback-without-a-stop",
        "nobody allocates from the stop record on until ZooKeeper has a block above all that was given out",
        "controller/migration.py",
        "    return _decided(replace(now, phase=Phase.ROLLING_BACK))",
        "    return Decision((), replace(now, phase=Phase.ROLLING_BACK))",
        (UPGRADE + "test_a_rollback_against_rivals_ends", UPGRADE_STORM + "[upgrade-seed-7]"),
    ),
    Mutant(
        "rollback-without-a-write",
        "a rollback writes the znode, so that a fence on its way cannot be written after it",
        "bridge/upgrade.py",
        "            end = block.first + block.length\n            outcome",
        "            end = block.first + block.length\n"
        "            if znode.fence is None:\n"
        "                await self._upgrade.applied(migration.decide_rolled_back)\n"
        '                return ""\n'
        "            outcome",
        (UPGRADE + "test_a_rollback_of_a_fence_that_is_on_its_way",),
    ),
)
