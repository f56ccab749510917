"""Functions that dial: what they raise, and what becomes of it at each time they are called."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
import trio_websocket

from rsocket_trio import (
    ConnectFailed,
    ConnectionLost,
    Payload,
    Responder,
    Resume,
    ResumeOptions,
    connect,
)
from rsocket_trio.transports import ByteStreamTransport, TransportInfo, open_transport
from tests.connection.resume_network import network

NOBODY_THERE = [
    OSError("no route"),
    ConnectionRefusedError(111, "Connection refused"),
    trio.BrokenResourceError("broken"),
    trio.ClosedResourceError("closed"),
    trio.TooSlowError(),
    trio_websocket.ConnectionTimeout(),
    ExceptionGroup("", [ExceptionGroup("", [OSError("in a nursery")])]),
    ExceptionGroup("", [OSError("one address"), trio.TooSlowError("the other")]),
    ConnectFailed("said so"),
    ExceptionGroup("", [ConnectFailed("said so in a nursery")]),
]


class Echo(Responder):
    """Answers, so that there is something to lose."""

    async def request_response(self, payload):
        return payload


def kinds(errors):
    return [type(error).__name__ for error in errors]


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
@pytest.mark.parametrize("resume", [None, Resume()])
async def test_nobody_there_at_first(error, resume):
    """`connect` raises one type, bare, with what the dialler raised as its cause."""

    @asynccontextmanager
    async def dial():
        raise error
        yield

    with pytest.raises(ConnectFailed) as caught:
        async with connect(dial, resume=resume):
            raise AssertionError("entered")
    if "ConnectFailed" in repr(error):
        assert str(caught.value).startswith("said so")
    else:
        assert str(caught.value).startswith("cannot connect: ")
        assert isinstance(caught.value.__cause__, Exception)


async def test_the_usual_dialler():
    """What `trio.open_tcp_stream` raises where nobody listens, as it comes."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()

    @asynccontextmanager
    async def dial():
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            yield ByteStreamTransport(stream, info=TransportInfo(scheme="tcp"))

    with pytest.raises(ConnectFailed, match="cannot connect: Connection refused"):
        async with connect(dial):
            raise AssertionError("entered")


@pytest.mark.parametrize("error", [ValueError("a fault"), KeyError("a fault")])
async def test_a_fault_at_first(error):
    """What is no matter of connections arrives as it is."""

    @asynccontextmanager
    async def dial():
        raise error
        yield

    with pytest.raises(type(error), match="a fault") as caught:
        async with connect(dial):
            raise AssertionError("entered")
    assert caught.value is error


async def test_what_is_no_dialler():
    """A coroutine function, say: the error says what is needed, and nothing else complains."""

    async def dial():
        raise AssertionError("called")

    with pytest.raises(TypeError, match=r"asynchronous context manager .* not coroutine"):
        async with connect(dial):
            raise AssertionError("entered")
    with pytest.raises(TypeError, match="not str"):
        async with connect(lambda: "tcp://127.0.0.1:1"):
            raise AssertionError("entered")


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
async def test_nobody_there_while_resuming(error, autojump_clock):
    """Each is an attempt that failed; the session goes on once there is somebody."""
    async with network(Echo()) as net:
        async with connect(net.dial, resume=Resume(session_lifetime=60)) as requester:
            assert await requester.request_response(Payload(b"one")) == Payload(b"one")
            net.down = error
            await net.cut()
            await trio.sleep(20)
            net.down = None
            assert await requester.request_response(Payload(b"two")) == Payload(b"two")
            assert net.dialled == 2


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
async def test_nobody_there_for_a_fresh_session(error, autojump_clock):
    """Likewise where the server does not resume."""
    options = ResumeOptions(session_lifetime=1)
    async with network(Echo(), options) as net:
        resume = Resume(session_lifetime=60, fresh_session=True)
        async with connect(net.dial, resume=resume) as requester:
            net.down = error
            await net.cut()
            await trio.sleep(20)  # The server has forgotten the session.
            net.down = None
            await trio.sleep(12)
            assert await requester.request_response(Payload(b"two")) == Payload(b"two")


