"""Data by MIME type: what is sent for what is written, and what is shown of what came."""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import cbor2
import pytest

from rsocket_trio import Payload
from rsocket_trio.cli.data_types import Answers, DataType, hint
from rsocket_trio.cli.exits import DONE, PEER_ERROR, USAGE, Failure
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.errors import ApplicationError, Invalid, StreamError, Unauthenticated
from rsocket_trio.metadata import MIME, CompositeMetadata, Metadata, MetadataEntry

CBOR, JSON, TEXT = "application/cbor", "application/json", "text/plain"
COMPOSITE = "message/x.rsocket.composite-metadata.v0"


def shown(data: bytes, mime_type: str = CBOR) -> str:
    line = DataType(mime_type).line(Payload(data), as_json=False)
    assert line.endswith(b"\n")
    return line[:-1].decode()


def answers(mime_type: str = CBOR, **options: Any) -> Answers:
    settings = {"data_mime": mime_type, "raw": False, "json": False, "metadata_mime": COMPOSITE}
    return Answers(argparse.Namespace(**settings | options))


# -- what is sent -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ('{"id": 1}', {"id": 1}),
        ("[1, 2.5, null, true]", [1, 2.5, None, True]),
        ('"5"', "5"),
        ("5", 5),
        ("-5", -5),
        ("18446744073709551616", 2**64),
        (' {"a": "zwölf"}\n', {"a": "zwölf"}),
        ("hello", "hello"),
        ("is anybody there?", "is anybody there?"),
        ("True", "True"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("1e3m", "1e3m"),
        ("zwölf\n", "zwölf\n"),
    ],
)
@pytest.mark.parametrize("mime_type", [CBOR, "Application/X+CBOR; a=b", JSON, "application/x+json"])
def test_json_and_text(given: str, value: object, mime_type: str) -> None:
    """JSON is sent as the value that it is, other text as text: to a typed handler it fits."""
    sent = DataType(mime_type).sent(given.encode())
    assert DEFAULT_CODECS.decode(sent, Any, mime_type) == value


@pytest.mark.parametrize("mime_type", [CBOR, JSON, TEXT, "a/b"])
def test_nothing_is_no_data(mime_type: str) -> None:
    """No DATA is no data, for a handler without a parameter."""
    assert DataType(mime_type).sent(b"") == b""


def test_json_is_sent_unchanged() -> None:
    """Numbers keep their digits."""
    given = b'{"price": 1.10000000000000000001, "n": 1E2}\n'
    assert DataType(JSON).sent(given) == given


@pytest.mark.parametrize("given", ['{"id": 1', "[1,]", '"open', " {'id': 1}", "[" * 100_000])
@pytest.mark.parametrize("mime_type", [CBOR, JSON])
def test_broken_json_is_not_sent_as_text(given: str, mime_type: str) -> None:
    """The handler would only say that it got a text; the error says how to send text."""
    with pytest.raises(
        Failure, match=r"(not JSON|200 levels).*--data-mime text/plain.*--raw"
    ) as caught:
        DataType(mime_type).sent(given.encode())
    assert caught.value.status == USAGE
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("given", ["1e999", " -1e999\n", "9" * 5000])
@pytest.mark.parametrize("mime_type", [CBOR, JSON])
def test_a_number_out_of_range_is_not_sent_as_text(given: str, mime_type: str) -> None:
    """It is JSON, so whoever writes it means a number."""
    with pytest.raises(Failure, match=r"the data.*--data-mime text/plain sends text") as caught:
        DataType(mime_type).sent(given.encode())
    assert caught.value.status == USAGE


def test_bytes_are_not_guessed() -> None:
    """Bytes that are no text have no JSON; --raw sends them."""
    with pytest.raises(Failure, match="--raw sends bytes"):
        DataType(CBOR).sent(b"\xff")
    assert DataType(CBOR, raw=True).sent(b"\xff") == b"\xff"


@pytest.mark.parametrize("mime_type", [TEXT, "application/octet-stream", "image/png", "", "x"])
def test_other_types_are_sent_as_they_are(mime_type: str) -> None:
    """No byte changes, also of what looks like JSON."""
    for given in (b'{"id": ', b"\xff\x00", b"5"):
        assert DataType(mime_type).sent(given) == given


# -- what is shown ------------------------------------------------------------------------------

