"""The verdict and its parts as lines for a terminal.

Findings read ``PATH:POSITION: check.rule: subject: detail``, as compilers name what they complain about.
Hostile text: a topic or a transactional id is a client's; what a terminal would obey is shown as an escape.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from fencepost.audit.report.verdict import FINDINGS, Files, Finding, Note, Outcome, Unknown, Verdict
from fencepost.records.printable import printable


def plural(count: int, noun: str) -> str:
    """A count and its noun: ``1 finding``, ``2 findings``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(at_ms: int) -> str:
    """A time as ISO 8601 in UTC, or the bare number where no calendar has it."""
    try:
        return (
            datetime.fromtimestamp(at_ms / 1000, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def byte_count(count: int) -> str:
    """Bytes in the largest unit that leaves at least one."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= 1000
    return f"{size:.3g} TB"


def where(finding: Finding) -> str:
    """``PATH:POSITION``, or the partition where no file is to blame, or what it is about."""
    if finding.path is not None:
        place = finding.path if finding.position is None else f"{finding.path}:{finding.position}"
    elif finding.topic is not None:
        place = finding.topic if finding.partition is None else f"{finding.topic}-{finding.partition}"
    else:
        place = "-"
    return printable(place)


def finding_line(finding: Finding) -> str:
    """One finding as one line of text."""
    return (
        f"{where(finding)}: {finding.check}.{finding.rule}: "
        f"{printable(finding.subject)}: {printable(finding.detail)}"
    )


def unknown_line(unknown: Unknown) -> str:
    """What one check could not decide, one line."""
    place = unknown.path or ""
    if not place and unknown.topic is not None:
        place = unknown.topic if unknown.partition is None else f"{unknown.topic}-{unknown.partition}"
    if unknown.first_offset is not None and unknown.end_offset is not None:
        place += f" [{unknown.first_offset}, {unknown.end_offset})"
    name = unknown.check if unknown.rule is None else f"{unknown.check}.{unknown.rule}"
    return f"unknown: {name}: {printable(f'{place}: ' if place else '')}{printable(unknown.detail)}"


def note_line(note: Note) -> str:
    """How often something legitimate was seen, and where first."""
    place = "" if note.path is None else f"{note.path}:{note.position or 0}: "
    return f"note: {note.check}.{note.rule}: {note.many:,}, the first: {printable(place + note.detail)}"


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """One line per check, then findings, unknowns, notes, what was not read, and the verdict in one line."""
    width = max((len(each.check) for each in verdict.outcomes), default=0)
    for each in verdict.outcomes:
        yield f"{each.check:<{width}}  {finding_count_words(each)}"
    for each in verdict.outcomes:
        if each.finding_count:
            yield ""
            yield from _with_consequences(each, verdict.consequences)
            listed = sum(finding.cause is None for finding in each.findings)
            yield from _omitted(each.finding_count - listed, f"{each.check} findings")
    if verdict.unknown_count:
        yield ""
    for each in verdict.outcomes:
        yield from map(unknown_line, each.unknown)
        yield from _omitted(each.unknown_count - len(each.unknown), f"{each.check} unknowns")
    if verdict.notes:
        yield ""
        yield from map(note_line, verdict.notes)
    yield ""
    yield from files_lines(verdict.files)
    yield last_line(verdict)


def _with_consequences(outcome: Outcome, consequences: Mapping[str, list[Finding]]) -> Iterator[str]:
    """Findings of one check, below each what it explains, of whichever check."""
    for finding in outcome.findings:
        if finding.cause is None:
            yield finding_line(finding)
            for each in consequences.get(finding.id or "", []):
                yield f"    its consequence: {finding_line(each)}"


def last_line(verdict: Verdict) -> str:
    """The verdict in one line."""
    return f"audit: {_last_word(verdict)}"


def files_lines(files: Files) -> Iterator[str]:
    """What could not be read, and how much was."""
    for each in files.not_read:
        yield f"not read: {printable(each.path)}:{each.position}: {printable(each.reason)}"
    yield from _omitted(files.omitted, "files not read")
    yield f"{plural(files.read, 'file')}, {byte_count(files.byte_count)} read"


def _omitted(count: int, of_what: str) -> Iterator[str]:
    if count > 0:
        yield f"... and {count:,} more {of_what}"


def finding_count_words(outcome: Outcome) -> str:
    """What a check came to: ``passed``, ``unknown (2)``, ``1 finding, 3 unknown``."""
    if outcome.result != FINDINGS:
        many = f" ({outcome.unknown_count:,})" if outcome.unknown_count else ""
        return f"{outcome.result}{many}"
    unknown = f", {outcome.unknown_count:,} unknown" if outcome.unknown_count else ""
    return f"{plural(outcome.finding_count, 'finding')}{unknown}"


def _last_word(verdict: Verdict) -> str:
    not_read = len(verdict.files.not_read) + verdict.files.omitted
    parts = []
    if verdict.finding_count:
        parts.append(plural(verdict.finding_count, "finding"))
    if not_read:
        parts.append(f"{plural(not_read, 'file')} could not be read")
    elif verdict.files.read == 0:
        parts.append("no log was found")
    elif verdict.unknown_count and not parts:
        parts.append(f"nothing found, {plural(verdict.unknown_count, 'thing')} unknown")
    return ", ".join(parts) or "clean"
