"""A page with something in every part of it, and what a browser would make of its markup."""

from html.parser import HTMLParser
from typing import Any

from fencepost.audit.report.figures import (
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
from fencepost.audit.report.page import Source, page
from fencepost.audit.report.verdict import Files, NotRead, Verdict
from tests.audit.report.verdicts import finding, found, undecided, unknown, verdict

NOW_MS = 1_763_704_800_000
BINS = Bins(NOW_MS, 1_000, 6)


def full_figures(word: str = "orders") -> Figures:
    """Every figure, with ``word`` wherever a client's word may stand."""
    return Figures(
        ids=IdSpace(
            end=6_000,
            block_count=6,
            given_out=6_000,
            broker_count=2,
            first_ms=NOW_MS,
            last_ms=NOW_MS + 5_000,
            fastest=2_000.0,
        ),
        allocation=Chart(
            BINS,
            (
                Series("broker 1", (1000, 0, 1000, 0, 0, 1000)),
                Series("broker 2", (0, 100, 100, 0, 0, 100)),
            ),
        ),
        durations=Durations(
            committed=7,
            aborted=2,
            p50=3.0,
            p90=40.0,
            p99=900.0,
            longest=901,
            histogram=Histogram(
                (5, 10, 1_000), (Series("committed", (5, 2, 0)), Series("aborted", (0, 0, 2)))
            ),
        ),
        open_over_time=Chart(BINS, (Series("open", (0, 2, 3, 3, 1, 0)),)),
        open_now=(OpenTransaction(word, 4_000, 1, "Ongoing", NOW_MS, 60_000, f"{word}-0"),),
        fences=(Fence(NOW_MS + 10, word, 4_000, 0, "init_producer_id", word),),
        fence_causes=(("init_producer_id", 1),),
    )


def full_verdict(word: str = "orders") -> Verdict:
    """Findings, unknowns and files that could not be read."""
    columns: dict[str, Any] = {
        "transactional_id": word,
        "subject": word,
        "detail": word,
        "topic": word,
        "at_ms": NOW_MS,
    }
    return verdict(
        found(finding(path=word, producer_id=4_000, producer_epoch=0, offset=7, **columns)),
        undecided(unknown("ids", detail=word, topic=word)),
        files=Files(read=3, byte_count=10, not_read=(NotRead(word, 61, word),)),
    )


def full_page(word: str = "orders") -> str:
    """All of it."""
    source = Source(roots=(word,), made_ms=NOW_MS, first_ms=NOW_MS, last_ms=NOW_MS + 6_000)
    return page(full_verdict(word), full_figures(word), source)


class Seen(HTMLParser):
    """The elements, attributes and text of a page; ``open`` must be empty at its end."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of an element: its name, and the names of its attributes."""
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value or "" for _, value in attrs]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """What ends must be what began last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between elements."""
        self.text.append(data)
