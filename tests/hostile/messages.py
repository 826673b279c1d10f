"""Requests that no honest client sends, made by someone who knows the schema of each.

A body is first a list of tokens, as kio describes the request: lengths, counts, numbers, texts, tags. Then
some tokens are replaced by what such a token must never be: lengths past the end, counts of 2^31, varints
without an end, text that is not UTF-8, tags twice. Private APIs have no schema there: their samples are cut,
spliced and flipped. Everything comes from one seed.
"""

import dataclasses
import struct
from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple, get_args, get_origin

from kio.index import load_request_schema

from fencepost.records.varint import unsigned
from fencepost.wire.dispatch import PRIVATE_KEY_MIN, Api
from tests.wire.every_api import EVERY_API
from tests.wire.sample_messages import SAMPLES

ELEMENTS_MAX: Final = 3  # of a list, where nothing is wrong with it
DEPTH_WITHOUT_LISTS: Final = 4
EDGES: Final = (0, 1, -1, 2, 100, 32_766, 32_767, -32_768, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63))
WIDTHS: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "timedelta_i32": 4,
    "int64": 8, "timedelta_i64": 8, "datetime_i64": 8,
}  # fmt: skip
TEXTS: Final = (
    b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"x" * 250, b"../../etc/passwd", b"__cluster_metadata",
    b"__transaction_state", "\u202e\u0000\U0001f4a3".encode(), b"%s%n", b"a" * 32_767, b"..", b".",
)  # fmt: skip
VARINTS: Final = (
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x80\x01", b"\x80",
    b"\xff" * 12, b"\x80\x00", b"\x00", b"\x01", b"\x7f",
)  # fmt: skip
MANY_TAGS: Final = b"\x21" + b"\0\0" * 33
LENGTHS: Final = (-1, -2, 0, 1, 255, 2**15 - 1, 2**31 - 1, -(2**31))


class Known(NamedTuple):
    """Names and numbers that mean something to the cluster: half of all values are among them."""

    texts: Sequence[str] = ("orders", "transfers", "cluster", "PLAIN", "CONTROLLER")
    numbers: Sequence[int] = (0, 1, 2, 3, 1000, 1001, 2000)


NOTHING_KNOWN: Final = Known()


class Token(NamedTuple):
    """A piece of a body, and what it is: a key of WIDTHS, ``text``, ``varint``, ``length``, or ``raw``."""

    kind: str
    raw: bytes


