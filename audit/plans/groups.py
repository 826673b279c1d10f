"""Groups: what a group committed is exactly once, too.

aborted             an offset of a transaction that the coordinator aborted took effect: its marker in the
                    log of offsets says commit. That marker is no finding of ``markers``.
went_back           a transaction committed less than one of an earlier generation had. The owner in a new
                    generation begins where the one before ended: what is between was processed twice.
two_owners          two members committed one partition in one generation. A static member that was replaced
                    is one owner with its successor.
stale_generation    a producer presented a generation that was not the group's.
Legitimate          to go back after a reset: by a tombstone, in another topic of the name, or by a commit
                    while the group has no members, as an administrator's, or a consumer's that assigns
                    partitions to itself.
Unknown             a member that goes back in a plain commit, or within a generation: its application may
                    have sought. Who committed is said by fencepost's log in transactions only.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans import markers
from fencepost.audit.plans.canonical import CONSUMER_OFFSETS
from fencepost.audit.plans.findings import (
    FINDINGS,
    UNKNOWN,
    Result,
    findings,
    nothing,
    union,
    unknown,
)
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "groups"
_PLACE: Final = ("topic", "partition", "group_id", "commit_topic", "commit_partition")


def check(inputs: Inputs) -> Result:
    """Findings of the rules ``aborted``, ``went_back``, ``two_owners``, ``stale_generation``."""
    if inputs.offset_commits.isEmpty():
        return Result(nothing(inputs.files, FINDINGS), nothing(inputs.files, UNKNOWN))
    found, unclear = [_aborted(inputs)], [_without_member(inputs.commits)]
    suspects = _suspects(inputs.commits)
    if not suspects.isEmpty():
        left = inputs.keep(_without_explained(suspects, inputs))
        found.append(_findings(left, inputs))
        unclear.append(_sought(left))
    return Result(union(found), union(unclear))


def _suspects(commits: DataFrame) -> DataFrame:
    """Rows with ``rule``: what may be a finding, or "seek". ``first_member``: who committed before."""
    generation = Window.partitionBy(*_PLACE, "generation", "claims").orderBy("offset")
    first_claim = F.struct("member_id", "offset")
    claims = F.coalesce(
        F.col("is_identified") & F.col("member_id").isNotNull() & (F.col("outcome") == "committed"),
        F.lit(False),
    )
    has_members = F.col("group_state") != "Empty"
    known = F.col("group_generation").isNotNull()
    went_back = (
        F.col("in_effect")
        & (F.col("committed_offset") >= 0)
        & (F.col("committed_offset") < F.col("previous.committed_offset"))
        & F.coalesce(F.col("topic_id") == F.col("previous.topic_id"), F.lit(True))
        & has_members
    )
    in_transactions = (F.col("producer_id") >= 0) & (F.col("previous.producer_id") >= 0)
    next_generation = F.col("group_generation") > F.col("previous.group_generation")
    other = F.col("member_id") != F.col("first_claim.member_id")
    rule = (
        F.when(F.col("is_identified") & known & (F.col("generation") != F.col("group_generation")),
               "stale_generation")
        .when(F.col("claims") & other, "two_owners")
        .when(went_back & in_transactions & next_generation, "went_back")
        .when(went_back, "seek")
    )  # fmt: skip
    return (
        commits.withColumn("claims", claims)
        .withColumn("first_claim", F.first(first_claim).over(generation))
        .withColumn("rule", rule)
        .where("rule IS NOT NULL")
        .drop("claims")
    )


def _without_explained(suspects: DataFrame, inputs: Inputs) -> DataFrame:
    """Without those that another finding explains: a marker that is wrong, or missing; a topic made again."""
    created = inputs.topics.where("event = 'created' AND name IS NOT NULL").select(
        F.col("name").alias("commit_topic"), F.col("timestamp_ms").alias("created_ms")
    )
    compared = F.col("rule").isin("went_back", "seek")
    again = (
        compared
        & (F.col("created_ms") >= F.col("previous.timestamp_ms"))
        & (F.col("created_ms") <= F.col("timestamp_ms"))
    )
    of_other = suspects["commit_topic"] == created["commit_topic"]
    rows = suspects.join(F.broadcast(created), of_other & again, "left_anti")
    if inputs.marker_events is None:
        return rows
    lost = inputs.missing_markers.where(F.col("topic") == CONSUMER_OFFSETS)
    ids = lost.select(F.col("producer_id").alias("lost_id"))
    rows = rows.join(
        ids, (F.col("lost_id") == F.col("producer_id")) | (F.col("lost_id") == F.col("previous.producer_id")),
        "left_anti",
    )  # fmt: skip
    wrong = markers.wrong_markers(inputs).where(F.col("topic") == CONSUMER_OFFSETS)
    places = wrong.select(F.col("path").alias("wrong_path"), F.col("position").alias("wrong_position"))
    mine, before = (
        (F.col("wrong_path") == F.col(f"{marker}.path"))
        & (F.col("wrong_position") == F.col(f"{marker}.position"))
        for marker in ("marker", "previous.marker")
    )
    return rows.join(F.broadcast(places), mine | before, "left_anti")


def _findings(suspects: DataFrame, inputs: Inputs) -> DataFrame:
    rows = suspects.withColumn("at_ms", F.col("timestamp_ms"))
    subject = F.format_string(
        "%s, %s-%d", F.col("group_id"), F.col("commit_topic"), F.col("commit_partition")
    )
    said = {
        "went_back": F.format_string(
            "a transaction of generation %d committed %d, one of generation %d had committed %d",
            F.col("group_generation"), F.col("committed_offset"),
            F.col("previous.group_generation"), F.col("previous.committed_offset"),
        ),
        "two_owners": F.format_string(
            "%s committed %d in generation %d, in which %s had committed (offset %d of this log)",
            F.col("member_id"), F.col("committed_offset"), F.col("generation"),
            F.col("first_claim.member_id"), F.col("first_claim.offset"),
        ),
        "stale_generation": F.format_string(
            "a producer presented generation %d as %s, and the group was at generation %d",
            F.col("generation"), F.col("member_id"), F.col("group_generation"),
        ),
    }  # fmt: skip
    owners = _first_of_each(_without_replaced(rows.where("rule = 'two_owners'"), inputs))
    parts = {rule: rows.where(F.col("rule") == rule) for rule in said} | {"two_owners": owners}
    return union(
        findings(parts[rule], NAME, rule, subject=subject, detail=detail) for rule, detail in said.items()
    )


def _without_replaced(rows: DataFrame, inputs: Inputs) -> DataFrame:
    """Without a static member's successor: both have one instance id in that generation."""
    members = inputs.group_generations.where("members IS NOT NULL").select(
        "topic", "partition", "group_id", "generation", F.explode("members").alias("member")
    )
    static = members.where("member.instance_id IS NOT NULL").select(
        "topic", "partition", "group_id", "generation",
        F.col("member.member_id").alias("known_as"), F.col("member.instance_id").alias("instance_id"),
    ).distinct()  # fmt: skip
    key = ["topic", "partition", "group_id", "generation", "instance_id"]
    pairs = static.join(static.withColumnRenamed("known_as", "also_known_as"), key).drop("instance_id")
    same = (F.col("known_as") == F.col("member_id")) & (
        F.col("also_known_as") == F.col("first_claim.member_id")
    )
    where = [F.col(f"pair.{name}") == F.col(f"row.{name}") for name in key[:-1]]
    joined = rows.alias("row").join(pairs.alias("pair"), [same, *where], "left_anti")
    return joined.select("row.*")


