"""Principals of certificates: names as RFC 2253 writes them, and rules as Kafka reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.wire.principals import NoPrincipal, distinguished_name, parse_rules, principal_of
from tests.together import table

DN = "CN=Duke,OU=ServiceUsers,O=Org,C=US"

RULES = [  # as in Kafka's SslPrincipalMapperTest
    pytest.param("DEFAULT", DN, DN, id="default"),
    pytest.param("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DN, "Duke", id="a-group"),
    pytest.param("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DN, "duke", id="lower"),
    pytest.param("RULE:^CN=(.*?),OU=(.*?),O.*$/$1@$2/U", DN, "DUKE@SERVICEUSERS", id="upper"),
    pytest.param("RULE:^CN=(.*?),OU=Other.*$/$1/, DEFAULT", DN, DN, id="the-next-rule"),
    pytest.param("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", DN, "duke", id="anywhere"),
    pytest.param(r"RULE:CN=(.*?),.*/a\/$1/", DN, "a/Duke", id="an-escaped-slash"),
    pytest.param("RULE:CN=Duke/x/,DEFAULT", DN, DN, id="the-whole-name-must-match"),
]


@table(("rules", "name", "expected"), RULES)
def test_what_a_rule_makes_of_a_name(rules: str, name: str, expected: str) -> None:
    assert parse_rules(rules).name_of(name) == expected


@pytest.mark.parametrize(
    "text", ["RULE:", "RULE:a", "RULE:(/x/", "RULE:a/$1/", "default", "RULE:a/b/L2", "nonsense"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|names a group"):
        parse_rules(text)


def test_no_rule_that_matches_is_no_principal() -> None:
    with pytest.raises(NoPrincipal):
        parse_rules("RULE:CN=x/x/").name_of(DN)


SUBJECTS = [
    pytest.param(((("countryName", "US"),), (("commonName", "a"),)), "CN=a,C=US", id="reversed"),
    pytest.param(((("commonName", 'a,b+c"d\\e<f>g;h'),),), r"CN=a\,b\+c\"d\\e\<f\>g\;h", id="escaped"),
    pytest.param(((("commonName", "#a "),),), r"CN=\#a\ ", id="edges"),
    pytest.param(((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b", id="two-in-one-part"),
    pytest.param(((("serialNumber", "7"),),), "serialNumber=7", id="without-a-short-name"),
]


@table(("subject", "expected"), SUBJECTS)
def test_a_name_is_written_as_rfc_2253_does(
    subject: tuple[tuple[tuple[str, str], ...], ...], expected: str
) -> None:
    assert distinguished_name(subject) == expected


def test_without_a_certificate_a_client_is_anonymous() -> None:
    assert principal_of(None, parse_rules("DEFAULT"), "User:ANONYMOUS") == "User:ANONYMOUS"
    assert principal_of({}, parse_rules("DEFAULT"), "User:ANONYMOUS") == "User:ANONYMOUS"


@given(st.text(max_size=50), st.text(max_size=50))
def test_no_value_looks_like_two(one: str, other: str) -> None:
    """Two names that differ are written differently: a comma in a value begins no other part."""
    first = distinguished_name(((("organizationName", one),), (("commonName", other),)))
    second = distinguished_name(((("commonName", f"{other},O={one}"),),))
    assert first != second
