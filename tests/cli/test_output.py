"""The output of items."""

import json

import pytest

from rsocket_trio.cli.output import json_line, render
from rsocket_trio.payload import Payload


@pytest.mark.parametrize("data", [b"", b"text", b"two\nlines", b"\xff\x00"])
def test_items_as_text(data: bytes) -> None:
    """The data is written unchanged, with a newline behind it."""
    assert render(Payload(data, b"unseen"), as_json=False) == data + b"\n"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (Payload(b"zw\xc3\xb6lf"), {"data": "zwölf", "metadata_hex": None}),
        (Payload(b"two\nlines", b""), {"data": "two\nlines", "metadata_hex": ""}),
        (Payload(b"\xff\x00", b"\x01"), {"data_hex": "ff00", "metadata_hex": "01"}),
        (Payload(), {"data": "", "metadata_hex": None}),
    ],
)
def test_items_as_json(payload: Payload, expected: dict[str, object]) -> None:
    """An item is one line of JSON, with data or data_hex, and metadata_hex."""
    line = render(payload, as_json=True)
    assert json.loads(line) == expected
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


def test_json_is_utf8() -> None:
    """Letters beyond ASCII are written unchanged."""
    assert json_line({"a": "ö"}) == '{"a": "ö"}\n'.encode()
