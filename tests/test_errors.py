"""The errors: their tree, their codes, and their texts."""

from __future__ import annotations

import copy

import pytest

from rsocket_trio import errors
from rsocket_trio.errors import (
    ApplicationError,
    Canceled,
    ClosedByPeer,
    ConnectionClosed,
    ConnectionLost,
    CustomError,
    ErrorCode,
    Forbidden,
    Invalid,
    InvalidSetup,
    MalformedFrame,
    Rejected,
    RejectedResume,
    RejectedSetup,
    RemoteProtocolError,
    RSocketError,
    SetupError,
    StreamError,
    UnsupportedSetup,
    code_name,
    fresh_copy,
    setup_error,
    single_error,
    stream_error,
)


def test_everything_is_an_rsocket_error():
    """One except clause catches all of them."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 20
    assert all(issubclass(kind, RSocketError) for kind in kinds)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0x201, ApplicationError),
        (0x202, Rejected),
        (0x203, Canceled),
        (0x204, Invalid),
        (0x301, CustomError),
        (0xFFFFFFFE, CustomError),
        (0, CustomError),
    ],
)
def test_stream_errors_by_code(code, kind):
    """Each code has its class, and keeps code, data and stream."""
    error = stream_error(code, b"text", 7)
    assert type(error) is kind
    assert isinstance(error, StreamError)
    assert (error.code, error.data, error.message, error.stream_id) == (code, b"text", "text", 7)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, InvalidSetup),
        (2, UnsupportedSetup),
        (3, RejectedSetup),
        (4, SetupError),
        (0x301, SetupError),
    ],
)
def test_setup_errors_by_code(code, kind):
    """Each code that refuses a SETUP has its class, and keeps code and data."""
    error = setup_error(code, b"text")
    assert type(error) is kind
    assert (error.code, error.data) == (code, b"text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApplicationError(), "APPLICATION_ERROR"),
        (Rejected("later"), "REJECTED: later"),
        (CustomError("x", code=0x301), "0x00000301: x"),
        (Forbidden("x"), "FORBIDDEN: x"),
        (stream_error(4401, b""), "UNAUTHENTICATED"),
        (RejectedResume(b"\xff"), "REJECTED_RESUME: \ufffd"),
        (ClosedByPeer(), "the peer closed the connection: CONNECTION_ERROR"),
        (ClosedByPeer("bye", code=0x102), "the peer closed the connection: CONNECTION_CLOSE: bye"),
        (RemoteProtocolError("nonsense"), "nonsense"),
    ],
)
def test_the_text_of_an_error(error, text):
    """The text has the name of the code, and the reason."""
    assert str(error) == text


def test_a_peer_cannot_make_the_text_long():
    """Of sixteen megabytes the text shows a kilobyte; the message has all."""
    error = ClosedByPeer(b"x" * 16_000_000)
    assert str(error).endswith("xxx... (16000000 bytes)")
    assert repr(error).endswith("xxx'... (16000000 bytes), code=257)")
    assert max(len(str(error)), len(repr(error))) < 1200
    assert len(error.message) == 16_000_000
    assert repr(Rejected("no")) == "Rejected(b'no', code=514)"
    assert str(Rejected("x" * 1000)) == "REJECTED: " + "x" * 1000


def test_names_of_codes():
    """The specification's names, or the number."""
    assert [code_name(code) for code in ErrorCode] == list(ErrorCode.__members__)
    assert code_name(0xABC) == "0x00000abc"


def test_fields_of_protocol_errors():
    """They tell the text for the peer, and which stream ends."""
    error = MalformedFrame("short", stream_id=3, ignorable=True)
    assert (error.code, error.stream_id, error.ignorable) == (0x101, 3, True)
    assert ClosedByPeer(b"\xff").message == "\ufffd"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("gone"),
        ClosedByPeer("bye", code=0x102),
        ConnectionClosed("over"),
        InvalidSetup("no"),
        SetupError("no", code=0x301),
        stream_error(0x301, b"x", 3),
        MalformedFrame("short", stream_id=3, ignorable=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_of_an_error(error):
    """A copy is another object with the same fields, text and cause."""
    error.__cause__ = OSError("cable")
    twin = fresh_copy(error)
    assert twin is not error
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
    assert twin.__cause__ is error.__cause__
    assert copy.copy(error).__cause__ is None  # the purpose of the copy


def test_a_single_exception_in_groups():
    """It is found at any depth; of two exceptions there is no single one, and the group stays."""
    one = Invalid("a")
    assert single_error(one) is one
    assert single_error(ExceptionGroup("", [ExceptionGroup("", [one])])) is one
    two = ExceptionGroup("", [ExceptionGroup("", [one, ValueError()])])
    assert single_error(two) is two
    urgent = KeyboardInterrupt()
    assert single_error(BaseExceptionGroup("", [urgent])) is urgent


@pytest.mark.parametrize("kind", [ApplicationError, RejectedSetup, ClosedByPeer, RejectedResume])
def test_the_data_of_an_error_are_text_or_bytes(kind):
    """A number is refused: `bytes` would make zeros of it."""
    assert kind(bytearray(b"x")).data == b"x"
    with pytest.raises(TypeError):
        kind(404)


def test_a_code_must_fit_a_frame():
    """An error that no frame can carry is refused where it is made."""
    with pytest.raises(TypeError, match="not str"):
        CustomError("text", code="0x301")
