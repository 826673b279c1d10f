"""What a report shows besides the verdict, summed up by the engine: bins and first rows reach this
process."""

from typing import Final

from fencepost.audit.checks.relation import Text
from fencepost.audit.engine.protocol import Row
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.report.figures import (
    BINS_MAX,
    ROWS_MAX,
    SERIES_MAX,
    Bins,
    Chart,
    Durations,
    Fence,
    Figures,
    Histogram,
    IdSpace,
    OpenTransaction,
    Series,
)
from fencepost.audit.report.scale import STEPS_MS

CLASS_ENDS_MS: Final = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))
"""Exclusive upper bounds of the classes of durations, up to half a day; the last class has none."""

CAUSES_MAX: Final = 20  # kinds of fences that are counted apart
PARTITIONS_MAX: Final = 10  # of one open transaction, named
_OTHERS: Final = -2  # a broker's id is never that; -1 is ZooKeeper's

ALLOCATIONS: Final = Text("""
    SELECT broker_id, from_ms AS at_ms, block_end,
           greatest(block_end - coalesce(block_first, block_end), 0) AS ids
    FROM producer_id_ownership
""")
"""One row per block that was given out; one whose beginning was not kept counts no ids."""

DURATIONS: Final = Text(f"""
    SELECT committed, took_ms, count(*) AS ended_count,
           {" + ".join(f"CASE WHEN took_ms >= {end} THEN 1 ELSE 0 END" for end in CLASS_ENDS_MS)} AS
           duration_class
    FROM (
        SELECT committed, greatest(ended_ms - started_ms, 0) AS took_ms FROM transactions
        WHERE ended AND started_ms >= 0
    ) AS ended_ones
    GROUP BY committed, took_ms
""")
"""How many transactions took so long, of those whose beginning and end are both known."""

DURATION_TURNS: Final = Text("""
    WITH each_one AS (SELECT took_ms, CAST(sum(ended_count) AS BIGINT) AS many, 0 AS whole FROM durations
    GROUP BY took_ms)
    SELECT took_ms, CAST(sum(many) OVER (
        PARTITION BY whole ORDER BY took_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS BIGINT) AS turn
    FROM each_one
""")
"""How many did not take longer."""

OPEN_CHANGES: Final = Text("""
    SELECT started_ms AS at_ms, 1 AS change FROM transactions WHERE ended AND started_ms >= 0
    UNION ALL
    SELECT greatest(ended_ms, started_ms) AS at_ms, -1 AS change FROM transactions WHERE ended AND started_ms
    >= 0
    UNION ALL
    SELECT started_ms AS at_ms, 1 AS change FROM open_now WHERE started_ms >= 0
""")

OPEN_NOW: Final = Text("SELECT * FROM latest WHERE state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort')")

LISTED_FENCES: Final = Text("""
    SELECT DISTINCT f.fence.at_ms AS at_ms, f.transactional_id, f.fence.producer_id AS producer_id,
           f.fence.producer_epoch AS producer_epoch, f.fence.cause AS cause, coalesce(f.fence.by, '') AS
           fenced_by
    FROM (SELECT transactional_id, unnest(fences) AS fence FROM states WHERE NOT regressed) AS f
""")

FENCES: Final = Text("""
    SELECT * FROM listed_fences
    UNION ALL
    SELECT h.decided_ms AS at_ms, h.transactional_id, h.producer_id, coalesce(h.first_epoch, h.last_epoch) AS
    producer_epoch,
           'its transaction was aborted' AS cause, '' AS fenced_by
    FROM transaction_history h ANTI JOIN listed_fences t ON t.transactional_id = h.transactional_id
    WHERE h.fenced AND h.fence_cause IS NULL
""")
"""Each fence once, though every later record of its id repeats it.

Kafka's log keeps no account of fences: there they are transactions that were aborted at a higher epoch.
"""

CATALOGUE: Final = {
    "allocations": ALLOCATIONS,
    "durations": DURATIONS,
    "duration_turns": DURATION_TURNS,
    "open_changes": OPEN_CHANGES,
    "open_now": OPEN_NOW,
    "listed_fences": LISTED_FENCES,
    "fences": FENCES,
}


