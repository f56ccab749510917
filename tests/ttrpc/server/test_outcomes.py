"""What an exception of a handler becomes on the wire, and in the log."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ApplicationError, ConnectionLost, Invalid, Rejected
from rsocket_trio.ttrpc import (
    AnyMessage,
    CallError,
    Method,
    MethodKind,
    NotFound,
    Service,
    StatusCode,
)
from tests.ttrpc.scenes import SERVICE, one, opening, request, stranger_to

SECRET = "the password is hunter2"
PARTS = [AnyMessage("type.example/Reason", b"\x08\x01")]

TABLE = [
    (NotFound("no thing", details=PARTS), 5, "no thing"),
    (CallError("weird", code=99), 99, "weird"),
    (CallError("weird", code=-1), -1, "weird"),
    (FileExistsError(17, SECRET), StatusCode.ALREADY_EXISTS, "already exists"),
    (FileNotFoundError(2, SECRET), StatusCode.NOT_FOUND, "not found"),
    (PermissionError(13, SECRET), StatusCode.PERMISSION_DENIED, "permission denied"),
    (trio.TooSlowError(SECRET), StatusCode.DEADLINE_EXCEEDED, "the handler was too slow"),
    (TimeoutError(SECRET), StatusCode.DEADLINE_EXCEEDED, "the handler was too slow"),
    (NotImplementedError(SECRET), StatusCode.UNIMPLEMENTED, "not implemented"),
    (EOFError(SECRET), StatusCode.OUT_OF_RANGE, "end of file"),
    (ValueError(SECRET), StatusCode.UNKNOWN, "the handler failed"),
    (KeyError(SECRET), StatusCode.UNKNOWN, "the handler failed"),
    (ConnectionLost(SECRET), StatusCode.UNKNOWN, "the handler failed"),
    (BaseException(SECRET), StatusCode.UNKNOWN, "the handler failed"),
    (Rejected(b"not you"), StatusCode.PERMISSION_DENIED, "not you"),
    (Invalid(b"not so"), StatusCode.INVALID_ARGUMENT, "not so"),
    (ApplicationError(b"as said \xff"), StatusCode.UNKNOWN, "as said \ufffd"),
    (ExceptionGroup("g", [NotFound("in a group")]), StatusCode.NOT_FOUND, "in a group"),
    (
        ExceptionGroup("g", [NotFound("one"), ValueError(SECRET)]),
        StatusCode.UNKNOWN,
        "the handler failed",
    ),
]


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("kind", MethodKind)
@pytest.mark.parametrize(("error", "code", "text"), TABLE, ids=lambda each: type(each).__name__)
async def test_an_error_of_a_handler(error, code, text, kind, wait, caplog):
    """As the Go implementation maps the same errors; texts of internal ones stay here."""

    async def fails(_request):
        if wait:
            await trio.lowlevel.checkpoint()
        raise error

    async def stream(request):
        await fails(request)
        yield b""

    service = one(kind, stream if kind.receives_stream else fails)
    async with stranger_to(service) as stranger:
        await stranger.send(opening(1, "Echo") if kind.sends_stream else request(1))
        frame = await stranger.frame()
        assert frame.is_last
        assert (frame.code, frame.status.message) == (code, text)
        assert SECRET.encode() not in frame.body
        assert frame.status.details == (
            tuple(PARTS) if isinstance(error, NotFound) and text == "no thing" else ()
        )
        assert await stranger.drain() == []
    assert "please report" not in caplog.text


async def test_what_the_log_says(caplog):
    """An unexpected error with its traceback; an error for the peer not at all."""

    async def fails(request):
        raise ValueError(SECRET) if request == b"value" else NotFound("no")

    async with stranger_to(one(MethodKind.UNARY, fails)) as stranger:
        await stranger.send(request(1, payload=b"no"))
        await stranger.frame()
        assert caplog.records == []
        await stranger.send(request(3, payload=b"value"))
        await stranger.frame()
        (record,) = caplog.records
        assert record.getMessage() == "/test.Things/Echo: the handler failed"
        assert SECRET in caplog.text


async def test_one_error_raised_again_and_again():
    """Its traceback does not grow."""
    shared = NotFound("no")

    async def fails(_request):
        raise shared

    async with stranger_to(one(MethodKind.UNARY, fails)) as stranger:
        for stream_id in range(1, 200, 2):
            await stranger.send(request(stream_id))
            await stranger.frame()
    depth, traceback = 0, shared.__traceback__
    while traceback is not None:
        depth, traceback = depth + 1, traceback.tb_next
    assert depth < 5


async def test_an_error_whose_own_methods_fail(caplog):
    class Broken(CallError):
        @property
        def status(self):
            raise RuntimeError("broken too")

    async def fails(_request):
        raise Broken("x")

    async with stranger_to(one(MethodKind.UNARY, fails)) as stranger:
        await stranger.send(request(1))
        frame = await stranger.frame()
        assert (frame.code, frame.status.message) == (2, "the handler failed")
    assert "cannot be sent" in caplog.text


async def test_a_cause_is_for_the_log_only(caplog):
    caplog.set_level("INFO", "rsocket_trio")

    async def fails(_request):
        raise NotFound("no thing") from ValueError(SECRET)

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo"), fails)
    async with stranger_to(service) as stranger:
        await stranger.send(request(1))
        frame = await stranger.frame()
        assert SECRET.encode() not in frame.body
    assert SECRET in caplog.text
