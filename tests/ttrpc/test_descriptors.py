"""Descriptor sets: services, methods, messages and their JSON."""

from __future__ import annotations

import pytest
from google.protobuf import any_pb2, duration_pb2, struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from rsocket_trio.ttrpc.comments import comments_of
from rsocket_trio.ttrpc.descriptors import DescriptorError, Descriptors
from rsocket_trio.ttrpc.methods import MethodKind


def a_file(name: str, *imports: str, package: str = "", message: str = "") -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)
    if message:
        file.message_type.add(name=message)
    return file


@pytest.fixture
def clock() -> FileDescriptorProto:
    """A file with a service of four kinds of methods."""
    file = a_file("clock.proto", "google/protobuf/duration.proto", package="time")
    message = file.message_type.add(name="Tick")
    message.field.add(name="at_ms", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    service = file.service.add(name="Clock")
    for name, sends, receives in (
        ("Ask", False, False),
        ("Watch", False, True),
        ("Feed", True, False),
        ("Both", True, True),
    ):
        service.method.add(
            name=name,
            input_type=".google.protobuf.Duration",
            output_type=".time.Tick",
            client_streaming=sends,
            server_streaming=receives,
        )
    return file


def test_methods(clock: FileDescriptorProto) -> None:
    """Methods have the kind and the messages of the file, with or without a slash before them."""
    descriptors = Descriptors.parse(FileDescriptorSet(file=[clock]).SerializeToString())
    assert [each.full_name for each in descriptors.services()] == ["time.Clock"]
    kinds = {
        "Ask": MethodKind.UNARY,
        "Watch": MethodKind.SERVER_STREAM,
        "Feed": MethodKind.CLIENT_STREAM,
        "Both": MethodKind.BIDI_STREAM,
    }
    for name, kind in kinds.items():
        for path in (f"time.Clock/{name}", f"/time.Clock/{name}"):
            method = descriptors.method(path)
            assert (method.service, method.name, method.kind) == ("time.Clock", name, kind)
    tick = method.response.decode(b"\x08\x05")
    assert method.response.encode(tick) == b"\x08\x05"
    assert descriptors.to_json(tick) == {"atMs": "5"}
    request = method.request.decode(duration_pb2.Duration(seconds=3).SerializeToString())
    assert descriptors.to_json(request) == "3s"


@pytest.mark.parametrize("path", ["time.Clock", "time.Clock/Other", "Clock/Ask", "/Ask", "", "/"])
def test_methods_that_are_not_there(clock: FileDescriptorProto, path: str) -> None:
    """They are a `DescriptorError`."""
    with pytest.raises(DescriptorError):
        Descriptors([clock]).method(path)


def test_the_order_of_files() -> None:
    """A set may have its files in any order, and files of protobuf may be missing."""
    files = [
        a_file("c.proto", "b.proto", "a.proto", "google/protobuf/api.proto", message="C"),
        a_file("b.proto", "a.proto", message="B"),
        a_file("a.proto", message="A"),
    ]
    for each in (files, files[::-1]):
        descriptors = Descriptors(each)
        order = list(descriptors.files)
        assert order.index("a.proto") < order.index("b.proto") < order.index("c.proto")
        assert "google/protobuf/source_context.proto" in order
        assert descriptors.find("google.protobuf.Api").full_name == "google.protobuf.Api"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([a_file("a.proto", "b.proto")], r"a.proto imports b.proto, .* --include_imports"),
        ([a_file("a.proto", "google/protobuf/x.proto")], "imports google/protobuf/x.proto"),
        ([a_file("a.proto", "b.proto"), a_file("b.proto", "a.proto")], "files import each other"),
        ([a_file("a.proto", "a.proto")], "files import each other"),
        ([a_file("a.proto", message="X"), a_file("b.proto", message="X")], "b.proto is wrong"),
        ([a_file("a.proto", message="no name")], "a.proto is wrong"),
    ],
)
def test_sets_that_cannot_be_used(files: list[FileDescriptorProto], message: str) -> None:
    """The error names the file."""
    with pytest.raises(DescriptorError, match=message):
        Descriptors(files)


def test_bytes_that_are_no_set() -> None:
    """They are a `DescriptorError`."""
    with pytest.raises(DescriptorError, match="no descriptor set"):
        Descriptors.parse(b"text")
    assert Descriptors.parse(b"").services() == []


