"""What is broken on purpose where a node tells its store, its log directories and their partitions apart."""

from typing import Final

from tests.mutants.mutant import Mutant

IDENTITY: Final = "tests/settings/test_node_identity.py::"
NEW_STORE: Final = IDENTITY + "test_a_directory_without_its_store_is_a_new_one"

DISKS: Final = (
    Mutant(
        "disks-repaired-store-votes-as-before",
        "a voter whose store is gone forgot its votes",
        "settings/node_identity.py",
        "    renewed = replace(identity, voter_id=random_id(), initial_voters",
        "    renewed = replace(identity, initial_voters",
        (NEW_STORE,),
    ),
    Mutant(
        "disks-older-version-votes-twice",
        "an older version takes a new voter for one whose store is lost",
        "settings/node_identity.py",
        "    if identity.has_store or is_new_voter:\n",
        "    if identity.has_store:\n",
        (NEW_STORE,),
    ),
)
