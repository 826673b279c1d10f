"""What the answers to requests show of rights, and whether two clusters' answers are the same.

Seen        codes of denials, marks of the set, and authorized operations: not what became of the request.
Kept        Apache Kafka's answers, in KEPT: so the fast tests hold ours against them without a broker.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.controller.acl_types import IMPLIED_BY
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.dispatch import Api
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkersAnswer
from tests.hostile.largest import names_of
from tests.rights.page import NAMES, Right, states

KEPT: Final = Path(__file__).parent / "kafka-4.1.1.json"
DENIALS: Final = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )
)
MARKS: Final = {
    "topic": NAMES.topic,
    "group": NAMES.group,
    "transactional id": NAMES.transactional_id,
    "other group": NAMES.idle,
}
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Seen(NamedTuple):
    """What is compared of an answer. Without one ``names`` has the way in which it did not come."""

    codes: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    operations: tuple[int, ...] = ()

    def __str__(self) -> str:
        operations = f", operations {', '.join(map(str, self.operations))}" if self.operations else ""
        codes = ", ".join(map(str, self.codes)) or "no denial"
        return f"{codes} with {', '.join(self.names) or 'no name'}{operations}"


class Answered(NamedTuple):
    """Of one request: in which version it was sent, and by state what was seen."""

    version: int
    by_state: dict[str, Seen]


Answers = dict[str, Answered]
"""By the name of the request."""


def seen_in(outcome: Any) -> Seen:
    """Denials, names and authorized operations, wherever they stand."""
    if isinstance(outcome, ApiError):
        return Seen((int(outcome.code),) if outcome.code in DENIALS else ())
    found = sorted(_values_in(outcome))
    codes = tuple(sorted({value for name, value in found if name == "code" and value in DENIALS}))
    operations = tuple({value: None for name, value in found if name == "operations"})
    text = repr(outcome)
    return Seen(codes, tuple(mark for mark, name in MARKS.items() if name in text), operations)


def _values_in(value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, ErrorCode):
        yield "code", int(value)
    elif isinstance(value, WriteTxnMarkersAnswer):
        yield from (
            ("code", code) for _, topics in value.markers for _, results in topics for _, code in results
        )
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from _values_in(each)
    else:
        for name in names_of(value):
            found = getattr(value, name)
            if name in ("error_code", "code"):
                yield "code", int(found)
            elif "authorized_operations" in name:
                yield "operations", int(found)
            else:
                yield from _values_in(found)


def encoded(answers: Answers) -> str:
    """As KEPT has them: one line for each request, with a digit for each state."""
    states = list(next(iter(answers.values())).by_state)
    lines = []
    for name, (version, by_state) in answers.items():
        different = list(dict.fromkeys(by_state.values()))
        digits = "".join(DIGITS[different.index(by_state[each])] for each in states)
        row = {"version": version, "seen": different, "by_state": digits}
        lines.append(f"{json.dumps(name)}: {json.dumps(row)}")
    return f'{{"states": {json.dumps(states)},\n"requests": {{\n' + ",\n".join(lines) + "\n}}\n"


def decoded(text: str) -> Answers:
    """The inverse of ``encoded``."""
    whole = json.loads(text)
    found = {}
    for name, row in whole["requests"].items():
        seen = [Seen(*(tuple(part) for part in each)) for each in row["seen"]]
        by_state = (seen[DIGITS.index(digit)] for digit in row["by_state"])
        found[name] = Answered(row["version"], dict(zip(whole["states"], by_state, strict=True)))
    return found


def kafkas() -> Answers:
    """Those of Apache Kafka 4.1.1, broker and controller."""
    return decoded(KEPT.read_text("utf-8"))


def key_of(request: str) -> int:
    """The API key of a request's name."""
    return int(request.split()[1])


def rights_that_count(answered: Answered) -> set[Right]:
    """The rights whose presence, or absence, shows in codes and names."""
    seen = {state: each._replace(operations=()) for state, each in answered.by_state.items()}
    return {each.right for each in states() if each.right is not None and seen[each.name] != seen[each.base]}


def stands_for(right: Right) -> set[Right]:
    """The rights that one implies, itself among them."""
    operation, of = right
    return {right, *((implied, of) for implied, by in IMPLIED_BY.items() if operation in by)}


def differences(theirs: Answers, ours: Answers) -> dict[tuple[str, str], tuple[Seen, Seen]]:
    """By request and state, what both show where it is not the same. Requests that both answer."""
    return {
        (name, state): (seen, ours[name].by_state[state])
        for name, (_, by_state) in theirs.items()
        if name in ours
        for state, seen in by_state.items()
        if seen != ours[name].by_state[state]
    }


def as_read(api: Api[Any, Any], version: int, request: Any, outcome: Any) -> Any:
    """An answer as a client reads it in a version."""
    try:
        if isinstance(outcome, ApiError):
            return api.decode_response(version, api.refusal(version, request, outcome, 0))
        return api.decode_response(version, api.encode_response(version, outcome, 0))
    except ApiError as error:
        return error
