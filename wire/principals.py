"""Who a client is by its certificate: the distinguished name, and the rules that make a principal of it.

Name        as RFC 2253 writes it, the most specific part first: what Java's X500Principal gives Kafka.
Rules       ``ssl.principal.mapping.rules``: RULE:pattern/replacement/[L|U] and DEFAULT, with commas between.
            The first whose pattern matches the whole name counts; if none does, the connection is refused.
Source      KIP-371; Kafka SslPrincipalMapper. An attribute without a short name in RFC 2253 has OpenSSL's
            long name here, where Java writes its number and the value in hexadecimal.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

RULES_MAX: Final = 100
NAME_CHARACTERS_MAX: Final = 1000

_SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<made>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\$(\d)|\\(.)")


class NoPrincipal(Exception):
    """No rule makes a principal of a certificate's name."""


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """``pattern``: None for DEFAULT, which takes the name as it is."""

    pattern: re.Pattern[str] | None
    made: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules in their order; ``text`` is how they are written."""

    text: str = "DEFAULT"
    rules: tuple[PrincipalRule, ...] = (PrincipalRule(None),)

    def name_of(self, distinguished: str) -> str:
        """The user's name. Raises NoPrincipal."""
        for rule in self.rules:
            if rule.pattern is None:
                return distinguished
            match = rule.pattern.fullmatch(distinguished)
            if match is not None:
                return _made(rule, match)
        raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {distinguished!r}")


def _made(rule: PrincipalRule, match: re.Match[str]) -> str:
    made = _REFERENCE.sub(lambda part: part[2] or (match[int(part[1])] or ""), rule.made)
    return {"L": made.lower(), "U": made.upper()}.get(rule.case, made)


def parse_rules(text: str) -> PrincipalRules:
    """Raises ValueError: a rule is not one."""
    rules: list[PrincipalRule] = []
    position = 0
    while position < len(text.rstrip()):
        found = _RULE.match(text, position)
        if found is None or found.end() == position or len(rules) >= RULES_MAX:
            raise ValueError(f"not a rule: {text[position : position + 100]!r}")
        position = found.end()
        if found["default"]:
            rules.append(PrincipalRule(None))
            continue
        try:
            pattern = re.compile(found["pattern"])
        except re.error as error:
            raise ValueError(f"not a pattern: {found['pattern']!r}: {error}") from error
        if any(int(each) > pattern.groups for each in re.findall(r"\$(\d)", found["made"])):
            raise ValueError(f"{found['made']!r} names a group that {found['pattern']!r} does not have")
        rules.append(PrincipalRule(pattern, found["made"], found["case"]))
    return PrincipalRules(text, tuple(rules) or (PrincipalRule(None),))


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """RFC 2253's text of what ``SSLSocket.getpeercert()["subject"]`` says."""
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(subject)
    )


def principal_of(certificate: dict[str, Any] | None, rules: PrincipalRules, anonymous: str) -> str:
    """``User:NAME`` of a verified certificate; ``anonymous`` without one. Raises NoPrincipal."""
    if not certificate:
        return anonymous
    name = rules.name_of(distinguished_name(certificate.get("subject", ())))
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise NoPrincipal(f"a name of {len(name)} characters; expected 1 to {NAME_CHARACTERS_MAX}")
    return f"User:{name}"


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