TABLE: list[tuple[str, str, bool]] = [
    # CBOR in hexadecimal, the JSON, and whether it is the same value if it is sent as CBOR again
    ("a1626964f5", '{"id": true}', True),
    ("6a48656c6c6f202241220a", '"Hello \\"A\\"\\n"', True),
    ("c249010000000000000000", "18446744073709551616", True),
    ("c349010000000000000000", "-18446744073709551617", True),
    ("fb3ff199999999999a", "1.1", True),
    ("f6", "null", True),
    ("f7", "null", False),  # undefined
    ("f3", "null", False),  # a simple value
    ("f97e00", '"NaN"', False),
    ("f97c00", '"Infinity"', False),
    ("f9fc00", '"-Infinity"', False),
    ("42ff00", '"/wA="', False),
    ("c074323032342d30352d30365430373a30383a30395a", '"2024-05-06T07:08:09Z"', False),
    ("d903ec6a323032342d30352d3036", '"2024-05-06"', False),
    ("c4822104", '"0.04"', False),
    ("c48219270f01", '"1E+9999"', False),
    ("d82550" + "12345678" * 4, '"12345678-1234-5678-1234-567812345678"', False),
    ("d81e820103", '"1/3"', False),
    ("d9010281f5", "[true]", False),  # a set
    ("c9181e", "30", False),  # a tag without a meaning here
    ("a10102", '{"1": 2}', False),
    ("a141ff02", '{"/w==": 2}', False),
]


def _is_same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("data", "text", "same"), TABLE)
def test_cbor_as_json(data: str, text: str, same: bool) -> None:
    """The table of docs/howto/command-line/data.md. What is the same value again, it says too."""
    came = bytes.fromhex(data)
    found = shown(came)
    assert found == text
    again = DataType(CBOR).sent(found.encode())
    assert _is_same(cbor2.loads(again), cbor2.loads(came)) is same


def test_keys_that_are_the_same_text() -> None:
    """No entry is lost: such a map is a list of its pairs."""
    assert shown(cbor2.dumps({1: "a", "1": "b"})) == '[["1", "a"], ["1", "b"]]'
    assert (
        shown(cbor2.dumps({(1, "x"): True, None: False})) == '{"[1, \\"x\\"]": true, "null": false}'
    )


def test_json_keeps_its_digits() -> None:
    """A JSON answer is on one line, and has the numbers and names that it came with."""
    came = b'{\n\t"n": 1.10000000000000000001,\r\n "n": 1E2, "s": "a\\tb\xe2\x80\xa8"}\n'
    text = shown(came, JSON)
    assert text == '{  "n": 1.10000000000000000001,   "n": 1E2, "s": "a\\tb\\u2028"} '
    assert json.loads(text) == json.loads(came)


def test_values_come_back() -> None:
    """What JSON can hold comes back as it was, when it is shown and sent again."""
    rng = random.Random(21)

    def value(depth: int) -> Any:
        kind = rng.randrange(8 if depth else 6)
        if kind == 6:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 7:
            return {str(rng.random()): value(depth - 1) for _ in range(rng.randrange(4))}
        texts = ["", "5", "true", "\u2028\x7f\x1b", "{", '"']
        leaves = (None, True, rng.getrandbits(80), -rng.getrandbits(8), rng.gauss(0, 1e9))
        return [*leaves, rng.choice(texts)][kind]

    for _ in range(300):
        came = cbor2.dumps(value(4))
        for mime_type in (CBOR, JSON):
            text = shown(came)
            again = DataType(mime_type).sent(text.encode())
            assert DEFAULT_CODECS.decode(again, Any, mime_type) == cbor2.loads(came)
            assert shown(again, mime_type) == text


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"Hello, trio!", CBOR),
        (b"\x9f" * 100_000, CBOR),
        (b"\x81" * 201 + b"\x01", CBOR),
        (b"\x9f" + b"\x80" * 200_000 + b"\xff", CBOR),
        (b"[" * 100_000, JSON),
        (b"NaN", JSON),
        (b"\xff", JSON),
        (b"[" + b"1," * 2**23 + b"1]", JSON),
    ],
)
def test_hostile_data(
    capfdbinary: pytest.CaptureFixture[bytes], data: bytes, mime_type: str
) -> None:
    """It is printed as it came, with an error in words; nothing else is raised."""
    printed = answers(mime_type)
    line = printed.line(Payload(data))
    assert line == data + b"\n"
    assert printed.status == PEER_ERROR
    errors = capfdbinary.readouterr().err
    assert errors.startswith(b"rsocket-trio: error: an answer is printed as it came")
    assert len(errors) < 400


@pytest.mark.parametrize("depth", [150, 200])
def test_deep_data(depth: int) -> None:
    """What CBOR may nest is shown."""
    assert shown(b"\x81" * depth + b"\x01") == "[" * depth + "1" + "]" * depth


def test_random_cbor() -> None:
    """Whatever the peer sends, one line of JSON comes out, or an error in words."""
    rng = random.Random(3)
    for _ in range(3000):
        data = bytes(rng.choices(range(256), k=rng.randrange(1, 24)))
        try:
            text = shown(data)
        except CodecError:
            continue
        json.loads(text, parse_constant=lambda name: pytest.fail(name))
        assert text.isprintable()