class Messages:
    """An endless supply of hostile frames."""

    def __init__(
        self, rng: Random, known: Known = NOTHING_KNOWN, apis: Sequence[Api[Any, Any]] = EVERY_API
    ) -> None:
        self._rng = rng
        self._known = known
        self._apis = apis

    def frame(self) -> bytes:
        """One request with its length, mostly with one to three things wrong."""
        rng = self._rng
        api = rng.choice(self._apis)
        version = rng.choice(api.versions)
        whole = self._header(api, version) + self._body(api, version)
        if rng.random() < 0.08:
            whole = self.corrupted(whole)
        return self._length(whole) + whole

    def _length(self, whole: bytes) -> bytes:
        size = len(whole)
        if self._rng.random() < 0.03:
            size = self._rng.choice((size + 1, size - 1, 0, 7, -1, 2**31 - 1, 100 * 2**20, 2 * size))
        return struct.pack(">i", max(-(2**31), min(size, 2**31 - 1)))

    def _header(self, api: Api[Any, Any], version: int) -> bytes:
        rng = self._rng
        client_id = rng.choice((b"", b"hostile", b"\xff", b"c" * 1000)) if rng.random() < 0.1 else b"hostile"
        length = len(client_id) if rng.random() > 0.02 else rng.choice((-1, -5, 32_767, 3))
        key = api.key if rng.random() > 0.01 else rng.randrange(-(2**15), 2**15)
        if rng.random() < 0.03:
            version = rng.randrange(-(2**15), 2**15)
        header = struct.pack(">hhih", key, version, rng.getrandbits(31), length) + client_id
        if version < api.flexible_from:
            return header
        tags = b"\0" if rng.random() > 0.03 else rng.choice((b"\1\0\1x", b"\xff\xff\xff\xff\x0f", MANY_TAGS))
        return header + tags

    def _body(self, api: Api[Any, Any], version: int) -> bytes:
        rng = self._rng
        if version < api.served_from:  # kio has no schema of it
            return rng.randbytes(rng.randrange(60))
        if api.key >= PRIVATE_KEY_MIN:
            body = api.encode_request(version, SAMPLES[api.key][0])
            return body if rng.random() < 0.1 else self.corrupted(body)
        schema = load_request_schema(api.key, version)
        tokens: list[Token] = []
        self._write(schema, tokens, schema.__flexible__, 0)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            position = rng.randrange(len(tokens)) if tokens else 0
            if tokens:
                tokens[position] = Token("raw", self._wrong(tokens[position]))
        body = b"".join(token.raw for token in tokens)
        return body if rng.random() > 0.1 else self.corrupted(body)

    # A body that is right

    def _write(self, schema: type[Any], tokens: list[Token], flexible: bool, depth: int) -> None:
        tagged: list[tuple[int, list[Token]]] = []
        for field in dataclasses.fields(schema):
            if "tag" not in field.metadata:
                self._field(field, tokens, flexible, depth)
            elif self._rng.random() < 0.4:
                value: list[Token] = []
                self._field(field, value, flexible, depth)
                tagged.append((field.metadata["tag"], value))
        if not flexible:
            return
        unknown = [(self._rng.choice((999, 1000, 1001, 2**31)), [Token("raw", b"?" * 3)])]
        tagged += unknown if self._rng.random() < 0.1 else []
        tokens.append(Token("varint", unsigned(len(tagged))))
        for tag, value in sorted(tagged):
            size = sum(len(token.raw) for token in value)
            tokens += [Token("varint", unsigned(tag)), Token("varint", unsigned(size)), *value]

    def _field(self, field: Any, tokens: list[Token], flexible: bool, depth: int) -> None:
        kinds = (field.type, *get_args(field.type))
        array = next((kind for kind in kinds if get_origin(kind) is tuple), None)
        kafka_type = field.metadata.get("kafka_type", "")
        if array is None:
            nested = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
            if nested is not None:
                self._write(nested, tokens, flexible, depth + 1)  # type: ignore[arg-type]
            else:
                self._value(kafka_type, tokens, flexible)
            return
        count = self._rng.randrange(ELEMENTS_MAX + 1) if depth < DEPTH_WITHOUT_LISTS else 0
        tokens.append(
            Token("varint", unsigned(count + 1)) if flexible else Token("length", struct.pack(">i", count))
        )
        element = get_args(array)[0]
        for _ in range(count):
            if dataclasses.is_dataclass(element):
                self._write(element, tokens, flexible, depth + 1)  # type: ignore[arg-type]
            else:
                self._value(kafka_type, tokens, flexible)

    def _value(self, kafka_type: str, tokens: list[Token], flexible: bool) -> None:
        rng = self._rng
        if kafka_type == "uuid":
            tokens.append(Token("raw", rng.choice((bytes(16), rng.randbytes(16)))))
        elif kafka_type in WIDTHS:
            number = rng.choice(self._known.numbers) if rng.random() < 0.6 else rng.choice(EDGES)
            tokens.append(Token(kafka_type, packed(number, WIDTHS[kafka_type])))
        elif kafka_type == "string":
            text = rng.choice(self._known.texts).encode() if rng.random() < 0.7 else rng.choice(TEXTS)
            size = unsigned(len(text) + 1) if flexible else struct.pack(">h", len(text))
            tokens += [Token("varint" if flexible else "short", size), Token("text", text)]
        else:  # bytes and records
            raw = rng.randbytes(rng.choice((0, 1, 60, 61, 300)))
            size = unsigned(len(raw) + 1) if flexible else struct.pack(">i", len(raw))
            tokens += [Token("varint" if flexible else "length", size), Token("text", raw)]

    # What is wrong

    def _wrong(self, token: Token) -> bytes:
        rng = self._rng
        kind, raw = token
        if kind in WIDTHS:
            return packed(rng.choice(EDGES), WIDTHS[kind])
        if kind == "varint":
            return rng.choice(VARINTS)
        if kind == "length":
            return struct.pack(">i", rng.choice(LENGTHS))
        if kind == "short":
            return struct.pack(">h", rng.choice((-1, -2, 0, 1, 32_767, -32_768)))
        if kind == "text" and rng.random() < 0.5:
            return rng.choice(TEXTS)
        return self.corrupted(raw)

    def corrupted(self, raw: bytes) -> bytes:
        """Cut, spliced, flipped or repeated, without a look at what it is."""
        rng = self._rng
        if not raw:
            return rng.randbytes(rng.randrange(8))
        position = rng.randrange(len(raw))
        match rng.randrange(6):
            case 0:
                return raw[:position]
            case 1:
                return raw[:position] + rng.randbytes(rng.randrange(9)) + raw[position:]
            case 2:
                flipped = bytearray(raw)
                for _ in range(rng.randrange(1, 4)):
                    flipped[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
                return bytes(flipped)
            case 3:
                return raw[:position] + raw[position + rng.randrange(1, 9) :]
            case 4:
                return raw + raw[position:]
            case _:
                return raw[:position] + struct.pack(">i", rng.choice(LENGTHS)) + raw[position + 4 :]


def packed(number: int, width: int) -> bytes:
    """The number's lowest bytes, big-endian."""
    return (number & (1 << 8 * width) - 1).to_bytes(width, "big")
