"""The same bytes as google.protobuf writes, and the same values as it reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.ttrpc.wire.any_form import any_request, any_response
from rsocket_trio.ttrpc.wire.envelopes import (
    AnyMessage,
    Request,
    Response,
    Status,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.protobuf import MAX_DEPTH, field, varint

descriptor_pb2 = pytest.importorskip(
    "google.protobuf.descriptor_pb2", reason="google.protobuf is not installed"
)
descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
message_factory = pytest.importorskip("google.protobuf.message_factory")
message = pytest.importorskip("google.protobuf.message")

FIELDS = {
    "KeyValue": ["key: STRING", "value: STRING"],
    "Request": [
        "service: STRING",
        "method: STRING",
        "payload: BYTES",
        "timeout_nano: INT64",
        "metadata: repeated KeyValue",
    ],
    "Any": ["type_url: STRING", "value: BYTES"],
    "Status": ["code: INT32", "message: STRING", "details: repeated Any"],
    "Response": ["status: Status", "payload: BYTES"],
}


def classes():
    """The classes that google.protobuf makes of these messages."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    for name, fields in FIELDS.items():
        made = file.message_type.add(name=name)
        for number, line in enumerate(fields, 1):
            label, _, type_ = line.partition(": ")
            repeated = type_.startswith("repeated ")
            type_ = type_.removeprefix("repeated ")
            each = made.field.add(name=label, number=number)
            each.label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            if type_ in FIELDS:
                each.type, each.type_name = kind.TYPE_MESSAGE, f".t.{type_}"
            else:
                each.type = getattr(kind, f"TYPE_{type_}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in FIELDS
    }


CLASSES = classes()


def theirs(value):
    """One of our values as a message of google.protobuf."""
    if isinstance(value, Request):
        made = CLASSES["Request"](
            service=value.service,
            method=value.method,
            payload=value.payload,
            timeout_nano=value.timeout_nano,
        )
        for key, each in value.metadata:
            made.metadata.add(key=key, value=each)
        return made
    made = CLASSES["Response"](payload=value.payload)
    if value.status is not None:
        made.status.SetInParent()
        made.status.code = value.status.code
        made.status.message = value.status.message
        for detail in value.status.details:
            made.status.details.add(type_url=detail.type_url, value=detail.value)
    return made


def ours(made):
    """A message of google.protobuf as one of our values."""
    if isinstance(made, CLASSES["Request"]):
        metadata = tuple((pair.key, pair.value) for pair in made.metadata)
        return Request(made.service, made.method, made.payload, made.timeout_nano, metadata)
    status = None
    if made.HasField("status"):
        details = tuple(AnyMessage(each.type_url, each.value) for each in made.status.details)
        status = Status(made.status.code, made.status.message, details)
    return Response(status, made.payload)


texts = st.text(max_size=5) | st.sampled_from(["", "a.B", "x" * 127, "x" * 128])
blobs = st.binary(max_size=5) | st.sampled_from([b"", bytes(127), bytes(128), bytes(20000)])
int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
int32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 300)
requests = st.builds(
    Request, texts, texts, blobs, int64, st.lists(st.tuples(texts, texts), max_size=4).map(tuple)
)
details = st.lists(st.builds(AnyMessage, texts, blobs), max_size=3).map(tuple)
responses = st.builds(Response, st.none() | st.builds(Status, int32, texts, details), blobs)


@given(requests | responses)
def test_the_same_bytes_and_values(value):
    is_request = isinstance(value, Request)
    body = encode_request(value) if is_request else encode_response(value)
    assert body == theirs(value).SerializeToString()
    assert ours(theirs(value)) == value
    assert decoded(body, is_request=is_request) == value


def decoded(body, *, is_request):
    """The value, decoded in both ways; or the text of the error."""
    try:
        if is_request:
            made = decode_request(body, max_metadata=2**22, max_entries=1000)
        else:
            made = decode_response(body)
    except MalformedFrame as error:
        made = str(error)
    try:
        slow = any_request(body, 2**22, 1000) if is_request else any_response(body)
    except MalformedFrame as error:
        slow = str(error)
    assert made == slow
    return made


STRICTER = (
    "has the wire type",  # they skip the field
    "a varint is longer than 64 bits",  # they cut off the upper bits
    "too many fields",
    "groups are nested deeper",  # their limit is not the same
    "is no field number",  # inside a group that they skip, they take 0
)
"""What we refuse and google.protobuf accepts."""

numbers = st.integers(0, 6) | st.sampled_from([15, 16, 2**29 - 1, 2**29])
values = st.integers(0, 2**64 - 1) | st.integers(0, 5)


def tagged(number, wire_type, rest):
    return varint(number << 3 | wire_type) + rest


loose_fields = st.recursive(
    st.one_of(
        st.builds(lambda number, value: tagged(number, 0, varint(value)), numbers, values),
        st.builds(lambda number, rest: tagged(number, 1, rest), numbers, st.binary(max_size=9)),
        st.builds(lambda number, rest: tagged(number, 5, rest), numbers, st.binary(max_size=5)),
        st.builds(lambda number, text: field(number, text.encode()), st.integers(1, 6), texts),
        st.binary(max_size=3),
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda number, parts: field(number, b"".join(parts)),
            st.integers(1, 6),
            st.lists(inner, max_size=3),
        ),
        st.builds(
            lambda number, parts: tagged(number, 3, b"".join(parts) + tagged(number, 4, b"")),
            numbers,
            st.lists(inner, max_size=3),
        ),
    ),
    max_leaves=5,
)
pieces = loose_fields | requests.map(encode_request) | responses.map(encode_response)
bodies = st.lists(pieces, max_size=5).map(b"".join) | st.binary(max_size=30)


@given(bodies, st.booleans())
def test_any_bytes_have_the_same_meaning(body, is_request):
    made = decoded(body, is_request=is_request)
    other = CLASSES["Request" if is_request else "Response"]()
    try:
        other.ParseFromString(body)
    except message.DecodeError:
        assert isinstance(made, str)
        return
    if isinstance(made, str):
        assert any(reason in made for reason in STRICTER), made
    else:
        assert made == ours(other)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\x08\x00", "has the wire type"),
        (b"\x30" + b"\xff" * 9 + b"\x7f", "longer than 64 bits"),
        (b"\x30\x00" * 4001, "too many fields"),
        (b"\x33\x00\x00\x34", "is no field number"),
    ],
)
def test_where_we_are_stricter(body, match):
    CLASSES["Request"]().ParseFromString(body)
    assert match in decoded(body, is_request=True)


def test_groups_that_both_skip():
    body = b"\x33" * (MAX_DEPTH - 1) + b"\x34" * (MAX_DEPTH - 1)
    CLASSES["Request"]().ParseFromString(body)
    assert decoded(body, is_request=True) == Request("", "")
