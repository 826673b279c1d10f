"""What is broken on purpose, and which tests must notice.

Each mutant replaces one piece of product code, named by its exact text, in a copy of the tree. It is *red*
when every one of its tests fails with it (they all pass without it).
"""

from typing import Final

from tests.mutants.additions import ADDITION_MUTANTS
from tests.mutants.application_client import APPLICATION_CLIENT
from tests.mutants.archives import ARCHIVES
from tests.mutants.audit import AUDIT
from tests.mutants.audit_align import AUDIT_ALIGN
from tests.mutants.audit_beside import AUDIT_BESIDE
from tests.mutants.audit_copies import AUDIT_COPIES
from tests.mutants.audit_elections import AUDIT_ELECTIONS
from tests.mutants.audit_groups import AUDIT_GROUPS
from tests.mutants.audit_producers import AUDIT_PRODUCERS
from tests.mutants.audit_tables import AUDIT_TABLES
from tests.mutants.audit_walks import AUDIT_WALKS
from tests.mutants.benches import BENCHES
from tests.mutants.broker_lists import BROKER_LISTS
from tests.mutants.clocks import CLOCKS
from tests.mutants.commands import COMMAND_MUTANTS
from tests.mutants.compaction import COMPACTION
from tests.mutants.compared import COMPARED
from tests.mutants.compared_logs import COMPARED_LOGS
from tests.mutants.containers import CONTAINERS
from tests.mutants.controller_clients import CONTROLLER_CLIENTS
from tests.mutants.coordinator import COORDINATOR
from tests.mutants.costs import COSTS
from tests.mutants.damage import DAMAGE
from tests.mutants.digests import DIGESTS
from tests.mutants.disks import DISKS
from tests.mutants.doors import DOORS
from tests.mutants.driver import DRIVER
from tests.mutants.epochs import EPOCHS
from tests.mutants.explain import EXPLAIN
from tests.mutants.failing_files import FAILING_FILES
from tests.mutants.group_clients import GROUP_CLIENTS
from tests.mutants.group_holes import GROUP_HOLES
from tests.mutants.group_init import GROUP_INIT
from tests.mutants.group_log import GROUP_LOG
from tests.mutants.groups_cli import GROUPS_CLI
from tests.mutants.hazards import HAZARDS
from tests.mutants.hostile import HOSTILE
from tests.mutants.hostile_voter import HOSTILE_VOTER
from tests.mutants.integrity import INTEGRITY
from tests.mutants.isolation import ISOLATION
from tests.mutants.kafka_settings import KAFKA_SETTINGS
from tests.mutants.kit import KIT_MUTANTS
from tests.mutants.kit_faults import KIT_FAULT_MUTANTS
from tests.mutants.layout import LAYOUT
from tests.mutants.levels import LEVELS
from tests.mutants.loop import LOOP
from tests.mutants.markers import MARKERS
from tests.mutants.meanings import MEANINGS
from tests.mutants.meant_logs import MEANT_LOGS
from tests.mutants.membership import MEMBERSHIP
from tests.mutants.names import NAMES
from tests.mutants.offsets import OFFSET_MUTANTS
from tests.mutants.on_disk import ON_DISK
from tests.mutants.pages import PAGES
from tests.mutants.partition_logs import PARTITION_LOGS
from tests.mutants.partition_reports import PARTITION_REPORTS
from tests.mutants.past_bugs import PAST_BUGS
from tests.mutants.pending_offsets import PENDING_OFFSETS
from tests.mutants.producer_ids import PRODUCER_IDS
from tests.mutants.raft import RAFT
from tests.mutants.registry import REGISTRY
from tests.mutants.restoring import RESTORING
from tests.mutants.row_ranges import ROW_RANGES
from tests.mutants.scrubbed_logs import SCRUBBED_LOGS
from tests.mutants.simulated import SIMULATED
from tests.mutants.small_files import SMALL_FILES
from tests.mutants.stalls_answers import STALLS_ANSWERS
from tests.mutants.stalls_bounds import STALLS_BOUNDS
from tests.mutants.stalls_copies import STALLS_COPIES
from tests.mutants.stalls_fetch import STALLS_FETCH
from tests.mutants.stalls_garbage import STALLS_GARBAGE
from tests.mutants.stalls_turns import STALLS_TURNS
from tests.mutants.topic_changes import TOPIC_CHANGES
from tests.mutants.two_phase import TWO_PHASE
from tests.mutants.typed import TYPED
from tests.mutants.unseen import UNSEEN
from tests.mutants.upgrades import UPGRADES

MUTANTS: Final = (
    *RAFT,
    *GROUP_LOG,
    *GROUP_HOLES,
    *GROUP_CLIENTS,
    *PENDING_OFFSETS,
    *HAZARDS,
    *DRIVER,
    *DAMAGE,
    *ON_DISK,
    *PAGES,
    *COMPACTION,
    *PARTITION_LOGS,
    *COMPARED_LOGS,
    *MEANT_LOGS,
    *SCRUBBED_LOGS,
    *SMALL_FILES,
    *PARTITION_REPORTS,
    *RESTORING,
    *ROW_RANGES,
    *DIGESTS,
    *DISKS,
    *FAILING_FILES,
    *ARCHIVES,
    *DOORS,
    *CONTAINERS,
    *PRODUCER_IDS,
    *HOSTILE,
    *HOSTILE_VOTER,
    *COORDINATOR,
    *EPOCHS,
    *EXPLAIN,
    *TOPIC_CHANGES,
    *KAFKA_SETTINGS,
    *TWO_PHASE,
    *GROUP_INIT,
    *LOOP,
    *STALLS_ANSWERS,
    *STALLS_BOUNDS,
    *STALLS_COPIES,
    *STALLS_FETCH,
    *STALLS_GARBAGE,
    *COSTS,
    *STALLS_TURNS,
    *MARKERS,
    *COMPARED,
    *INTEGRITY,
    *PAST_BUGS,
    *UNSEEN,
    *ISOLATION,
    *LEVELS,
    *ADDITION_MUTANTS,
    *COMMAND_MUTANTS,
    *KIT_MUTANTS,
    *KIT_FAULT_MUTANTS,
    *APPLICATION_CLIENT,
    *AUDIT,
    *AUDIT_GROUPS,
    *AUDIT_WALKS,
    *AUDIT_BESIDE,
    *AUDIT_ELECTIONS,
    *AUDIT_PRODUCERS,
    *AUDIT_ALIGN,
    *AUDIT_COPIES,
    *AUDIT_TABLES,
    *NAMES,
    *CLOCKS,
    *CONTROLLER_CLIENTS,
    *BENCHES,
    *BROKER_LISTS,
    *REGISTRY,
    *LAYOUT,
    *SIMULATED,
    *TYPED,
    *UPGRADES,
    *MEANINGS,
    *MEMBERSHIP,
    *OFFSET_MUTANTS,
    *GROUPS_CLI,
)
