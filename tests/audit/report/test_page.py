"""The page: everything is on it, no client's word is markup, nothing is fetched and nothing runs."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.report import page as pages
from fencepost.audit.report.figures import Figures
from fencepost.audit.report.markup import Markup, join, tag
from fencepost.audit.report.page import POLICY, Source, page
from fencepost.audit.report.verdict import Outcome, Verdict
from fencepost.records.printable import printable
from tests.audit.report.pages import NOW_MS, Seen, full_page
from tests.audit.report.verdicts import HOSTILE, NONE, finding, found, undecided, unknown, verdict
from tests.examples import examples
from tests.together import table

SOURCE = Source(roots=("/logs",), made_ms=NOW_MS)
ORDINARY = Seen(full_page())


@table(
    "word",
    [
        pytest.param("<script>alert(1)</script>", id="script"),
        pytest.param('" onmouseover="alert(1)', id="attribute"),
        pytest.param("' style='x", id="single-quote"),
        pytest.param("</title></style></svg><img src=x onerror=alert(1)>", id="end-tags"),
        pytest.param("&lt;b&gt;", id="entity"),
        pytest.param("\u202eevil\x00\x1b[2J", id="hidden-characters"),
        pytest.param(HOSTILE, id="all-of-it"),
    ],
)
def test_a_clients_word_is_text(word: str) -> None:
    seen = Seen(full_page(word))
    assert seen.elements == ORDINARY.elements
    text = "".join(seen.text)
    assert text.count(printable(word)) == "".join(ORDINARY.text).count("orders")


@settings(max_examples=examples(30))
@given(st.text(max_size=20))
def test_no_word_changes_the_markup(word: str) -> None:
    assert Seen(full_page(word)).elements == ORDINARY.elements


@given(st.text(), st.text())
def test_what_an_element_is_given_is_what_it_shows(text: str, value: str) -> None:
    seen = Seen(tag("p", text, title=value))
    assert seen.elements == [("p", ("title",))]
    assert ("".join(seen.text), seen.values) == (printable(text), [printable(value)])


def test_markup_stands_as_it_is_and_none_is_nothing() -> None:
    assert tag("p", Markup("<b></b>"), None, 3, class_="x", aria_label=None) == '<p class="x"><b></b>3</p>'
    assert join(None, "<", Markup("<")) == "&lt;<"


def test_nothing_is_fetched_and_nothing_runs() -> None:
    text = full_page()
    assert POLICY in text
    names = {name for name, _ in ORDINARY.elements}
    assert not names & {"script", "iframe", "object", "embed", "img", "form", "base", "use", "image"}
    attributes = {each for _, given in ORDINARY.elements for each in given}
    assert not any(each.startswith("on") or each in {"src", "srcset", "action"} for each in attributes)
    ids = {f"#{each}" for each in re.findall(r' id="([^"]*)"', text)}
    assert set(re.findall(r'href="([^"]*)"', text)) <= {"data:,"} | ids, "links lead into the page"
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text


def test_the_page_is_whole() -> None:
    assert ORDINARY.open == []
    text = " ".join(ORDINARY.text)
    for words in (
        "1 finding",
        "markers.missing",
        "Unknown",
        "Could not be read",
        "First free id",
        "broker 2",
        "p99",
        "Open transactions",
        "Open at the end of the logs",
        "init_producer_id",
    ):
        assert words in text


def test_ids_of_elements_are_unique_and_labels_point_to_them() -> None:
    text = full_page()
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    for label in re.findall(r'aria-labelledby="([^"]*)"', text):
        assert set(label.split()) <= set(ids)


def test_checks_link_to_their_first_finding_or_unknown() -> None:
    outcomes = (found(*[finding()] * 2), undecided(unknown("epochs")), Outcome(check="blocks"))
    text = page(verdict(*outcomes), Figures(), SOURCE)
    assert re.findall(r'href="#([^"]*)"', text) == ["findings-markers", "unknown-epochs"]
    assert [each for each in re.findall(r' id="([^"]*)"', text) if "-" in each] == [
        "findings-markers",
        "unknown-epochs",
    ]


@table(
    ("columns", "command"),
    [
        pytest.param({"topic": "t", "partition": 3}, "--topic-partition t-3", id="on-a-partition"),
        pytest.param(
            {"topic": "__transaction_state", "partition": 3, "transactional_id": "a b"},
            "--transactional-id &#x27;a b&#x27;",
            id="of-an-id",
        ),
        pytest.param({}, None, id="of-neither"),
    ],
)
def test_a_hanging_transaction_has_the_command_that_explains_it(
    columns: dict[str, Any], command: str | None
) -> None:
    text = page(verdict(found(finding("hanging", **columns))), Figures(), SOURCE)
    assert ("fencepost explain" in text) == (command is not None)
    assert command is None or f"explain {command} --bootstrap-server HOST:PORT" in text
    other = page(verdict(found(finding("markers", **columns))), Figures(), SOURCE)
    assert "fencepost explain" not in other


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(verdict(Outcome(check="blocks")), "Clean", id="clean"),
        pytest.param(verdict(found(finding(), finding())), "2 findings", id="findings"),
        pytest.param(verdict(undecided(unknown())), "1 thing the logs cannot decide", id="unknown"),
        pytest.param(verdict(files=NONE), "Not everything could be read", id="nothing"),
    ],
)
def test_the_verdict_comes_first(said: Verdict, words: str) -> None:
    text = page(said, Figures(), SOURCE)
    assert words in text
    assert text.index('role="status"') < text.index("<h2>")


def test_a_page_stays_of_a_size_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SHOWN_MAX", 2)
    text = page(verdict(found(*[finding()] * 5)), Figures(), SOURCE)
    assert text.count("expected a commit marker") == 2
    assert "... and 3 more markers findings" in text
