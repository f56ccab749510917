"""docs/howto/handlers.md has a table of annotations: what each is read from, and written as."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import cbor2
import msgspec
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.metadata.mime_types import MIME

PAGE = Path(__file__).parents[2] / "docs/howto/handlers.md"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = 1


@attrs.frozen
class Order:
    item: str


@dataclass
class Item:
    item: str


class Note(msgspec.Struct):
    item: str


class Query(TypedDict):
    item: str


class Point(NamedTuple):
    x: int
    y: int


# The annotation as the page has it; the same; values, which are written.
ROWS: list[tuple[str, Any, list[Any]]] = [
    ("None", None, [None]),
    ("bool", bool, [True, False]),
    ("int", int, [1, -1, 2**70, -(2**70)]),
    ("float", float, [0.5, 1]),
    ("Decimal", Decimal, [Decimal("12.50")]),
    ("Fraction", Fraction, [Fraction(1, 3)]),
    ("str", str, ["a"]),
    ("bytes", bytes, [b"a"]),
    ("Path", Path, [Path("a/b")]),
    ("UUID", UUID, [UUID(int=1)]),
    ("date", date, [date(2024, 5, 6)]),
    ("time", time, [time(7, 8), time(7, 8, tzinfo=UTC)]),
    ("datetime with an offset", datetime, [datetime(2024, 5, 6, tzinfo=UTC)]),
    ("datetime without an offset", datetime, [datetime(2024, 5, 6)]),
    ("timedelta", timedelta, [timedelta(1)]),
    ("IPv4Address", IPv4Address, [IPv4Address("127.0.0.1")]),
    ("IPv6Address", IPv6Address, [IPv6Address("::1")]),
    ("IPv4Network", IPv4Network, [IPv4Network("127.0.0.0/8")]),
    ("IPv6Network", IPv6Network, [IPv6Network("::/16")]),
    ("enum with values of text", Colour, [Colour.RED]),
    ("IntEnum", Level, [Level.LOW]),
    ("Flag", Rights, [Rights.READ, Rights(0)]),
    ('Literal["red", 1]', Literal["red", 1], ["red", 1]),
    ("int | None", int | None, [1, None]),
    ("attrs class", Order, [Order("a")]),
    ("dataclass", Item, [Item("a")]),
    ("Struct of msgspec", Note, [Note("a")]),
    ("TypedDict", Query, [{"item": "a"}]),
    ("NamedTuple", Point, [Point(1, 2)]),
    ("list[int]", list[int], [[1]]),
    ("Sequence[int]", Sequence[int], [[1]]),
    ("tuple[int, int]", tuple[int, int], [(1, 2)]),
    ("set[int]", set[int], [{1}]),
    ("frozenset[int]", frozenset[int], [frozenset((1,))]),
    ("dict[str, int]", dict[str, int], [{"a": 1}]),
    ("Mapping[str, int]", Mapping[str, int], [{"a": 1}]),
    ("dict[int, int]", dict[int, int], [{1: 1}]),
]
TEXTS = ["a", "red", "YQ==", "12.50", "2024-05-06", "07:08:09", "2024-05-06T07:08:09", "PT1H"]
TEXTS += [str(UUID(int=1)), "127.0.0.1", "::1/128", "1", "true", "null"]
JSON = ["null", "true", "0", "1", "0.5", "[1, 2]", '{"item": "a"}', '{"a": 1}', '{"1": 1}']
JSON += [f'"{text}"' for text in TEXTS]
CBOR = [
    *[None, True, 0, 1, -1, 0.5, b"a", bytes(16), [1, 2], {"item": "a"}, {"a": 1}, {1: 1}, *TEXTS],
    *[cbor2.CBORTag(2, b"\1" * 9), cbor2.CBORTag(3, b"\1" * 9), cbor2.CBORTag(4, [-1, 5])],
    *[cbor2.CBORTag(5, [-1, 5]), cbor2.CBORTag(30, [1, 3]), cbor2.CBORTag(37, bytes(16))],
    *[cbor2.CBORTag(0, "2024-05-06T07:08:09Z"), cbor2.CBORTag(1, 0), cbor2.CBORTag(100, 0)],
    *[cbor2.CBORTag(1004, "2024-05-06"), cbor2.CBORTag(258, [1, 2])],
    *map(ip_address, ("127.0.0.1", "::1")),
    *map(ip_network, ("127.0.0.0/8", "::/16")),
]
KINDS_OF_JSON = {"n": "null", "t": "boolean", "f": "boolean", "[": "array", "{": "object"}
KINDS_OF_CBOR = ["integer", "integer", "bytes", "text", "array", "map"]


def kind_of_json(data: bytes) -> str:
    text = data.decode()
    if text[0] == '"':
        return "text"
    return KINDS_OF_JSON.get(text[0], "fraction" if "." in text else "integer")


def kind_of_cbor(data: bytes) -> str:
    major = data[0] >> 5
    if major == 6:
        width = {24: 1, 25: 2}.get(data[0] & 31, 0)
        return f"tag {int.from_bytes(data[1 : 1 + width], 'big') if width else data[0] & 31}"
    if major == 7:
        return {0xF4: "boolean", 0xF5: "boolean", 0xF6: "null"}.get(data[0], "float")
    return KINDS_OF_CBOR[major]


def listed(kinds: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(kinds)) or "-"


def accepted(annotation: Any, mime_type: str) -> str:
    """The kinds of which a value is read, as an item of a list."""
    if mime_type == MIME.JSON:
        samples = [(kind_of_json(each.encode()), f"[{each}]".encode()) for each in JSON]
    else:
        samples = [(kind_of_cbor(cbor2.dumps(each)), cbor2.dumps([each])) for each in CBOR]
    kinds = []
    for kind, data in samples:
        try:
            DEFAULT_CODECS.decode(data, list[annotation], mime_type)
        except CodecError:
            continue
        kinds.append(kind)
    return listed(kinds)


def sent(annotation: Any, values: list[Any], mime_type: str) -> str:
    """The kinds that values are written as, as an item of a list."""
    kinds = []
    for value in values:
        try:
            data = DEFAULT_CODECS.encode([value], list[annotation], mime_type)
        except CodecError:
            continue
        is_json = mime_type == MIME.JSON
        kinds.append(kind_of_json(data[1:-1]) if is_json else kind_of_cbor(data[1:]))
    return listed(kinds)


def as_text(annotation: Any, values: list[Any]) -> str:
    """How ``text/plain`` has the whole of the data."""
    written = set()
    for value in values:
        try:
            data = DEFAULT_CODECS.encode(value, annotation, MIME.TEXT)
            same = data == DEFAULT_CODECS.encode(value, annotation, MIME.JSON)
        except CodecError:
            return "-"
        written.add("as JSON" if same else "the text itself" if data else "no data")
    [how] = written
    return how


def merged(rows: list[list[str]]) -> list[list[str]]:
    """Rows that follow each other and differ in the first cell only, as one."""
    found: list[list[str]] = []
    for first, *rest in rows:
        if found and found[-1][1:] == rest:
            found[-1][0] += f", {first}"
        else:
            found.append([first, *rest])
    return found


def table() -> str:
    lines = [
        "| annotation | from CBOR | in CBOR | from JSON | in JSON | text/plain |",
        "|---|---|---|---|---|---|",
    ]
    rows = [
        [
            "`" + shown.replace("|", "\\|") + "`",
            *[
                cell
                for mime_type in (MIME.CBOR, MIME.JSON)
                for cell in (accepted(annotation, mime_type), sent(annotation, values, mime_type))
            ],
            "see below" if annotation is bytes else as_text(annotation, values),
        ]
        for shown, annotation, values in ROWS
    ]
    return "\n".join([*lines, *[f"| {' | '.join(row)} |" for row in merged(rows)]])


def test_the_table_of_annotations() -> None:
    """The page has what the codecs do: each kind of data is tried with each annotation.

    This file, run as a program, prints the table.
    """
    made = table()
    assert made in PAGE.read_text(encoding="utf-8"), f"the page should have\n{made}"


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON, MIME.TEXT])
def test_bytes_and_text_that_are_all_the_data(mime_type: str) -> None:
    """bytes are never converted; a str is in the format, but in text/plain."""
    assert DEFAULT_CODECS.decode(b"\xff", bytes, mime_type) == b"\xff"
    written = {MIME.CBOR: b"\x61a", MIME.JSON: b'"a"', MIME.TEXT: b"a"}
    assert DEFAULT_CODECS.encode("a", str, mime_type) == written[mime_type]


if __name__ == "__main__":
    print(table())