# -- answers ------------------------------------------------------------------------------------


def test_json_nests_the_value() -> None:
    """--json has the value itself, not its text."""
    metadata = CompositeMetadata([MetadataEntry(MIME.TEXT, b"hi")]).encode()
    line = answers(json=True).line(Payload(cbor2.dumps({"id": 1}), metadata))
    assert json.loads(line) == {
        "data": {"id": 1},
        "metadata_hex": metadata.hex(),
        "metadata": [{"mime": "text/plain", "text": "hi"}],
    }
    assert answers(json=True).line(Payload()) == b'{"data": null, "metadata_hex": null}\n'
    assert answers(TEXT, json=True).line(Payload(b"5")) == b'{"data": "5", "metadata_hex": null}\n'


def test_an_answer_that_is_not_of_its_type(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """It is printed as it came; the first is reported, with what to add, and sets the status."""
    printed = answers()
    assert printed.line(Payload(cbor2.dumps("good"))) == b'"good"\n'
    assert printed.status == DONE
    for _ in range(2):
        assert printed.line(Payload(b"Hello, trio!")) == b"Hello, trio!\n"
    assert printed.status == PEER_ERROR
    _, errors = capfdbinary.readouterr()
    assert errors.count(b"\n") == 1
    assert b"--data-mime text/plain" in errors
    assert b"Hello" not in errors
    assert answers(raw=True).line(Payload(b"Hello\xff")) == b"Hello\xff\n"


def test_an_answer_names_its_type() -> None:
    """An answer in another type is read as that, and so are those behind it."""
    printed = answers()
    named = Metadata(data_mime_type=JSON).encode()
    assert printed.line(Payload(b"[1]", named)) == b"[1]\n"
    assert printed.line(Payload(b"[2]")) == b"[2]\n"
    assert printed.status == DONE
    assert answers(raw=True).line(Payload(b"\x01", named)) == b"\x01\n"
    assert answers().line(Payload(b"\x01", b"\xff damaged")) == b"1\n"


# -- hints --------------------------------------------------------------------------------------


def arguments(mime: str, *more: str) -> argparse.Namespace:
    given = ["request", "tcp://127.0.0.1:1", "--data-mime", mime, *more]
    return build_parser().parse_args(given)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApplicationError("No handler for destination ''"), "(--route ROUTE)"),
        (Invalid("no request_response handler for requests without a route"), "(--route ROUTE)"),
        (ApplicationError("Access Denied"), "(--auth-simple USER:PASSWORD or --auth-bearer TOKEN)"),
        (Unauthenticated("who are you?"), "(--auth-simple USER:PASSWORD or --auth-bearer TOKEN)"),
    ],
)
def test_what_is_missing(error: StreamError, said: str) -> None:
    """A request without a route, or without credentials, gets the option that gives them."""
    assert said in hint(error, arguments(CBOR))
    given = arguments(CBOR, "--auth-bearer", "token")
    assert hint(error, given) == ("" if "auth" in said else f" {said}")


@pytest.mark.parametrize(
    "text",
    [
        "Failed to decode: CBOR decoding error",
        "Failed to read HTTP message",
        "Unsupported MIME type",
        "Unrecognized token 'd': was expecting JSON; while parsing",
        "Content type 'application/cbor' not supported",
        "route 'x' cannot read these data: there is no codec for 'a/b'",
    ],
)
def test_a_peer_that_cannot_read_it(text: str) -> None:
    """The error says which option sends the data in another type, and none that was tried."""
    args = arguments(CBOR)
    said = hint(ApplicationError(text), args)
    assert "--data-mime may be application/json or text/plain" in said
    args = arguments(JSON)
    assert "may be application/cbor or text/plain" in hint(ApplicationError(text), args)


def test_errors_about_something_else() -> None:
    """Other errors have no hint, and a number for a text has its own."""
    args = arguments(CBOR)
    assert hint(ApplicationError("out of beans"), args) == ""
    for text in (
        "route 'a' expects str as 'application/cbor'",
        "order.name: expected str, got int",
    ):
        assert "quotes make text of a number" in hint(Invalid(text), args)
    variable = "route 'a.{b}' expects str for its variable 'b'"
    assert hint(Invalid(variable), args) == ""  # it is no part of the data
    args = arguments(TEXT)
    assert hint(Invalid("route 'a' expects str as 'text/plain'"), args) == ""


def test_the_largest_answer_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger ones are printed as they came: as objects they take many times their size."""
    monkeypatch.setattr("rsocket_trio.cli.data_types._MAX_READ", 10)
    assert shown(b"[" + b" " * 8 + b"]", JSON)
    with pytest.raises(CodecError, match="not read as a value"):
        shown(b"[" + b" " * 9 + b"]", JSON)
