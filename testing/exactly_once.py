"""Whether each thing that went in came out once: what is lost, doubled, torn, unknown, out of order.

Identity    ``key`` of an element, of what went in and of what came out. Without it the value of a record, and
            any other element itself.
Order       elements of one ``order`` come out in the order in which they went in, as records with one key do
            in Kafka. Without it the key of records that have one, in both; others are not compared.
Torn        elements with one ``together`` belong to one transaction: all of them come out, or none.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.client import ConsumerRecord
from fencepost.wire.requests import ListedTransaction

__tracebackhide__ = True  # a failing test is shown, and debugged, at its own line

SHOWN_MAX: Final = 10
TEXT_MAX: Final = 80


@dataclass(slots=True)
class Findings:
    """What is wrong; each row is a sentence.

    ``writers``: of each doubled value that producers with an id wrote, its text and their ids and epochs.
    """

    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    writers: list[tuple[str, list[tuple[int, int]]]] = field(default_factory=list)

    def rows(self) -> list[tuple[str, list[str]]]:
        """Each kind that was found, with its sentences."""
        kinds = [
            ("lost", self.lost),
            ("torn", self.torn),
            ("doubled", self.doubled),
            ("unknown", self.unknown),
            ("out of order", self.out_of_order),
        ]
        return [(kind, found) for kind, found in kinds if found]


class NotExactlyOnce(AssertionError):
    """Something is lost, doubled, torn, unknown or out of order; ``findings`` says what, by kind."""

    def __init__(self, findings: Findings, into: int, out: int) -> None:
        self.findings = findings
        super().__init__(_report(findings, into, out))


def assert_exactly_once(
    into: Iterable[Any],
    out: Iterable[Any],
    *,
    key: Callable[[Any], Hashable] | None = None,
    order: Callable[[Any], Hashable] | None = None,
    together: Callable[[Any], Hashable] | None = None,
    transactions: Iterable[ListedTransaction] = (),
) -> None:
    """Raises NotExactlyOnce unless all of ``into`` came out once, and nothing else.

    ``transactions``: ``Cluster.transactions()``, so that producers are named by their transactional ids.
    """
    wanted, found = list(into), list(out)
    identity = key or _identity
    places = _by(found, identity)
    known = {identity(each) for each in wanted}
    names = {int(each.producer_id): each.transactional_id for each in transactions}
    findings = Findings()
    missing = [each for each in wanted if identity(each) not in places]
    _judge_missing(findings, wanted, missing, together)
    for value, elements in places.items():
        if value not in known:
            findings.unknown.append(f"{_shown(value)}: {_where(elements, names)}")
        elif len(elements) > 1:
            findings.doubled.append(f"{_shown(value)}: {_where(elements, names)}")
            findings.writers.append((_shown(value), _writers(elements)))
    once = [each for each in found if len(places[identity(each)]) == 1]
    _judge_order(findings, wanted, once, identity, order or _record_key)
    if findings.rows():
        raise NotExactlyOnce(findings, len(wanted), len(found))


def _judge_missing(
    findings: Findings,
    wanted: list[Any],
    missing: list[Any],
    together: Callable[[Any], Hashable] | None,
) -> None:
    if together is None:
        findings.lost += [_shown(each) for each in missing]
        return
    units, gone = _by(wanted, together), _by(missing, together)
    for unit, elements in gone.items():
        if len(elements) == len(units[unit]):
            findings.lost += [_shown(each) for each in elements]
        else:
            findings.torn.append(
                f"{_shown(unit)}: {len(elements)} of its {len(units[unit])} are missing: "
                + _listed([_shown(each) for each in elements])
            )


def _judge_order(
    findings: Findings,
    wanted: list[Any],
    found: list[Any],
    identity: Callable[[Any], Hashable],
    order: Callable[[Any], Hashable],
) -> None:
    positions = {(order(each), identity(each)): at for at, each in enumerate(wanted)}
    highest: dict[Hashable, tuple[int, Any]] = {}
    for each in found:
        line = order(each)
        at = positions.get((line, identity(each)))
        if line is None or at is None:
            continue
        last, before = highest.get(line, (-1, None))
        if at < last:
            findings.out_of_order.append(
                f"{_shown(each)} came after {_shown(before)}, of the same {line!r:.40}"
            )
        else:
            highest[line] = (at, each)


def _by(elements: Iterable[Any], what: Callable[[Any], Hashable]) -> dict[Hashable, list[Any]]:
    found: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for each in elements:
        found[what(each)].append(each)
    return found


def _identity(element: Any) -> Hashable:
    value = element.value if isinstance(element, ConsumerRecord) else element
    return value if isinstance(value, Hashable) else repr(value)


def _record_key(element: Any) -> Hashable:
    return element.key if isinstance(element, ConsumerRecord) else None


def _where(elements: Sequence[Any], names: dict[int, str]) -> str:
    return _listed([_place(each, names) if isinstance(each, ConsumerRecord) else "it" for each in elements])


def _place(record: ConsumerRecord, names: dict[int, str]) -> str:
    place = f"{record.topic}-{record.partition} at {record.offset}"
    if record.producer_id < 0:
        return place
    name = names.get(record.producer_id)
    who = f"producer {record.producer_id}, epoch {record.producer_epoch}"
    return f"{place} by {who}" if name is None else f"{place} by {name} ({who})"


def _writers(elements: Sequence[Any]) -> list[tuple[int, int]]:
    records = [each for each in elements if isinstance(each, ConsumerRecord)]
    return [(each.producer_id, each.producer_epoch) for each in records if each.producer_id >= 0]


def _shown(element: Any) -> str:
    if isinstance(element, ConsumerRecord):
        return f"{element.value!r:.{TEXT_MAX}} (of {element.topic}-{element.partition} at {element.offset})"
    text = repr(element)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN_MAX
    return "; ".join(texts[:SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _report(findings: Findings, into: int, out: int) -> str:
    lines = [f"not exactly once: {into} went in, {out} came out"]
    for kind, found in findings.rows():
        lines.append(f"{kind}, {len(found)}:")
        lines += [f"  {each}" for each in found[:SHOWN_MAX]]
        if len(found) > SHOWN_MAX:
            lines.append(f"  and {len(found) - SHOWN_MAX} more")
    return "\n".join(lines)
