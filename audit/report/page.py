"""The report: one HTML page that needs no network and runs no script, the verdict first.

Safe    all text is escaped (``markup``), and the page's own policy forbids every script and every request.
Bounds  ``SHOWN_MAX`` findings and as many unknowns of each check; the counts are exact.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.audit.report import sections
from fencepost.audit.report.figures import Figures
from fencepost.audit.report.markup import Markup, Part, tag
from fencepost.audit.report.style import SERIES, STYLE
from fencepost.audit.report.text import byte_count, finding_count_words, moment, plural, unknown_line, where
from fencepost.audit.report.verdict import FINDINGS, PASSED, UNREADABLE, Finding, Outcome, Verdict

SHOWN_MAX: Final = 500  # of one check: a page that a browser opens at once

_COORDINATORS: Final = "__transaction_state"

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

ABOUT: Final = {
    "integrity": "Every byte of every log can be read, and its checksum is right.",
    "offsets": "Offsets follow one another: no record is missing, none stands twice.",
    "blocks": "No producer id was given out twice, and no allocation is missing.",
    "ids": "Every producer id in a log lies in a block that was given out.",
    "epochs": "An epoch that was left never comes back.",
    "fencing": "No producer wrote after it was fenced.",
    "markers": "Every ended transaction has its marker, once, on each of its partitions.",
    "states": "Each transactional id goes from state to state as the coordinator's rules say.",
    "coordinator": "No coordinator's log is shorter than what producers have on their partitions.",
    "hanging": "No transaction is open past its timeout, or without a coordinator.",
    "groups": "No offset of an aborted transaction took effect, none went back, no partition has two owners.",
    "sequences": "Each producer's sequences have no gap and no duplicate.",
    "replicas": "Nodes that hold the same log hold the same bytes.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the page was made of, and when. ``roots``: the directories, or the folder of tables."""

    roots: tuple[str, ...]
    made_ms: int
    first_ms: int | None = None  # of the times in the logs
    last_ms: int | None = None


def page(verdict: Verdict, figures: Figures, source: Source) -> str:
    """The whole report as one HTML document."""
    body = tag(
        "div",
        tag("h1", "fencepost audit"),
        tag(
            "main",
            _banner(verdict, source),
            _checks(verdict.outcomes),
            _findings(verdict),
            _unknown(verdict),
            _not_read(verdict),
            sections.ids(figures),
            sections.transactions(figures),
            sections.fences(figures),
        ),
        class_="wrap",
    )
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
    )
    title = tag("title", f"{_word(verdict)} - fencepost audit")
    style = Markup(f"<style>{STYLE}{SERIES}</style>")
    document = f"<head>{head}{title}{style}</head>\n<body>\n{body}\n</body>"
    return f'<!DOCTYPE html>\n<html lang="en">\n{document}\n</html>\n'


def _word(verdict: Verdict) -> str:
    if verdict.verdict == FINDINGS:
        return plural(verdict.finding_count, "finding")
    return "Not everything could be read" if verdict.verdict == UNREADABLE else "Clean"


def _banner(verdict: Verdict, source: Source) -> Markup:
    passed = sum(each.result == PASSED for each in verdict.outcomes)
    sentences = [f"{passed} of {plural(len(verdict.outcomes), 'check')} passed."]
    if verdict.unknown_count:
        sentences.append(f"{plural(verdict.unknown_count, 'thing')} the logs cannot decide.")
    not_read = len(verdict.files.not_read) + verdict.files.omitted
    if not_read:
        sentences.append(f"{plural(not_read, 'file')} could not be read to the end.")
    elif not verdict.files.read:
        sentences.append("No log was found.")
    read = f"{plural(verdict.files.read, 'file')}, {byte_count(verdict.files.byte_count)}"
    span = (
        f", whose records are from {moment(source.first_ms)} to {moment(source.last_ms)}"
        if source.first_ms is not None and source.last_ms is not None
        else ""
    )
    return tag(
        "section",
        tag(
            "div",
            tag("p", _word(verdict), class_="word"),
            tag("p", " ".join(sentences)),
            class_=f"verdict {verdict.verdict}",
            role="status",
        ),
        tag(
            "div",
            tag("p", "Read: ", *_codes(source.roots), f" ({read}{span})"),
            tag("p", f"Made: {moment(source.made_ms)}. All times are UTC."),
            class_="about",
        ),
        aria_label="Verdict",
    )


def _codes(texts: Iterable[str]) -> list[Part]:
    parts: list[Part] = []
    for text in texts:
        parts += [", " if parts else None, tag("code", text)]
    return parts


