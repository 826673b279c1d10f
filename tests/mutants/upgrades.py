"""What is broken on purpose where the upgrade refuses, proves, judges, and shows a way out."""

from typing import Final

from tests.mutants.mutant import Mutant

MIGRATION: Final = "tests/controller/test_migration.py::"
REFUSALS: Final = "tests/bridge/test_upgrade_refusals.py::"
PROOFS: Final = "tests/bridge/test_upgrade_proofs.py::"
WAYS: Final = "tests/bridge/test_upgrade_ways.py::"
NAMED: Final = WAYS + "test_an_obstacle_is_named_and_the_way_on_is_not_open"
EXITS: Final = WAYS + "test_each_way_that_status_prints_leads_out_and_gives_no_id_twice"
PORT: Final = "tests/cli/test_zookeeper_port.py::"
PREFLIGHT: Final = "tests/cli/test_migrate_preflight.py::"

UPGRADES: Final = (
    # -- refusals --------------------------------------------------------------------------------------------
    Mutant(
        "any-chroot",
        "no live step begins where there is no /cluster/id",
        "bridge/upgrade_ensemble.py",
        "            if name.name == began_with:",
        "            if True:",
        (REFUSALS + "test_the_wrong_ensemble_or_none[a-chroot-without-a-cluster-bridge]", NAMED),
    ),
    Mutant(
        "no-block-without-a-word",
        "where there is no block the operator has to say that there never was one",
        "bridge/upgrade_ensemble.py",
        "    if not no_block_yet:\n",
        "    if False:\n",
        (PROOFS + "test_where_there_is_no_znode_the_bridge_makes_it",),
    ),
    Mutant(
        "a-word-against-the-log",
        "the word that there is no block is refused where the log knows of one",
        "bridge/upgrade_ensemble.py",
        "    if end > 0:\n",
        "    if False:\n",
        (PROOFS + "test_the_word_that_there_is_no_block_is_held_against_the_log",),
    ),
    Mutant(
        "fence-without-a-proof",
        "who may not write is refused before an intent is logged",
        "bridge/upgrade.py",
        "        if self._upgrade.row.intent != intent:",
        "        if False:",
        (PROOFS + "test_a_fence_that_may_not_be_written_logs_nothing", NAMED),
    ),
    Mutant(
        "fence-under-kafkas-migration",
        "no fence is set while Kafka's own migration writes the block without a condition",
        "bridge/upgrade.py",
        "            if tries == 1:\n                await self._zookeeper.require_no_migration()\n",
        "",
        (NAMED,),
    ),
    Mutant(
        "rollback-without-a-proof",
        "who may not write does not stop the quorum",
        "bridge/upgrade.py",
        "            await self._prove_writable()  #",
        "            pass  #",
        (PROOFS + "test_a_rollback_that_may_not_write_does_not_stop_the_quorum",),
    ),
    Mutant(
        "rollback-below-the-fence",
        "a rollback goes without a write only where the fence's version is over",
        "bridge/upgrade_status.py",
        "znode.version > row.intent.zk_version",
        "znode.version >= row.intent.zk_version",
        (PROOFS + "test_a_rollback_without_a_write_needs_a_znode_past_the_fence",),
    ),
    Mutant(
        "finalize-without-a-look",
        "finalize sees the fence",
        "bridge/upgrade.py",
        "        self._status.require_fenced(row, znode)\n        return True",
        "        return True",
        (NAMED,),
    ),
    Mutant(
        "finalize-without-evidence",
        "only the logged fence, or the operator's word, ends the upgrade",
        "controller/migration.py",
        "    if not is_stopped and (seen is None or seen != now.intent):",
        "    if False:",
        (MIGRATION + "test_a_step_out_of_order_is_refused_with_the_reason",),
    ),
    Mutant(
        "an-older-intent-forgets",
        "ids of an intent that a lower one replaces stay given out",
        "controller/migration.py",
        "    if now.intent is not None and intent.block_end < now.intent.block_end:",
        "    if False:",
        (MIGRATION + "test_a_step",),
    ),
    Mutant(
        "refused-is-silence",
        "a refusal of ZooKeeper has its name, and is not waited for",
        "bridge/live_port.py",
        "    return Refused(str(error)) if isinstance(error, ZooKeeperRefused) else Unavailable(str(error))",
        "    return Unavailable(str(error))",
        (PORT + "test_what_is_told", PORT + "test_what_comes_of_a_write"),
    ),
    # -- what status says ------------------------------------------------------------------------------------
    Mutant(
        "standing-still-unseen",
        "brokers that are registered at a fenced ZooKeeper are named",
        "bridge/upgrade_status.py",
        "        return await self._zookeeper.registered()",
        "        return ()",
        (REFUSALS + "test_status_counts_the_brokers_that_stand_still",),
    ),
    Mutant(
        "a-stopped-rollback-without-an-exit",
        "a ZooKeeper that is stopped for good during a rollback is left by its files",
        "controller/migration.py",
        "    if now.phase not in (*THROUGH_ZOOKEEPER, Phase.FENCING, Phase.ROLLING_BACK):",
        "    if now.phase not in (*THROUGH_ZOOKEEPER, Phase.FENCING):",
        (EXITS,),
    ),
    Mutant(
        "a-way-that-does-not-go",
        "where the quorum's fence was lost the way on is back, and there again",
        "bridge/upgrade_ways.py",
        "    if phase is Phase.QUORUM and obstacle in (",
        "    if phase is Phase.FINALIZED and obstacle in (",
        (EXITS,),
    ),
    # -- preflight -------------------------------------------------------------------------------------------
    Mutant(
        "ready-for-the-fence",
        "a registered broker is cut off, whatever its protocol version",
        "cli/migrate_preflight.py",
        '        return "cuts-off" if self.brokers else "ready"',
        '        return "ready"',
        (PREFLIGHT + "test_each_registered_broker_is_cut_off",),
    ),
    Mutant(
        "starts-again-below-3.0",
        "a broker below 3.0 cannot be started behind the fence",
        "cli/migrate_preflight.py",
        "version >= ASKING",
        "version >= (2, 8)",
        (PREFLIGHT + "test_each_registered_broker_is_cut_off",),
    ),
    Mutant(
        "an-old-registration-unread",
        "a registration below version 5 says that the protocol is below 2.7",
        "cli/migrate_preflight.py",
        "        seen.protocol, seen.known_from, seen.asks_controller = BELOW_27, ZNODE, False",
        "        pass",
        (PREFLIGHT + "test_each_registered_broker_is_cut_off",),
    ),
    Mutant(
        "read-only-passes-preflight",
        "a znode that no one may write blocks",
        "cli/migrate_preflight.py",
        "    if is_write_granted(acl) is False:",
        "    if False:",
        (PREFLIGHT + "test_who_may_write_is_read_and_not_proved",),
    ),
)
