"""The codec for messages of protobuf: any class with the two methods will do."""

from __future__ import annotations

import pytest

from rsocket_trio.codecs import CodecError, Codecs, ProtobufCodec
from rsocket_trio.codecs.protobuf import MessageType, is_message_type

PROTOBUF = "application/vnd.google.protobuf"


class Word:
    def __init__(self, text: str = "") -> None:
        self.text = text

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        return self.text.encode()

    @classmethod
    def FromString(cls, raw: bytes) -> Word:  # noqa: N802 - the name that protobuf has
        return cls(raw.decode())


class Half:
    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        return b""


@pytest.mark.parametrize("wrong", [Half, int, bytes, None, Word(), "Word", list[Word], MessageType])
def test_what_is_no_class_of_messages(wrong):
    assert not is_message_type(wrong)


def test_there_and_back():
    codec = ProtobufCodec()
    assert is_message_type(Word)
    data = codec.encode(Word("ü"), Word)
    assert data == "ü".encode()
    assert codec.decode(data, Word).text == "ü"
    with pytest.raises(TypeError, match="str is no protobuf message"):
        codec.encode("ü", Word)


def test_it_is_built_in():
    codecs = Codecs()
    assert codecs.decode(b"x", Word, PROTOBUF).text == "x"
    assert codecs.encode(Word("x"), Word, PROTOBUF) == b"x"


@pytest.mark.parametrize("annotation", [int, dict[str, int], Half])
def test_other_annotations(annotation):
    with pytest.raises(CodecError):
        Codecs().decode(b"x", annotation, PROTOBUF)


def test_data_that_cannot_be_read():
    """The error of the class is the cause."""
    with pytest.raises(CodecError):
        Codecs().decode(b"\xff", Word, PROTOBUF)