def figures(relations: Relations) -> Figures:
    """All of them. What ``relations`` has made is used, not worked out again."""
    space, allocation = _ids(relations)
    fences = relations.rows(
        f"SELECT * FROM fences ORDER BY at_ms DESC, transactional_id, producer_epoch LIMIT {ROWS_MAX}"
    )
    causes = relations.rows(
        f"SELECT cause, count(*) AS fence_count FROM fences GROUP BY cause ORDER BY fence_count DESC, cause "
        f"LIMIT {CAUSES_MAX}"
    )
    open_now = relations.rows(
        f"SELECT * FROM open_now ORDER BY started_ms, transactional_id LIMIT {ROWS_MAX}"
    )
    return Figures(
        ids=space,
        allocation=allocation,
        durations=_durations(relations),
        open_over_time=_open_over_time(relations),
        open_now=tuple(map(_open_row, open_now)),
        fences=tuple(
            Fence(**{("by" if name == "fenced_by" else name): value for name, value in row.items()})
            for row in fences
        ),
        fence_causes=tuple((row["cause"], row["fence_count"]) for row in causes),
    )  # fmt: skip


def span(relations: Relations) -> tuple[int | None, int | None]:
    """The first and the last time in the logs' batches, ms; None where there is none."""
    (row,) = relations.rows(
        "SELECT min(base_timestamp_ms) AS first_ms, max(max_timestamp_ms) AS last_ms FROM record_batches"
        " WHERE fault IS NULL AND base_timestamp_ms >= 0"
    )
    return row["first_ms"], row["last_ms"]


