"""Markup whose text cannot become markup: what is not ``Markup`` is escaped, wherever it stands.

Topics, transactional ids, paths and group ids are a client's words, and one may be ``<script>``.
Law   of a text, no element gets more children or attributes than it had without it (test_markup.py).
"""

import html

from fencepost.records.printable import printable

Part = object
"""A child: ``Markup`` as it stands; ``None`` as nothing; anything else as text."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def join(*parts: Part) -> Markup:
    """The parts one after another."""
    return Markup("".join(_part(each) for each in parts))


def tag(name: str, *children: Part, **attributes: object) -> Markup:
    """One element. In an attribute's name ``_`` is ``-`` and a last ``_`` nothing; None is left out."""
    opening = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{opening}>{join(*children)}</{name}>")


def _part(part: Part) -> str:
    if part is None:
        return ""
    return part if isinstance(part, Markup) else _escaped(part)


def _escaped(value: object) -> str:
    """``printable`` first: a character without a face may turn around or hide what a page shows."""
    return html.escape(printable(str(value)), quote=True)
