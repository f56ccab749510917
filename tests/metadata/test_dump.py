"""Metadata as people read it, and without secrets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.metadata import (
    MIME,
    AcceptMimeTypes,
    BearerAuthentication,
    CompositeMetadata,
    CustomAuthentication,
    DataMimeType,
    Metadata,
    MetadataEntry,
    Sampling,
    SimpleAuthentication,
    ZipkinTrace,
    encode_route,
)
from rsocket_trio.metadata.dump import as_fields, describe, masked

COMPOSITE = MIME.COMPOSITE_METADATA
TRACE = ZipkinTrace(sampling=Sampling.SAMPLE, trace_id=bytes(8), span_id=b"\1" * 8)


@pytest.mark.parametrize(
    ("mime", "content", "fields", "words"),
    [
        (
            MIME.ROUTING,
            encode_route("greet", "eu"),
            {"route": "greet", "tags": ["eu"]},
            "route='greet' tags=['eu']",
        ),
        (MIME.ROUTING, b"", {"route": None, "tags": []}, ""),
        (
            MIME.AUTHENTICATION,
            SimpleAuthentication("me", "secret").encode(),
            {"auth": "simple", "username": "me"},
            "auth='simple' username='me'",
        ),
        (
            MIME.AUTHENTICATION,
            BearerAuthentication("secret").encode(),
            {"auth": "bearer"},
            "auth='bearer'",
        ),
        (
            MIME.AUTHENTICATION,
            CustomAuthentication("own", b"secret").encode(),
            {"auth": "own"},
            "auth='own'",
        ),
        (
            MIME.MIME_TYPE,
            DataMimeType(MIME.JSON).encode(),
            {"data_mime": MIME.JSON},
            "data_mime='application/json'",
        ),
        (
            MIME.ACCEPT_MIME_TYPES,
            AcceptMimeTypes([MIME.JSON]).encode(),
            {"accept": [MIME.JSON]},
            "accept=['application/json']",
        ),
        (
            MIME.TRACING_ZIPKIN,
            TRACE.encode(),
            {"trace_id": "00" * 8, "span_id": "01" * 8, "sampling": "sample"},
            f"trace_id='{'00' * 8}' span_id='{'01' * 8}' sampling='sample'",
        ),
        ("text/x-note", "zwölf".encode(), {"text": "zwölf"}, "text/x-note=6 bytes"),
        ("a/b", b"\xff", {"hex": "ff"}, "a/b=1 bytes"),
    ],
)
def test_what_an_entry_says(mime: str, content: bytes, fields: dict[str, object], words: str):
    """Alone and in composite metadata; a line of a log has no content that may be a secret."""
    assert as_fields(content, mime) == [{"mime": mime, **fields}]
    both = CompositeMetadata([MetadataEntry(mime, content)] * 2).encode()
    assert as_fields(both, COMPOSITE) == [{"mime": mime, **fields}] * 2
    assert describe(content, mime) == words


def test_metadata_that_cannot_be_read():
    """The entries before are shown, and an error in the place of the others."""
    good = MetadataEntry(MIME.TRACING_ZIPKIN, b"").encode()
    shown = as_fields(good + b"\xfe\0\0\5a", COMPOSITE)
    assert [list(each) for each in shown] == [["mime", "error"], ["error"]]
    assert "malformed" in describe(good, COMPOSITE)


SECRETS = [
    SimpleAuthentication("me", "pass-word"),
    BearerAuthentication("pass-word"),
    CustomAuthentication("own", b"pass-word"),
]


@pytest.mark.parametrize("auth", SECRETS)
@pytest.mark.parametrize("size", [None, -1, -5, -10, -14])
def test_secrets_are_masked(auth, size):
    """Also where the metadata end inside of the secret, as in the first of some fragments."""
    whole = Metadata(route="greet", auth=auth, extra=[("a/b", b"open")]).encode(COMPOSITE)
    data = whole[:size]
    hidden = masked(data, COMPOSITE)
    assert len(hidden) == len(data)
    assert b"pass" not in hidden
    assert b"word" not in hidden
    if size is None:
        entries = as_fields(hidden, COMPOSITE)
        assert entries == as_fields(whole, COMPOSITE)
        assert b"pass-word" not in masked(auth.encode(), MIME.AUTHENTICATION)


@given(data=st.binary(max_size=60), mime=st.sampled_from([COMPOSITE, MIME.AUTHENTICATION, "a/b"]))
def test_any_bytes(data: bytes, mime: str):
    """Nothing is raised, JSON can hold the entries, and the size stays."""
    json.dumps(as_fields(data, mime))
    describe(data, mime)
    assert len(masked(data, mime)) == len(data)
