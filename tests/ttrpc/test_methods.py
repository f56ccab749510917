"""Mistakes in the description of a method, and of an error: the texts say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from rsocket_trio import ttrpc
from rsocket_trio.ttrpc import BYTES, Method, MethodKind, NotFound, Service, codec_for
from tests.ttrpc.scenes import client_of, things


class Text:
    """A message without a useful repr, as an empty one of protobuf."""

    def __repr__(self) -> str:
        return ""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return b""

    @classmethod
    def FromString(cls, _data: bytes) -> Text:  # noqa: N802 - protobuf's name
        return cls()


def test_the_kind_is_no_text() -> None:
    with pytest.raises(TypeError, match="kind must be a MethodKind, not 'unary'"):
        Method.raw("a.B", "C", "unary")  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("codecs", [(BYTES, Text), (Text, BYTES)])
def test_a_class_is_no_codec(codecs: Any) -> None:
    with pytest.raises(TypeError, match=r"must be codecs, not .*Text.*codec_for\(Class\)"):
        Method("a.B", "C", MethodKind.UNARY, *codecs)


def test_a_message_is_no_type_of_messages() -> None:
    with pytest.raises(TypeError, match=r"an object of type Text is no type.*the class Text"):
        codec_for(Text())


def test_details_are_any_messages() -> None:
    with pytest.raises(TypeError, match="a detail must be an AnyMessage, not Text"):
        NotFound("x", details=[Text()])  # type: ignore[list-item]  # the mistake


def test_a_name_is_no_method() -> None:
    with pytest.raises(TypeError, match="add needs a Method, not str"):
        Service("a.B").add("C", print)  # type: ignore[arg-type]  # the mistake


async def test_a_path_is_no_method() -> None:
    async with client_of(things()) as client:
        with pytest.raises(TypeError, match="a call needs a Method, not str"):
            await client.unary("test.Things/Echo", b"")
        with pytest.raises(TypeError, match="a call needs a Method, not str"):
            client.server_stream("test.Things/Count", b"")


async def test_a_number_is_no_retry() -> None:
    with pytest.raises(TypeError, match="retry must be of type Retry or None, not int"):
        async with ttrpc.connect("unix://@nobody", retry=3):  # type: ignore[arg-type]  # the mistake
            raise AssertionError
