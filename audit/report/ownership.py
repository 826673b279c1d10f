"""Who owned a producer id, and who used it: the answer to one question, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.audit.report.text import moment, plural
from fencepost.audit.report.timeline import Written, written_lines
from fencepost.records.printable import printable


class Block(NamedTuple):
    """A block that holds the id: [first, end), ``first`` None: where it begins was not kept.

    ``at_ms``  when it was given out; ``until_ms`` when its broker registered again or left. None: not known.
    """

    first: int | None
    end: int
    broker_id: int
    broker_epoch: int
    at_ms: int | None
    until_ms: int | None
    source: str
    offset: int
    path: str
    position: int


class Use(NamedTuple):
    """A transactional id whose producer the id was."""

    transactional_id: str
    first_epoch: int
    last_epoch: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Of one producer id, at ``at_ms`` or ever. More than one block is a finding of the check ``blocks``."""

    producer_id: int
    at_ms: int | None
    blocks: tuple[Block, ...]
    uses: tuple[Use, ...]
    written: tuple[Written, ...]
    is_partial: bool = False

    @property
    def owners(self) -> tuple[Block, ...]:
        """The blocks that had been given out at that time; all of them if none was named.

        An id keeps its owner: ids of a block that were left unused when its broker registered again are
        never given out to another one.
        """
        if self.at_ms is None:
            return self.blocks
        return tuple(each for each in self.blocks if each.at_ms is None or each.at_ms <= self.at_ms)

    @property
    def exit_status(self) -> int:
        """0 an owner is known; else 3 if not everything could be read, 1 if it was."""
        return 0 if self.owners else 3 if self.is_partial else 1

    def document(self) -> dict[str, Any]:
        """The same as a JSON document."""
        return {
            "producer_id": self.producer_id,
            "at_ms": self.at_ms,
            "owners": [each._asdict() for each in self.owners],
            "later": [each._asdict() for each in self.blocks if each not in self.owners],
            "transactional_ids": [each._asdict() for each in self.uses],
            "written": [each._asdict() for each in self.written],
            "partial": self.is_partial,
        }

    def lines(self) -> Iterator[str]:
        """As text: whose it was, then who used it."""
        when = "" if self.at_ms is None else f" at {moment(self.at_ms)}"
        if not self.owners:
            yield f"producer id {self.producer_id}: no broker owned it{when}, as far as these logs tell"
        for each in self.blocks:
            is_later = "" if each in self.owners else f" (not yet{when})"
            yield f"producer id {self.producer_id}: {_owner(each)}{is_later}"
            yield f"  {printable(each.path)}:{each.position}: {each.source}, offset {each.offset}"
        for use in self.uses:
            epochs = (
                f"epoch {use.first_epoch}"
                if use.first_epoch == use.last_epoch
                else f"epochs {use.first_epoch} to {use.last_epoch}"
            )
            yield (
                f"  producer of {printable(use.transactional_id)}, {epochs}, "
                f"{moment(use.first_ms)} to {moment(use.last_ms)}"
            )
        yield from written_lines(self.written)


def _owner(block: Block) -> str:
    who = "a broker, through ZooKeeper" if block.broker_id < 0 else f"broker {block.broker_id}"
    if block.broker_epoch >= 0:
        who += f", epoch {block.broker_epoch}"
    since = "" if block.at_ms is None else f", since {moment(block.at_ms)}"
    if block.until_ms is not None:
        since += f" until it registered again or left, {moment(block.until_ms)}"
    if block.first is None:
        return f"{who}, in a block that ends at {block.end}{since}"
    return f"{who}, in [{block.first}, {block.end}), {plural(block.end - block.first, 'id')}{since}"