def test_json(clock: FileDescriptorProto) -> None:
    """Messages are read from JSON with either name of a field, and errors say what is wrong."""
    descriptors = Descriptors([clock])
    tick = descriptors.method("time.Clock/Ask").response.message_type
    assert tick is not None
    for text in ('{"atMs": 7}', b'{"at_ms": "7"}'):
        message = descriptors.read_json(text, tick)
        assert descriptors.to_json(message) == {"atMs": "7"}
    assert descriptors.to_json(tick(), defaults=True) == {"atMs": "0"}
    assert descriptors.to_json(tick()) == {}
    for wrong in (
        "",
        "{",
        "[]",
        "null",
        "1",
        '"a"',
        '{"x": 1}',
        '{"atMs": {}}',
        b"\xff",
        "[" * 10**5,
    ):
        with pytest.raises(DescriptorError):
            descriptors.read_json(wrong, tick)


def test_any(clock: FileDescriptorProto) -> None:
    """Known types are shown as JSON; others, and wrong bytes, as bytes."""
    descriptors = Descriptors([clock, a_file("any.proto", "google/protobuf/any.proto")])
    assert descriptors.any_to_json("x/time.Tick", b"\x08\x05") == {
        "@type": "x/time.Tick",
        "atMs": "5",
    }
    assert descriptors.any_to_json("time.Tick", b"") == {"@type": "time.Tick"}
    duration = duration_pb2.Duration(seconds=1).SerializeToString()
    assert descriptors.any_to_json("x/google.protobuf.Duration", duration)["value"] == "1s"
    for name, data in (("x/Other", b"\x08"), ("", b"\x08"), ("x/time.Tick", b"\xff")):
        assert descriptors.any_to_json(name, data) == {"@type": name, "value_hex": data.hex()}
    unknown = any_pb2.Any(type_url="x/Other", value=b"")
    with pytest.raises(DescriptorError, match="no JSON form"):
        descriptors.to_json(unknown)
    with pytest.raises(DescriptorError, match="no JSON form"):
        descriptors.to_json(struct_pb2.Value(number_value=float("nan")))


def test_comments_have_the_names_of_their_subjects() -> None:
    """Comments before and behind a definition are found by its full name."""
    file = a_file("a.proto", package="p", message="M")
    file.message_type[0].field.add(name="f")
    file.message_type[0].nested_type.add(name="N").enum_type.add(name="E").value.add(name="V")
    file.enum_type.add(name="E")
    file.service.add(name="S").method.add(name="Do")
    places = {
        (4, 0): "p.M",
        (4, 0, 2, 0): "p.M.f",
        (4, 0, 3, 0): "p.M.N",
        (4, 0, 3, 0, 4, 0): "p.M.N.E",
        (4, 0, 3, 0, 4, 0, 2, 0): "p.M.N.E.V",
        (5, 0): "p.E",
        (6, 0): "p.S",
        (6, 0, 2, 0): "p.S.Do",
    }
    for number, (path, name) in enumerate(places.items()):
        place = file.source_code_info.location.add(path=path)
        setattr(place, ("leading_comments", "trailing_comments")[number % 2], name)
    file.source_code_info.location.add(path=(9, 9), leading_comments="of nothing")
    assert comments_of(file) == {name: name for name in places.values()}
    assert comments_of(a_file("b.proto", message="M")) == {}


def test_a_field_named_as_what_protobuf_needs() -> None:
    """protobuf cannot read or write such a message as JSON: an error of ours, and no traceback."""
    file = a_file("odd.proto", package="odd", message="Odd")
    file.message_type[0].field.add(
        name="DESCRIPTOR", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL"
    )
    service = file.service.add(name="S")
    service.method.add(name="X", input_type=".odd.Odd", output_type=".odd.Odd")
    descriptors = Descriptors.parse(FileDescriptorSet(file=[file]).SerializeToString())
    odd = descriptors.message_class(descriptors.services()[0].methods[0].input_type)
    with pytest.raises(DescriptorError, match="full_name"):
        descriptors.read_json('{"DESCRIPTOR": "7"}', odd)
    with pytest.raises(DescriptorError, match="no JSON form"):
        descriptors.to_json(odd(DESCRIPTOR="7"))
