"""The options of ``format("rsocket")``."""

from __future__ import annotations

import base64
import json

import cbor2
import pytest

from rsocket_trio import Metadata
from rsocket_trio.metadata import MIME
from rsocket_trio.spark.options import Options
from rsocket_trio.spark.rsocket_source.settings import SourceSettings, read_settings

URI = "tcp://127.0.0.1:7878"


def settings(**options: str) -> SourceSettings:
    return read_settings(Options({"uri": URI, **options}))


def asked(partition: int = 0, **options: str) -> tuple[str | None, bytes]:
    request = settings(**options).request(partition)
    return request.route, request.payload.data


def test_the_defaults():
    """A stream of the fallback handler, without data."""
    found = settings()
    assert found.uris == (URI,)
    assert found.interaction == "request_stream"
    assert found.timeout == 60
    assert found.data_mime_type == MIME.OCTET_STREAM
    assert asked() == (None, b"")


@pytest.mark.parametrize(
    ("payload_format", "mime_type"),
    [("utf8", "text/plain"), ("json", "application/json"), ("CBOR", "application/cbor")],
)
def test_the_mime_type_follows_the_format(payload_format, mime_type):
    """An option says another one."""
    assert settings(payloadFormat=payload_format).data_mime_type == mime_type
    assert settings(payloadFormat=payload_format, dataMimeType="x/y").data_mime_type == "x/y"


def test_data_are_text_or_base64():
    """With CBOR, the text is JSON."""
    assert asked(data="é") == (None, "é".encode())
    assert asked(payloadFormat="cbor", data='{"a": [1]}') == (None, cbor2.dumps({"a": [1]}))
    assert asked(payloadFormat="cbor", dataBase64=base64.b64encode(b"\xff").decode()) == (
        None,
        b"\xff",
    )


def test_partitions_are_told_in_the_data():
    """Without data, each request has its number, in JSON or in CBOR."""
    share = {"partition": 2, "partitions": 3}
    request = settings(numPartitions="3", route="a").request(2)
    assert cbor2.loads(request.payload.data) == share
    assert request.metadata == Metadata(data_mime_type=MIME.CBOR, accept=(MIME.OCTET_STREAM,))
    assert json.loads(asked(2, numPartitions="3", payloadFormat="json")[1]) == share
    request = settings(numPartitions="3", payloadFormat="cbor").request(2)
    assert cbor2.loads(request.payload.data) == share
    assert request.metadata is None


@pytest.mark.parametrize(
    ("mime_type", "loads"),
    [
        ("application/vnd.orders+json; version=2", json.loads),
        ("Application/JSON", json.loads),
        ("application/senml+cbor", cbor2.loads),
        ("application/CBOR;x=y", cbor2.loads),
    ],
)
def test_the_suffix_of_a_mime_type_says_the_format(mime_type, loads):
    """Types that are no other than JSON or CBOR need no MIME type of the request beside them."""
    request = settings(numPartitions="3", dataMimeType=mime_type).request(2)
    assert loads(request.payload.data) == {"partition": 2, "partitions": 3}
    assert request.metadata is None
    assert loads(asked(data='{"a": [1]}', dataMimeType=mime_type)[1]) == {"a": [1]}


def test_partitions_have_a_place_in_route_or_data():
    """The place is filled, in both."""
    options = {"numPartitions": "3", "route": "part.{partition}-{partitions}"}
    assert asked(1, **options) == ("part.1-3", b"")
    assert asked(1, numPartitions="3", data='{"p": {partition}}') == (None, b'{"p": 1}')
    assert asked(1, **options, data="same") == ("part.1-3", b"same")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numPartitions": "2", "data": "x"}, r"write \{partition\} in the option route or data"),
        ({"numPartitions": "2", "dataBase64": "eA=="}, "would read the same"),
        ({"numPartitions": "0"}, "numPartitions must be at least 1"),
        ({"uris": URI}, "one of the options uri"),
        ({"uri": "host:1"}, "the option uri: "),
        ({"data": "x", "dataBase64": "eA=="}, "one of the options data"),
        ({"dataBase64": "%"}, "no base64"),
        ({"payloadFormat": "cbor", "data": "x"}, "must be JSON"),
        (
            {"payloadFormat": "xml"},
            "must be binary, utf8, json, cbor, arrow or fixed",
        ),
        ({"mode": "strict"}, "mode must be PERMISSIVE"),
        ({"limit": "0"}, "limit must be at least 1"),
        ({"initialRequestN": "65537"}, "initialRequestN must be at most 65536"),
        ({"auth.username": "me"}, "go together"),
        ({"auth.token": "x", "auth.username": "a", "auth.password": "b"}, "not both"),
        ({"timeoutMs": "0"}, "timeoutMs must be at least 1"),
    ],
)
def test_options_that_are_wrong(options, message):
    """The error names the option, and says what to do."""
    with pytest.raises(ValueError, match=message):
        settings(**options)


def test_data_that_are_no_json_are_not_shown():
    """They may be secret."""
    for data in ("secret", '{"secret": 1', "[" * 100_000):
        with pytest.raises(ValueError, match="the option data must be JSON") as caught:
            settings(payloadFormat="cbor", data=data)
        assert "secret" not in str(caught.value)
        assert len(str(caught.value)) < 300


def test_no_address():
    """The error has an example."""
    with pytest.raises(ValueError, match=r"e\.g\. tcp://"):
        read_settings(Options({}))


def test_secrets_are_not_shown():
    """Settings may come into the text of an error."""
    found = settings(**{"auth.username": "me", "auth.password": "secret"})
    assert "secret" not in repr(found)
    assert "secret" not in repr(settings(**{"auth.token": "secret"}))
    assert settings().auth is None
