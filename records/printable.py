"""Names are a client's words: as one line of a terminal they neither move its cursor nor end the line."""


def printable(text: str) -> str:
    """The text with an escape for each character that moves a cursor, hides text or ends a line."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
