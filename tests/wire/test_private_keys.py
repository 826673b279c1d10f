"""Private API keys: their bytes never change, and docs/api-keys.md lists the fields that the codec has."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
import pytest

from fencepost.controller.errors import InvalidRequest
from fencepost.records.invariant import CorruptData
from fencepost.wire.private_api import Fields, Json, PrivateApi
from tests.together import table
from tests.wire.every_api import PRIVATE_APIS
from tests.wire.sample_messages import SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "api-keys.md"
THROTTLE_MS = 250
every_private_api = table("api", PRIVATE_APIS, ids=lambda api: api.name)


class Vector(NamedTuple):
    """The bytes of the key's sample, in hexadecimal, and those of a refusal with 42 and "no"."""

    request: str
    response: str
    refusal: str


VECTORS = {
    20021: Vector(
        "000000147b22636f6d6d616e64223a22737461747573227d",
        (
            "000000fa00000000000001417b227068617365223a2271756f72756d222c226e6578745f636f6d6d616e6422"
            "3a2266696e616c697a65222c22666c6f6f72223a353030302c2270726f64756365725f69645f656e64223a39"
            "3030302c22656e73656d626c65223a227a6b222c22626c6f636b696e67223a5b227468652066656e63652069"
            "7320676f6e65225d2c2277617973223a5b5d2c227374616e64696e675f7374696c6c223a5b5d2c2266656e63"
            "65223a7b22626c6f636b5f656e64223a343939392c227a6b5f76657273696f6e223a377d2c227a6f6f6b6565"
            "706572223a7b2276657273696f6e223a382c22626c6f636b5f656e64223a343939392c2269735f66656e6365"
            "64223a747275657d2c2270726f6772657373223a2266656e63653a2033207472696573222c226472795f7275"
            "6e223a747275652c226d657373616765223a22646f6e65227d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20024: Vector(
        "0200000000000000070003000000000000000b03076f7264657273030000000000000001027401",
        "000000fa0000",
        "000000fa002a",
    ),
    20027: Vector(
        "000000207b227472616e73616374696f6e616c5f6964223a227472616e7366657273227d",
        ("000000fa000000000000001d7b22706172746974696f6e73223a5b227061796d656e74732d33225d7d"),
        "000000fa002a00026e6f00000000",
    ),
    20029: Vector(
        (
            "000000377b2262726f6b65725f6964223a312c2262726f6b65725f65706f6368223a352c226b6e6f776e223a"
            "372c226166746572223a6e756c6c7d"
        ),
        (
            "000000fa00000000000001267b226368616e676573223a392c22726f7773223a5b7b2261636c5f6964223a22"
            "66386662313437632d666465362d303839632d363037392d633436636537373362383866222c226164646564"
            "223a7b227265736f757263655f74797065223a322c227061747465726e5f74797065223a332c226e616d6522"
            "3a226f7264657273222c227072696e636970616c223a22557365723a616c696365222c22686f7374223a222a"
            "222c226f7065726174696f6e223a332c227065726d697373696f6e223a337d7d2c7b2261636c5f6964223a22"
            "66386662313437632d666465362d303839632d363037392d633436636537373362383866222c226164646564"
            "223a6e756c6c7d5d2c226861735f6d6f7265223a66616c73652c2269735f6c6f7374223a66616c73657d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20037: Vector(
        ("0000000108636c75737465720c636f6f7264696e61746f72116e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e01"),
        "000000fa0000010000000208636c7573746572026e0270",
        "000000fa002a036e6fffffffff010101",
    ),
    20043: Vector(
        "000000337b22746f706963223a226f7264657273222c22706172746974696f6e223a332c2273746172745f6f6666736574223a3530307d",
        "000000fa00000000000000257b226c65616465725f65706f6368223a312c2273746172745f6f6666736574223a3530307d",
        "000000fa002a00026e6f00000000",
    ),
    20051: Vector(
        (
            "000000347b226b6e6f776e223a372c2261667465725f75736572223a22616c696365222c2261667465725f6d"
            "656368616e69736d223a317d"
        ),
        (
            "000000fa00000000000000997b226368616e676573223a392c227573657273223a5b7b2275736572223a2262"
            "6f62222c226d656368616e69736d223a322c22697465726174696f6e73223a383139322c2273616c74223a22"
            "6332467364413d3d222c2273746f7265645f6b6579223a2263335276636d566b222c227365727665725f6b65"
            "79223a2263325679646d5679227d5d2c226861735f6d6f7265223a66616c73657d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20055: Vector(
        "000000087b22746f223a327d",
        (
            "000000fa00000000000000277b226c65616465725f6964223a312c226c65616465725f65706f6368223a352c"
            "22746f223a327d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20057: Vector(
        "0000000f7b226c6f675f6c6576656c223a317d",
        (
            "000000fa000000000000002d7b226c6f675f6c6576656c223a302c226c6f675f6c6576656c5f6d6178223a31"
            "2c22766f74657273223a5b5d7d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20065: Vector(
        "00097472616e7366657273",
        (
            "000000fa00000000000000d07b226578706c616e6174696f6e223a224974206973206f70656e2e222c226665"
            "6e636573223a5b7b2261745f6d73223a313736303030303030303030302c226361757365223a226e65772069"
            "6e7374616e6365222c2270726f64756365725f6964223a34322c2265706f6368223a332c22636c69656e745f"
            "6964223a226f72646572732d32222c226c617465725f70726f64756365725f6964223a2d312c226c61746572"
            "5f65706f6368223a2d312c2274696d656f75745f6d73223a2d317d5d2c227365745f6173696465223a5b5d7d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20066: Vector(
        "000000027b7d",
        (
            "000000fa00000000000000767b22726f7773223a5b7b226b696e64223a22776564676564222c22636f6e6365"
            "726e223a226d61726b6572222c226b6579223a2274222c22726561736f6e223a223437222c2273696e63655f"
            "6d73223a352c22706172746974696f6e223a22222c22636f6465223a307d5d2c22746f74616c223a317d"
        ),
        "000000fa002a00026e6f00000000",
    ),
}
"""All but 20021 were written before the codec was made one. Other versions of fencepost read them."""
EARLIER = {
    20021: Vector(
        (
            "000000407b22636f6d6d616e64223a22737461747573222c226472795f72756e223a66616c73652c2261745f"
            "6c65617374223a302c2273746f70706564223a6e756c6c7d"
        ),
        (
            "000000fa00000000000001237b227068617365223a2271756f72756d222c226e6578745f636f6d6d616e6422"
            "3a2266696e616c697a65222c22666c6f6f72223a353030302c2270726f64756365725f69645f656e64223a39"
            "3030302c22656e73656d626c65223a227a6b222c22626c6f636b696e67223a5b227468652066656e63652069"
            "7320676f6e65225d2c2266656e6365223a7b22626c6f636b5f656e64223a343939392c227a6b5f7665727369"
            "6f6e223a377d2c227a6f6f6b6565706572223a7b2276657273696f6e223a382c22626c6f636b5f656e64223a"
            "343939392c2269735f66656e636564223a747275657d2c2270726f6772657373223a2266656e63653a203320"
            "7472696573222c226472795f72756e223a747275652c226d657373616765223a22646f6e65227d"
        ),
        "000000fa002a00026e6f00000000",
    ),
    20065: Vector(
        "00097472616e7366657273",
        (
            "000000fa00000000000000987b226578706c616e6174696f6e223a224974206973206f70656e2e222c226665"
            "6e636573223a5b7b2261745f6d73223a313736303030303030303030302c226361757365223a226e65772069"
            "6e7374616e6365222c2270726f64756365725f6964223a34322c2265706f6368223a332c22636c69656e745f"
            "6964223a226f72646572732d32227d5d2c227365745f6173696465223a5b5d7d"
        ),
        "000000fa002a00026e6f00000000",
    ),
}
"""Before 20021 left out what is as usual, and had members more; before 20065 said what followed a fence."""


def test_every_private_key_has_its_bytes() -> None:
    assert list(VECTORS) == [api.key for api in PRIVATE_APIS]
    assert all(isinstance(api, PrivateApi) for api in PRIVATE_APIS), "one codec for all of them"


@every_private_api
def test_bytes_are_what_they_have_always_been(api: PrivateApi[Any, Any]) -> None:
    request, response = SAMPLES[api.key]
    asked, answered, refused = map(bytes.fromhex, VECTORS[api.key])
    assert api.encode_request(0, request) == asked
    assert api.encode_response(0, response, THROTTLE_MS) == answered
    for known in (request, None):
        assert api.refusal(0, known, InvalidRequest("no"), THROTTLE_MS) == refused
    assert api.decode_request(0, asked) == request
    assert api.decode_response(0, answered) == response
    with pytest.raises(InvalidRequest, match="no" if api.has_message else "INVALID_REQUEST"):
        api.decode_response(0, refused)


def test_what_an_earlier_version_wrote_is_read() -> None:
    for api in PRIVATE_APIS:
        if api.key in EARLIER:
            asked, answered, _ = map(bytes.fromhex, EARLIER[api.key])
            assert (api.decode_request(0, asked), api.decode_response(0, answered)) == SAMPLES[api.key]


@every_private_api
def test_a_byte_too_many_or_too_few_is_corrupt(api: PrivateApi[Any, Any]) -> None:
    request, response = bytes.fromhex(VECTORS[api.key].request), bytes.fromhex(VECTORS[api.key].response)
    for decode, whole in ((api.decode_request, request), (api.decode_response, response)):
        for size in range(len(whole)):
            with pytest.raises(CorruptData):
                decode(0, whole[:size])
        with pytest.raises(CorruptData):
            decode(0, whole + b"\0")


# The page


@every_private_api
def test_the_page_lists_the_fields_of_the_codec(api: PrivateApi[Any, Any]) -> None:
    text = PAGE.read_text("utf-8")
    heading = f"### {api.name} ({api.key})\n"
    assert text.count(heading) == 1
    section = text.partition(heading)[2].partition("\n### ")[0]
    lines = [line.strip("|") for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert rows[0] == ["message", "field", "type", "meaning"]
    assert [tuple(row[:3]) for row in rows[2:]] == list(listed(api))
    assert all(row[3] for row in rows[2:]), "each field has a meaning"


def listed(api: PrivateApi[Any, Any]) -> Iterator[tuple[str, str, str]]:
    """(message, field, type) of every field, as the page has them."""
    for message, layout in (("request", api.request), ("response", api.response)):
        if isinstance(layout, Json):
            yield message, "-", f"JSON, at most {layout.bytes_max // 1024} KiB"
            rows = of_document(layout.document, "")
        else:
            assert isinstance(layout, Fields)
            rows = of_fields(layout, "")
        for field, kind in rows:
            yield message, f"`{field}`", kind


def of_fields(fields: Fields[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, kind in fields.kinds.items():
        yield prefix + name, kind.title
        if kind.of is not None:
            yield from of_fields(kind.of, f"{prefix}{name}[].")


def of_document(document: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(document)
    for name in document.__struct_fields__:
        title, inner, many = titled(hints[name])
        yield prefix + name, title
        if inner is not None:
            yield from of_document(inner, f"{prefix}{name}{'[]' if many else ''}.")


NAMES = {UUID: "string", bytes: "string", str: "string", int: "integer", bool: "boolean"}


def titled(hint: Any) -> tuple[str, type[msgspec.Struct] | None, bool]:
    """JSON's name of a type; the struct in it, if any, and whether there are many of it."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (one,) = (each for each in inside if each not in (types.NoneType, msgspec.UnsetType))
        title, struct, many = titled(one)
        return f"{title} or {'absent' if msgspec.UnsetType in inside else 'null'}", struct, many
    if origin is tuple:
        title, struct, _ = titled(inside[0])
        return f"array of {title}s", struct, True
    if getattr(hint, "__supertype__", None) is not None:
        return titled(hint.__supertype__)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "object", hint, False
    return NAMES[hint], None, False