def _checks(outcomes: Sequence[Outcome]) -> Markup:
    items = []
    for each in outcomes:
        chip = {FINDINGS: "bad", PASSED: "passed"}.get(each.result, "care")
        items.append(
            tag(
                "li",
                tag("span", each.check, class_="name"),
                _linked(each, tag("span", finding_count_words(each), class_=f"chip {chip}")),
                tag("p", ABOUT.get(each.check)),
            )
        )
    return tag("section", tag("h2", "Checks"), tag("ul", *items, class_="checks"), aria_label="Checks")


def _linked(outcome: Outcome, chip: Markup) -> Markup:
    """The chip, as a link to the first finding of its check, else to the first thing it cannot decide."""
    if outcome.finding_count:
        return tag("a", chip, href=f"#findings-{outcome.check}")
    return tag("a", chip, href=f"#unknown-{outcome.check}") if outcome.unknown else chip


def _anchor(kind: str, check: str, index: int) -> str | None:
    return f"{kind}-{check}" if index == 0 else None


def _findings(verdict: Verdict) -> Markup | None:
    if not verdict.finding_count:
        return None
    items: list[Part] = []
    consequences = verdict.consequences
    for outcome in verdict.outcomes:
        own = [each for each in outcome.findings if each.cause is None][:SHOWN_MAX]
        items += [
            _finding(each, _anchor("findings", outcome.check, index), consequences.get(each.id or "", []))
            for index, each in enumerate(own)
        ]
        items.append(_more(outcome.finding_count - SHOWN_MAX, outcome.check, "findings"))
    return tag(
        "section",
        tag("h2", "Findings"),
        tag("ol", *items, class_="list"),
        aria_label="Findings",
        id="findings",
    )


def _finding(finding: Finding, anchor: str | None, consequences: Sequence[Finding]) -> Markup:
    """``consequences``: findings that this one explains."""
    facts: list[Part] = [tag("code", where(finding))]
    named = {
        "node": finding.node,
        "offset": finding.offset,
        "producer id": finding.producer_id,
        "producer epoch": finding.producer_epoch,
        "transactional id": finding.transactional_id,
    }
    facts += [f" · {name} {value}" for name, value in named.items() if value is not None and value != -1]
    return tag(
        "li",
        tag(
            "div",
            tag(
                "span",
                f"{finding.check}.{finding.rule}",
                class_="chip bad" if finding.severity == "error" else "chip care",
            ),
            tag("span", finding.subject, class_="subject"),
            None if finding.at_ms is None else tag("time", moment(finding.at_ms), class_="when facts"),
            class_="head",
        ),
        tag("p", finding.detail, class_="detail"),
        tag("p", *facts, class_="facts"),
        _explained(finding),
        *(
            tag(
                "p",
                f"its consequence: {each.check}.{each.rule}: {each.detail} ",
                tag("code", where(each)),
                class_="facts",
            )
            for each in consequences[:SHOWN_MAX]
        ),
        id=anchor,
    )


def _explained(finding: Finding) -> Markup | None:
    """What says how it stands now, and what ends it, of a transaction that is open."""
    if finding.check != "hanging":
        return None
    if finding.topic not in (None, _COORDINATORS):
        named = ("--topic-partition", f"{finding.topic}-{finding.partition}")
    elif finding.transactional_id is not None:
        named = ("--transactional-id", finding.transactional_id)
    else:
        return None
    command = shlex.join(("fencepost", "explain", *named, "--bootstrap-server", "HOST:PORT"))
    return tag("p", "Who holds it now, and what ends it: ", tag("code", command), class_="facts")


def _unknown(verdict: Verdict) -> Markup | None:
    if not verdict.unknown_count:
        return None
    items: list[Part] = []
    for outcome in verdict.outcomes:
        for index, each in enumerate(outcome.unknown[:SHOWN_MAX]):
            name = each.check if each.rule is None else f"{each.check}.{each.rule}"
            text = unknown_line(each).partition(f"unknown: {name}: ")[2]
            anchor = _anchor("unknown", outcome.check, index)
            items.append(tag("li", tag("span", name, class_="chip care"), " ", text, id=anchor))
        items.append(_more(outcome.unknown_count - SHOWN_MAX, outcome.check, "unknowns"))
    return tag(
        "section",
        tag("h2", "Unknown"),
        tag("p", "What the logs that are kept cannot decide: neither a finding nor passed.", class_="none"),
        tag("ul", *items, class_="list"),
        aria_label="Unknown",
    )


def _not_read(verdict: Verdict) -> Markup | None:
    files = verdict.files
    if not files.not_read:
        return None
    items: list[Part] = [
        tag("li", tag("code", f"{each.path}:{each.position}"), " ", each.reason) for each in files.not_read
    ]
    items.append(_more(files.omitted, "", "files"))
    return tag(
        "section", tag("h2", "Could not be read"), tag("ul", *items, class_="list"), aria_label="Not read"
    )


def _more(count: int, check: str, of_what: str) -> Markup | None:
    return tag("li", f"... and {count:,} more {check} {of_what}", class_="facts") if count > 0 else None