def _first_of_each(rows: DataFrame) -> DataFrame:
    """Of each generation and partition the first commit of a second owner."""
    order = Window.partitionBy(*_PLACE, "generation").orderBy("offset")
    return rows.withColumn("turn", F.row_number().over(order)).where("turn = 1")


def _aborted(inputs: Inputs) -> DataFrame:
    if inputs.marker_events is None:
        return nothing(inputs.files, FINDINGS)
    rows = markers.wrong_markers(inputs).where(markers.FREES_OFFSETS)
    return findings(
        rows,
        NAME,
        "aborted",
        subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
        detail=F.lit("a commit marker after offsets of a transaction that the coordinator aborted"),
    )


def _without_member(commits: DataFrame) -> DataFrame:
    """Commits of members in transactions, where the log does not say of which: Apache Kafka's never does."""
    rows = commits.where("producer_id >= 0 AND committed_offset IS NOT NULL AND group_state <> 'Empty'")
    nameless = (
        rows.where("coalesce(generation, -1) = -1")
        .groupBy("topic", "partition")
        .agg(F.count("offset").alias("count"))
    )
    said = F.format_string("%d commits in transactions do not say of which member they are", F.col("count"))
    return unknown(nameless, NAME, "two_owners", said)


def _sought(suspects: DataFrame) -> DataFrame:
    sought = (
        suspects.where("rule = 'seek'")
        .groupBy("topic", "partition", "group_id")
        .agg(F.count("offset").alias("count"), F.min("offset").alias("first_offset"))
    )
    said = F.format_string(
        "%d commits of members of %s are below the one before: an application may seek",
        F.col("count"), F.col("group_id"),
    )  # fmt: skip
    return unknown(sought, NAME, "went_back", said)
