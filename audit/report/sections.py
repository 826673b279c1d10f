"""The report's sections below the verdict: ids, transactions, fences."""

from collections.abc import Sequence

from fencepost.audit.report import charts, scale
from fencepost.audit.report.figures import ROWS_MAX, Figures, OpenTransaction
from fencepost.audit.report.markup import Markup, Part, join, tag
from fencepost.audit.report.text import moment, plural


def ids(figures: Figures) -> Markup:
    """What is left of the ids, and who is given how many."""
    space = figures.ids
    if space is None:
        return _section("Producer ids", _none("No allocation of producer ids is in these logs."))
    fastest = scale.years(space.years_left(space.fastest))
    left = scale.years(space.years_left(space.mean))
    shown = tiles(
        ("Given out", f"{space.given_out:,}", f"in {plural(space.block_count, 'block')}"),
        ("First free id", f"{space.end:,}", f"{space.end / 2**63:.2g} of all int64 ids"),
        ("Brokers", f"{space.broker_count:,}", None),
        ("Mean rate", f"{scale.short(space.mean)}/s", "between the first block and the last"),
        ("Ids will last", left, f"{fastest} at the fastest rate seen"),
    )
    chart = figures.allocation
    drawn = (
        _none("The blocks bear one time only: no rate can be drawn.")
        if chart is None
        else charts.over_time(
            "allocation",
            "Producer ids given out, per broker",
            f"Ids per {scale.duration(chart.bins.width_ms)}.",
            chart,
        )
    )
    return _section("Producer ids", shown, drawn)


def transactions(figures: Figures) -> Markup:
    """How long they took, how many were open, which still are."""
    took, opened = figures.durations, figures.open_over_time
    parts: list[Part] = []
    if took is None:
        parts.append(_none("No ended transaction is in these logs."))
    else:
        parts += [
            tiles(
                (
                    "Ended",
                    f"{took.committed + took.aborted:,}",
                    f"{took.committed:,} committed, {took.aborted:,} aborted",
                ),
                ("Half took at most", scale.duration(took.p50), "p50"),
                ("90 % took at most", scale.duration(took.p90), "p90"),
                ("99 % took at most", scale.duration(took.p99), "p99"),
                ("The longest took", scale.duration(took.longest), None),
            ),
            charts.by_duration(
                "durations",
                "Duration of transactions",
                "From the first partition to the record that completes it; how many, by outcome.",
                took.histogram,
            ),
        ]
    if opened is not None:
        parts.append(
            charts.steps(
                "open",
                "Open transactions",
                f"The most at once in each {scale.duration(opened.bins.width_ms)}.",
                opened,
            )
        )
    if figures.open_now:
        parts += [tag("h3", "Open at the end of the logs"), _open_now(figures.open_now)]
    return _section("Transactions", *parts)


def fences(figures: Figures) -> Markup:
    """Who lost an epoch, when, and to whom."""
    if not figures.fences:
        return _section("Fences", _none("No producer was fenced, or these logs do not say so."))
    causes = tiles(*((cause, f"{count:,}", None) for cause, count in figures.fence_causes))
    head = ("When", "Transactional id", "Producer id", "Epoch", "Cause", "By")
    rows = [
        (
            moment(each.at_ms),
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.cause,
            each.by,
        )
        for each in figures.fences
    ]
    total = sum(count for _, count in figures.fence_causes)
    cut = _none(f"The newest {ROWS_MAX} of {total:,}.") if total > len(rows) else None
    return _section("Fences", causes, cut, table(head, rows))


def tiles(*facts: tuple[str, str, str | None]) -> Markup:
    """Name, number, and a word on it."""
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", number, None if word is None else tag("small", word)))
            for name, number, word in facts
        ),
        class_="tiles",
    )


def table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Markup:
    """Rows under their columns' names; numbers to the right."""
    kinds = ["n" if rows and isinstance(cell, int) else None for cell in (rows[0] if rows else head)]
    return tag(
        "div",
        tag(
            "table",
            tag(
                "thead",
                tag(
                    "tr",
                    *(
                        tag("th", each, scope="col", class_=kind)
                        for each, kind in zip(head, kinds, strict=True)
                    ),
                ),
            ),
            tag(
                "tbody",
                *(
                    tag(
                        "tr",
                        *(tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
                    )
                    for row in rows
                ),
            ),
        ),
        class_="framed",
    )


def _open_now(rows: tuple[OpenTransaction, ...]) -> Markup:
    head = ("Since", "Transactional id", "Producer id", "Epoch", "State", "Timeout", "Partitions")
    cells: list[tuple[object, ...]] = [
        (
            moment(each.started_ms),
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.state,
            scale.duration(each.timeout_ms),
            each.partitions,
        )
        for each in rows
    ]
    return table(head, cells)


def _section(title: str, *parts: Part) -> Markup:
    return tag("section", tag("h2", title), join(*parts), aria_label=title)


def _none(text: str) -> Markup:
    return tag("p", text, class_="none")