def bins_of(first_ms: int, last_ms: int) -> Bins:
    """At most ``BINS_MAX`` bins of a round width, the first of which begins at a round time."""
    for width in STEPS_MS:
        begin = first_ms // width * width
        if (last_ms - begin) // width < BINS_MAX:
            break
    else:
        width = -(-(last_ms - first_ms + 1) // BINS_MAX)
        begin = first_ms
    return Bins(begin, width, (last_ms - begin) // width + 1)


def _ids(relations: Relations) -> tuple[IdSpace | None, Chart | None]:
    (sums,) = relations.rows(
        "SELECT max(block_end) AS ids_end, count(block_end) AS blocks, CAST(sum(ids) AS BIGINT) AS ids,"
        " count(DISTINCT CASE WHEN broker_id >= 0 THEN broker_id END) AS brokers,"
        " min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM allocations"
    )
    if not sums["blocks"]:
        return None, None
    chart = None
    if sums["first_ms"] is not None and sums["last_ms"] > sums["first_ms"]:
        chart = _allocation(relations, bins_of(sums["first_ms"], sums["last_ms"]))
    fastest = 0.0
    if chart is not None:
        totals = [sum(values) for values in zip(*(each.values for each in chart.series), strict=True)]
        fastest = max(totals) / (chart.bins.width_ms / 1000)
    space = IdSpace(
        end=sums["ids_end"],
        block_count=sums["blocks"],
        given_out=sums["ids"],
        broker_count=sums["brokers"],
        first_ms=sums["first_ms"],
        last_ms=sums["last_ms"],
        fastest=fastest,
    )
    return space, chart


def _allocation(relations: Relations, bins: Bins) -> Chart:
    """Ids per broker and bin; those with the most have a series of their own."""
    most = [
        row["broker_id"]
        for row in relations.rows(
            "SELECT broker_id, sum(ids) AS all_ids FROM allocations GROUP BY broker_id"
            f" ORDER BY all_ids DESC, broker_id LIMIT {SERIES_MAX}"
        )
    ]
    listed = ", ".join(str(each) for each in most)
    rows = relations.rows(
        f"SELECT broker, bin, CAST(sum(ids) AS BIGINT) AS ids FROM ("
        f"SELECT CASE WHEN broker_id IN ({listed}) THEN broker_id ELSE {_OTHERS} END AS broker,"
        f" {_bin(bins)} AS bin, ids FROM allocations WHERE at_ms IS NOT NULL) AS each_one GROUP BY broker, "
        f"bin"
    )
    counted = {(row["broker"], row["bin"]): row["ids"] for row in rows}
    names = {each: "ZooKeeper" if each == -1 else f"broker {each}" for each in sorted(most)} | {
        _OTHERS: "others"
    }
    series = [
        Series(name, tuple(counted.get((broker, index), 0) for index in range(bins.bin_count)))
        for broker, name in names.items()
    ]
    return Chart(bins, tuple(each for each in series if any(each.values)) or (series[0],))


def _durations(relations: Relations) -> Durations | None:
    rows = relations.rows(
        "SELECT committed, duration_class, CAST(sum(ended_count) AS BIGINT) AS ended_count, max(took_ms) AS "
        "longest"
        " FROM durations GROUP BY committed, duration_class"
    )
    if not rows:
        return None
    counts = {(row["committed"], row["duration_class"]): row["ended_count"] for row in rows}
    total = sum(counts.values())
    p50, p90, p99 = (_percentile(relations, -(-total * each // 100)) for each in (50, 90, 99))
    return Durations(
        committed=sum(count for (committed, _), count in counts.items() if committed),
        aborted=sum(count for (committed, _), count in counts.items() if not committed),
        p50=p50,
        p90=p90,
        p99=p99,
        longest=max(row["longest"] for row in rows),
        histogram=histogram(counts),
    )


def _percentile(relations: Relations, turn: int) -> int:
    """The smallest time that so many did not take longer than."""
    (row,) = relations.rows(f"SELECT min(took_ms) AS took_ms FROM duration_turns WHERE turn >= {turn}")
    return int(row["took_ms"])


def histogram(counts: dict[tuple[bool, int], int]) -> Histogram:
    """Of counts by (committed, class): from the first class that has any to the last."""
    there = [index for _, index in counts]
    first, last = min(there), max(there)
    # The last bar's bound is not kept to where nothing ends it: the class beyond the last bound.
    ends = (*CLASS_ENDS_MS, 10 * CLASS_ENDS_MS[-1])[first : last + 1]
    return Histogram(
        ends,
        tuple(
            Series(name, tuple(counts.get((committed, index), 0) for index in range(first, last + 1)))
            for committed, name in ((True, "committed"), (False, "aborted"))
        ),
    )


def _open_over_time(relations: Relations) -> Chart | None:
    """The most that were open at once in each bin: running sums within bins, which add up here."""
    (edges,) = relations.rows("SELECT min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM open_changes")
    if edges["first_ms"] is None:
        return None
    bins = bins_of(edges["first_ms"], edges["last_ms"])
    rows = relations.rows(
        "SELECT bin, CAST(max(running) AS BIGINT) AS peak, CAST(sum(change) AS BIGINT) AS change FROM ("
        "SELECT bin, change, sum(change) OVER (PARTITION BY bin ORDER BY at_ms, change DESC"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM ("
        f"SELECT at_ms, change, {_bin(bins)} AS bin FROM open_changes) AS binned) AS running_ones GROUP BY "
        f"bin"
    )
    return Chart(
        bins, (Series("open", peaks({row["bin"]: (row["peak"], row["change"]) for row in rows}, bins)),)
    )


def peaks(changes: dict[int, tuple[int, int]], bins: Bins) -> tuple[int, ...]:
    """Of each bin's (highest running sum, sum): the most at once in each bin, what it began with included."""
    level = 0
    found = []
    for index in range(bins.bin_count):
        peak, change = changes.get(index, (0, 0))
        found.append(level + max(peak, 0))
        level += change
    return tuple(found)


def _open_row(row: Row) -> OpenTransaction:
    partitions = [f"{each['topic']}-{each['partition']}" for each in row["partitions"] or ()]
    shown = ", ".join(partitions[:PARTITIONS_MAX])
    more = len(partitions) - PARTITIONS_MAX
    return OpenTransaction(
        row["transactional_id"],
        row["producer_id"],
        row["producer_epoch"],
        row["state"],
        row["started_ms"],
        row["timeout_ms"],
        f"{shown} and {more} more" if more > 0 else shown,
    )


def _bin(bins: Bins) -> str:
    """The number of the bin in which ``at_ms`` lies."""
    since = f"(at_ms - {bins.first_ms})"
    return f"CAST(({since} - {since} % {bins.width_ms}) / {bins.width_ms} AS INT)"
