"""Functions that dial: the errors they raise, at the first call and at later ones."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
import trio_websocket

from rsocket_trio import (
    ClientResume,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    NotConnected,
    Payload,
    Reconnect,
    Responder,
    ServerResume,
    connect,
)
from rsocket_trio.connection.dialling import wait_to_dial
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
    """Answers, so that the client has a session to lose."""

    async def request_response(self, payload):
        return payload


def kinds(errors):
    return [type(error).__name__ for error in errors]


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
@pytest.mark.parametrize("resume", [None, ClientResume()])
async def test_a_first_dial_that_fails(error, resume):
    """`connect` raises one type, bare, with the dialler's error as its cause."""

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


async def test_a_refused_tcp_connection():
    """`trio.open_tcp_stream` raises an `OSError`, bare or in a group, if no server listens."""
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
async def test_a_bug_in_a_first_dial(error):
    """An error that is not about connections arrives unchanged."""

    @asynccontextmanager
    async def dial():
        raise error
        yield

    with pytest.raises(type(error), match="a fault") as caught:
        async with connect(dial):
            raise AssertionError("entered")
    assert caught.value is error


async def test_a_wrong_kind_of_dialler_is_refused():
    """For a coroutine function the error says what is needed, and there is no other warning."""

    async def dial():
        raise AssertionError("called")

    with pytest.raises(TypeError, match=r"asynchronous context manager .* not coroutine"):
        async with connect(dial):
            raise AssertionError("entered")
    with pytest.raises(TypeError, match="not str"):
        async with connect(lambda: "tcp://127.0.0.1:1"):
            raise AssertionError("entered")


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
async def test_a_dial_that_fails_while_resuming(error, autojump_clock):
    """Each is an attempt that failed; the session goes on once a server answers."""
    async with network(Echo()) as net:
        async with connect(net.dial, resume=ClientResume(session_lifetime=60)) as requester:
            assert await requester.request_response(Payload(b"one")) == Payload(b"one")
            net.down = error
            await net.cut()
            await trio.sleep(20)
            net.down = None
            assert await requester.request_response(Payload(b"two")) == Payload(b"two")
            assert net.dialled == 2


@pytest.mark.parametrize("error", NOBODY_THERE, ids=kinds(NOBODY_THERE))
async def test_a_dial_that_fails_for_a_fresh_session(error, autojump_clock):
    """Each is an attempt that failed if the server does not resume."""
    options = ServerResume(session_lifetime=1)
    async with network(Echo(), options) as net:
        resume = ClientResume(session_lifetime=60)
        async with connect(net.dial, resume=resume, reconnect=Reconnect()) as requester:
            net.down = error
            await net.cut()
            await trio.sleep(20)  # The server has forgotten the session.
            net.down = None
            await trio.sleep(12)
            assert await requester.request_response(Payload(b"two")) == Payload(b"two")


@pytest.mark.parametrize("reconnect", [None, Reconnect()])
async def test_a_bug_in_a_dial_while_resuming(reconnect, autojump_clock, caplog):
    """It ends the session, with the error as the cause: there is no retry."""
    async with network(Echo()) as net:
        async with connect(net.dial, resume=ClientResume(), reconnect=reconnect) as requester:
            net.down = KeyError("a fault of the dialler's")
            await net.cut()
            await trio.sleep(30)
            with pytest.raises(ConnectionClosed, match="the dialler failed") as caught:
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


async def test_a_fault_at_the_end_of_a_resumptions_attempt(autojump_clock, caplog):
    """A nursery gives it in one group with the cancellation; it ends the session alone."""

    async def clean_up():
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("a fault of the dialler's")

    async with network(Echo()) as net:

        @asynccontextmanager
        async def dial():
            if net.down is not None:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(clean_up)
                    nursery.start_soon(trio.sleep_forever)
            async with net.dial() as transport:
                yield transport

        async with connect(dial, resume=ClientResume()) as requester:
            net.down = ConnectFailed("down")
            await net.cut()
            with pytest.raises(ConnectionClosed, match="a fault of the dialler's"):
                await requester.request_response(Payload(b"two"))
    assert caplog.text.count("the dialler failed, so") == 1


