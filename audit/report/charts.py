"""Charts as inline SVG without a script: stacked bars, and steps. What a tip says stands in a table, too."""

from collections.abc import Sequence
from typing import Final

from fencepost.audit.report import scale
from fencepost.audit.report.figures import Bins, Chart, Histogram, Series
from fencepost.audit.report.markup import Markup, join, tag
from fencepost.audit.report.text import moment

WIDTH: Final = 720
HEIGHT: Final = 190
LEFT: Final = 46
RIGHT: Final = 10
TOP: Final = 10
BOTTOM: Final = 24
_PLOT: Final = WIDTH - LEFT - RIGHT
_RISE: Final = HEIGHT - TOP - BOTTOM
_GAP: Final = 2.0  # between two bars


def over_time(name: str, caption: str, summary: str, chart: Chart) -> Markup:
    """Stacked bars, one per bin, a colour per series."""
    labels = [_span(chart.bins, index) for index in range(chart.bins.bin_count)]
    ticks = [(LEFT + at * _PLOT, text) for at, text in scale.times(chart.bins)]
    return _bars(name, caption, summary, labels, ticks, chart.series)


def by_duration(name: str, caption: str, summary: str, histogram: Histogram) -> Markup:
    """Stacked bars, one per class of durations."""
    labels = classes(histogram.ends)
    width = _PLOT / max(len(labels), 1)
    # A class begins where the one before it ends: the bound stands between the two bars.
    ticks = [
        (LEFT + (index + 1) * width, scale.duration(end)) for index, end in enumerate(histogram.ends[:-1])
    ]
    every = -(-len(ticks) // 12) or 1
    return _bars(name, caption, summary, labels, ticks[::every], histogram.series)


def classes(ends: Sequence[int]) -> list[str]:
    """What each class of a histogram is called, its exclusive upper bounds given; the last one has none."""
    names = [scale.duration(end) for end in ends]
    return [
        f"{names[index - 1]} or more" if index and index == len(ends) - 1
        else f"{names[index - 1]} to {name}" if index
        else f"under {name}"
        for index, name in enumerate(names)
    ]  # fmt: skip


def steps(name: str, caption: str, summary: str, chart: Chart) -> Markup:
    """The first series as a line that holds its value for a whole bin, the area below it filled."""
    series = chart.series[0]
    grid, top = _grid(max(series.values, default=0))
    width = _PLOT / chart.bins.bin_count
    path = ""
    for index, value in enumerate(series.values):
        y = TOP + _RISE - value / top * _RISE
        path += (
            f"{'M' if not path else 'L'}{LEFT + index * width:.1f} {y:.1f}H{LEFT + (index + 1) * width:.1f}"
        )
    base = TOP + _RISE
    labels = [_span(chart.bins, index) for index in range(chart.bins.bin_count)]
    tips = (
        tag(
            "rect",
            tag("title", f"{label}: {value:,}"),
            class_="tip",
            x=f"{LEFT + index * width:.1f}",
            y=TOP,
            width=f"{width:.1f}",
            height=_RISE,
        )
        for index, (label, value) in enumerate(zip(labels, series.values, strict=True))
    )
    ticks = [(LEFT + at * _PLOT, text) for at, text in scale.times(chart.bins)]
    drawn = join(
        grid,
        tag("path", class_="area", d=f"{path}V{base}H{LEFT}Z"),
        tag("path", class_="line", d=path),
        _axis(ticks),
        *tips,
    )
    return _figure(name, caption, summary, drawn, _numbers(labels, [series]))


def _bars(
    name: str,
    caption: str,
    summary: str,
    labels: Sequence[str],
    ticks: Sequence[tuple[float, str]],
    series: Sequence[Series],
) -> Markup:
    totals = [sum(column) for column in zip(*(each.values for each in series), strict=True)]
    grid, top = _grid(max(totals, default=0))
    width = _PLOT / max(len(labels), 1)
    gap = _GAP if width > 3 * _GAP else 0
    columns = []
    for index, label in enumerate(labels):
        parts = [(position, each, each.values[index]) for position, each in enumerate(series)]
        parts = [part for part in parts if part[2]]
        if not parts:
            continue
        tip = "; ".join(f"{each.label} {value:,}" for _, each, value in parts)
        rectangles = []
        y = float(TOP + _RISE)
        for position, _, value in parts:
            height = value / top * _RISE
            y -= height
            rectangles.append(
                tag(
                    "rect",
                    class_=f"s{position}",
                    x=f"{LEFT + index * width + gap / 2:.1f}",
                    y=f"{y:.1f}",
                    width=f"{width - gap:.1f}",
                    height=f"{height:.1f}",
                )
            )
        columns.append(tag("g", tag("title", f"{label}: {tip}"), *rectangles))
    drawn = join(grid, *columns, _axis(ticks))
    return _figure(name, caption, summary, drawn, _numbers(labels, series), _legend(series))


def _span(bins: Bins, index: int) -> str:
    return f"{moment(bins.first_ms + index * bins.width_ms)}, {scale.duration(bins.width_ms)}"


def _grid(maximum: int) -> tuple[Markup, int]:
    """Lines at round values with their names, and the value at the top."""
    values = scale.values(maximum)
    top = values[-1]
    lines = []
    for value in values:
        y = f"{TOP + _RISE - value / top * _RISE:.1f}"
        lines.append(tag("line", class_="grid" if value else "base", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        lines.append(
            tag("text", scale.short(value), class_="tick", x=LEFT - 6, y=y, dy="0.32em", text_anchor="end")
        )
    return join(*lines), top


def _axis(ticks: Sequence[tuple[float, str]]) -> Markup:
    texts = []
    for x, text in ticks:
        anchor = "end" if x > WIDTH - 40 else "start" if x < LEFT + 8 else "middle"
        texts.append(tag("text", text, class_="tick", x=f"{x:.1f}", y=HEIGHT - 7, text_anchor=anchor))
    return join(*texts)


def _legend(series: Sequence[Series]) -> Markup | None:
    """Colours and names; one series needs none."""
    if len(series) < 2:
        return None
    return tag(
        "ul",
        *(
            tag("li", tag("span", class_=f"key s{position}", aria_hidden="true"), each.label)
            for position, each in enumerate(series)
        ),
        class_="legend",
    )


def _numbers(labels: Sequence[str], series: Sequence[Series]) -> Markup:
    """The chart as a table, empty bins left out."""
    head = tag(
        "tr", tag("th", "", scope="col"), *(tag("th", each.label, scope="col", class_="n") for each in series)
    )
    rows = [
        tag("tr", tag("th", label, scope="row"), *(tag("td", f"{value:,}", class_="n") for value in column))
        for label, *column in zip(labels, *(each.values for each in series), strict=True)
        if any(column)
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows))


def _figure(
    name: str, caption: str, summary: str, drawn: Markup, numbers: Markup, legend: Markup | None = None
) -> Markup:
    svg = tag(
        "svg",
        tag("title", caption, id=f"{name}-title"),
        tag("desc", summary, id=f"{name}-desc"),
        drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    return tag(
        "figure",
        tag("figcaption", tag("strong", caption), " ", tag("span", summary)),
        legend,
        tag("div", svg, class_="plot", tabindex="0", role="group", aria_label=caption),
        tag("details", tag("summary", "Numbers"), tag("div", numbers, class_="scroll")),
        id=name,
    )