@pytest.mark.parametrize("fresh_session", [False, True])
async def test_a_fault_while_resuming(fresh_session, autojump_clock, caplog):
    """It ends the session, with the fault as the cause: no retry, and no fault of this package."""
    async with network(Echo()) as net:
        resume = Resume(fresh_session=fresh_session)
        async with connect(net.dial, resume=resume) as requester:
            net.down = KeyError("a fault of the dialler's")
            await net.cut()
            await trio.sleep(30)
            with pytest.raises(ConnectionLost, match="the dialler failed") as caught:
                await requester.request_response(Payload(b"two"))
            assert requester.closed
    causes = []
    cause = caught.value
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    assert any(isinstance(each, KeyError) for each in causes)
    assert caplog.text.count("a fault of the dialler's") == 1
    assert "please report" not in caplog.text


async def test_a_fault_for_a_fresh_session(autojump_clock, caplog):
    """There is no fresh session then; the requester is closed and the block goes on."""
    options = ResumeOptions(session_lifetime=1)
    async with network(Echo(), options) as net:
        dial = net.dial
        calls = []

        def failing():
            calls.append(1)
            if len(calls) < 3:
                return dial()
            raise KeyError("a fault of the dialler's")

        resume = Resume(session_lifetime=60, fresh_session=True)
        async with connect(failing, resume=resume) as requester:
            net.down = OSError("down")
            calls.clear()
            await net.cut()
            await trio.sleep(0.05)
            await trio.sleep(20)
            assert "a fault of the dialler's" in caplog.text
            with pytest.raises(ConnectionLost):
                await requester.request_response(Payload(b"two"))
    assert len(calls) == 3


@pytest.mark.parametrize(
    "error", [OSError("close"), trio.BrokenResourceError(), trio.ClosedResourceError()]
)
async def test_closing_that_fails(error, nursery, autojump_clock):
    """A dialler may stumble over a connection that is broken already: it is over all the same."""
    async with network(Echo()) as net:

        @asynccontextmanager
        async def dial():
            async with net.dial() as transport:
                yield transport
            raise error

        async with connect(dial, resume=Resume()) as requester:
            for data in (b"one", b"two", b"three"):
                assert await requester.request_response(Payload(data)) == Payload(data)
                await net.cut()
        async with connect(dial) as requester:
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")


@pytest.mark.parametrize("how", ["hangs", "raises"])
async def test_a_dialler_that_closes_badly_while_resuming(how, autojump_clock, caplog):
    """The session goes on, in time, with connection after connection; a fault is in the log."""
    async with network(Echo()) as net:

        @asynccontextmanager
        async def dial():
            first = not net.dialled
            async with net.dial() as transport:
                try:
                    yield transport
                finally:
                    if how == "raises" and not first:
                        raise KeyError("a fault of the dialler's")
                    if not first:
                        await trio.sleep(100_000)

        async with connect(dial, resume=Resume(session_lifetime=60)) as requester:
            for number in range(4):
                data = b"%d" % number
                start = trio.current_time()
                assert await requester.request_response(Payload(data)) == Payload(data)
                assert trio.current_time() - start < 10
                await net.cut()
    assert ("a fault of the dialler's" in caplog.text) is (how == "raises")
    assert "please report" not in caplog.text


async def test_a_fresh_session_after_a_dialler_that_closes_badly(autojump_clock, caplog):
    """Likewise from one session to the next."""
    options = ResumeOptions(session_lifetime=0.001)
    async with network(Echo(), options) as net:

        @asynccontextmanager
        async def dial():
            async with net.dial() as transport:
                try:
                    yield transport
                finally:
                    if net.dialled > 1:
                        await trio.sleep(100_000)

        resume = Resume(session_lifetime=60, fresh_session=True)
        async with connect(dial, resume=resume) as requester:
            for number in range(4):
                data = b"%d" % number
                await trio.sleep(15)
                assert await requester.request_response(Payload(data)) == Payload(data)
                await net.cut()
    assert "please report" not in caplog.text


async def test_what_the_block_raises_goes_through_a_dialler():
    """The dialler's context manager sees it and does not keep it."""
    seen = []

    @asynccontextmanager
    async def dial():
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.aclose()
        try:
            yield ByteStreamTransport(ours, info=TransportInfo(scheme="memory"))
        except BaseException as error:
            seen.append(error)
            raise

    with pytest.raises(ConnectionLost):
        async with connect(dial):
            raise AssertionError("entered")
    assert len(seen) == 1


async def test_a_dialler_of_an_address(nursery):
    """`open_transport` in a function of one's own is what an address comes to."""

    @asynccontextmanager
    async def dial():
        async with open_transport("tcp://127.0.0.1:1") as transport:
            yield transport

    with pytest.raises(ConnectFailed, match=r"cannot connect to tcp://127\.0\.0\.1:1:"):
        async with connect(dial):
            raise AssertionError("entered")