async def test_a_bug_in_a_dial_for_a_fresh_session(autojump_clock, caplog):
    """There is no fresh session then; the requester is closed and the block goes on."""
    options = ServerResume(session_lifetime=1)
    async with network(Echo(), options) as net:
        dial = net.dial
        calls = []

        def failing():
            calls.append(1)
            if len(calls) < 3:
                return dial()
            raise KeyError("a fault of the dialler's")

        resume = ClientResume(session_lifetime=60)
        async with connect(failing, resume=resume, reconnect=Reconnect()) as requester:
            net.down = OSError("down")
            calls.clear()
            await net.cut()
            await trio.sleep(0.05)
            await trio.sleep(20)
            assert "a fault of the dialler's" in caplog.text
            with pytest.raises(NotConnected, match="none will follow"):
                await requester.request_response(Payload(b"two"))
    assert len(calls) == 3


@pytest.mark.parametrize(
    "error", [OSError("close"), trio.BrokenResourceError(), trio.ClosedResourceError()]
)
async def test_a_dialler_whose_close_fails(error, nursery, autojump_clock):
    """A dialler may fail to close a broken connection: the connection is over all the same."""
    async with network(Echo()) as net:

        @asynccontextmanager
        async def dial():
            async with net.dial() as transport:
                yield transport
            raise error

        async with connect(dial, resume=ClientResume()) as requester:
            for data in (b"one", b"two", b"three"):
                assert await requester.request_response(Payload(data)) == Payload(data)
                await net.cut()
        async with connect(dial) as requester:
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")


@pytest.mark.parametrize("how", ["hangs", "raises"])
async def test_a_dialler_whose_close_fails_while_resuming(how, autojump_clock, caplog):
    """The session goes on in time, over many connections; a bug in the dialler is logged."""
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

        async with connect(dial, resume=ClientResume(session_lifetime=60)) as requester:
            for number in range(4):
                data = b"%d" % number
                start = trio.current_time()
                assert await requester.request_response(Payload(data)) == Payload(data)
                assert trio.current_time() - start < 10
                await net.cut()
    assert ("a fault of the dialler's" in caplog.text) is (how == "raises")
    assert "please report" not in caplog.text


async def test_a_dialler_whose_close_fails_before_a_fresh_session(autojump_clock, caplog):
    """One session follows another in time; a bug in the dialler is logged."""
    options = ServerResume(session_lifetime=0.001)
    async with network(Echo(), options) as net:

        @asynccontextmanager
        async def dial():
            async with net.dial() as transport:
                try:
                    yield transport
                finally:
                    if net.dialled > 1:
                        await trio.sleep(100_000)

        resume = ClientResume(session_lifetime=60)
        async with connect(dial, resume=resume, reconnect=Reconnect()) as requester:
            for number in range(4):
                data = b"%d" % number
                await trio.sleep(15)
                assert await requester.request_response(Payload(data)) == Payload(data)
                await net.cut()
    assert "please report" not in caplog.text


async def test_errors_of_the_block_go_through_a_dialler():
    """The dialler's context manager sees the error of the block and does not keep it."""
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


async def test_a_dialler_that_opens_an_address(nursery):
    """A function that calls `open_transport` does the same as a plain address."""

    @asynccontextmanager
    async def dial():
        async with open_transport("tcp://127.0.0.1:1") as transport:
            yield transport

    with pytest.raises(ConnectFailed, match=r"cannot connect to tcp://127\.0\.0\.1:1:"):
        async with connect(dial):
            raise AssertionError("entered")


async def test_the_time_of_an_attempt(autojump_clock):
    """An attempt may take its own time, until the end at most; at the end there is none."""
    begin = trio.current_time()
    assert await wait_to_dial(1, begin + 10, 3) == begin + 4
    assert await wait_to_dial(7, begin + 10, 3) == begin + 10
    assert await wait_to_dial(7, begin + 10, 3) is None
    assert trio.current_time() == begin + 10
