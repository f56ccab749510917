"""No task outlives its block, also if connections are cut at any byte, or handlers fail.

Modules of rsocket_trio.connection: connection.
"""

from __future__ import annotations

from contextlib import aclosing

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectFailed,
    ConnectionClosed,
    ConnectionConfig,
    ConnectionLost,
    Payload,
    Responder,
    SetupError,
    TransportInfo,
    connect,
    serve_transport,
)
from rsocket_trio.testing.faulty import FaultyStream
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports.byte_stream import ByteStreamTransport

DOCUMENTED = (ConnectionClosed, ConnectFailed, SetupError)


class Handlers(Responder):
    """Handlers of each kind; counts the running ones."""

    def __init__(self):
        self.alive = 0

    async def request_response(self, payload):
        self.alive += 1
        try:
            await trio.lowlevel.checkpoint()
            return payload
        finally:
            self.alive -= 1

    async def request_stream(self, payload):
        self.alive += 1
        try:
            for _ in range(3):
                yield payload
        finally:
            self.alive -= 1

    async def request_channel(self, _payload, payloads):
        self.alive += 1
        try:
            async for payload in payloads:
                yield payload
        finally:
            self.alive -= 1


async def exchange(requester):
    """Each interaction once, two of them at the same time as the others."""
    payload = Payload(b"data", b"meta")
    async with requester.request_stream(payload, prefetch=1) as items:
        async with requester.request_channel([payload] * 2, prefetch=1) as replies:
            assert await requester.request_response(payload) == payload
            await requester.fire_and_forget(payload)
            assert [item async for item in items] == [payload] * 3
            assert [reply async for reply in replies] == [payload] * 2


async def cut_connection(handlers, **cut):
    """Run the exchange over a stream that is cut; return its outcome, and the bytes that passed."""
    here, there = trio.testing.memory_stream_pair()
    faulty = FaultyStream(here, **cut)
    info = TransportInfo(scheme="test")
    config = ConnectionConfig(fragment_size=64)
    outcome = "complete"
    async with trio.open_nursery() as nursery:
        server = ByteStreamTransport(there, info=info)
        nursery.start_soon(serve_transport, handlers, server)
        try:
            async with connect(ByteStreamTransport(faulty, info=info), config=config) as requester:
                await exchange(requester)
                await requester.request_response()
        except DOCUMENTED as error:
            outcome = type(error).__name__
    return outcome, faulty.sent, faulty.received


@pytest.mark.parametrize("direction", ["cut_sent", "cut_received"])
async def test_cut_at_every_byte(direction, autojump_clock):
    """Wherever the connection is cut, both ends come to rest with the documented error."""
    handlers = Handlers()
    async with assert_no_leaks():
        outcome, sent, received = await cut_connection(handlers)
        assert outcome == "complete"
        bytes_passed = sent if direction == "cut_sent" else received
        assert bytes_passed > 150
        outcomes = []
        for place in range(bytes_passed):
            outcome, _, _ = await cut_connection(handlers, **{direction: place})
            outcomes.append(outcome)
            assert handlers.alive == 0, f"cut at byte {place}"
    assert set(outcomes[:-40]) == {"ConnectionLost"}


@pytest.mark.parametrize("direction", ["corrupt_sent", "corrupt_received"])
async def test_corrupted_at_every_byte(direction, autojump_clock):
    """Whichever byte is wrong, both ends come to rest, with a documented error or none."""
    handlers = Handlers()
    limit = 300
    async with assert_no_leaks():
        for place in range(0, limit, 3):
            try:
                with trio.move_on_after(300):
                    await cut_connection(handlers, **{direction: place})
            except* (AssertionError, ApplicationError):
                pass  # The exchange itself got wrong data.
            except* Exception as group:
                kinds = {type(error).__module__ for error in group.exceptions}
                assert kinds <= {"rsocket_trio.errors"}, f"corrupted at byte {place}"
            assert handlers.alive == 0, f"corrupted at byte {place}"


async def test_every_waiting_caller_gets_the_cause(caplog):
    """When the connection breaks, each caller gets its own error with the cause."""
    here, there = trio.testing.memory_stream_pair()
    errors = []

    class Waits(Responder):
        async def request_response(self, _payload):
            await trio.sleep_forever()

        async def request_stream(self, _payload):
            await trio.sleep_forever()
            yield

    async def ask(requester):
        try:
            await requester.request_response()
        except ConnectionLost as error:
            errors.append(error)

    async def read(requester):
        async with requester.request_stream() as items:
            try:
                await items.receive()
            except ConnectionLost as error:
                errors.append(error)

    info = TransportInfo(scheme="test")
    async with trio.open_nursery() as outer:
        outer.start_soon(serve_transport, Waits(), ByteStreamTransport(there, info=info))
        async with connect(ByteStreamTransport(here, info=info)) as requester:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, requester)
                nursery.start_soon(ask, requester)
                nursery.start_soon(read, requester)
                await trio.testing.wait_all_tasks_blocked()
                here.send_stream.close()
                here.receive_stream.close()
            with pytest.raises(ConnectionLost) as late:
                await requester.request_response()
            errors.append(late.value)
            with pytest.raises(ConnectionLost):
                await requester.fire_and_forget()
            with pytest.raises(ConnectionLost):
                await requester.metadata_push(b"")
            with pytest.raises(ConnectionLost):
                async with requester.request_stream():
                    pass
            async with requester.request_channel([Payload()]) as replies:
                with pytest.raises(ConnectionLost):
                    await replies.receive()
            assert requester.closed
    assert len({id(error) for error in errors}) == 4
    assert all(isinstance(error.__cause__, trio.ClosedResourceError) for error in errors)
    assert "please report" not in caplog.text


async def test_errors_of_the_body_come_out_unchanged():
    """An error of the block of connect is not grouped, and handlers have ended by then."""
    handlers = Handlers()
    with pytest.raises(LookupError, match="mine"):
        async with connected_pair(handlers) as client:
            await client.request_response()
            raise LookupError("mine")
    assert handlers.alive == 0


class Urgent(BaseException):
    """Like KeyboardInterrupt: it must not be swallowed."""


async def test_base_exceptions_come_out_unchanged():
    """A BaseException in the block ends everything and comes out."""
    here, there = trio.testing.memory_stream_pair()
    info = TransportInfo(scheme="test")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, Responder(), ByteStreamTransport(there, info=info))
        urgent = Urgent()
        with pytest.raises(Urgent) as caught:
            async with connect(ByteStreamTransport(here, info=info)) as requester:
                async with requester.request_channel([Payload()]):
                    raise urgent
        assert caught.value is urgent
        assert caught.value.__cause__ is None


async def test_an_outer_cancellation():
    """Cancelling around connect ends it without an error."""
    async with assert_no_leaks():
        with trio.CancelScope() as scope:
            async with connected_pair(Handlers()) as client:
                await client.request_response()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught


async def test_an_error_is_not_lost_to_a_cancellation(autojump_clock):
    """A block that fails, and whose close is cancelled by a deadline, raises its error."""
    here, there = trio.testing.memory_stream_pair()
    info = TransportInfo(scheme="test")
    async with trio.open_nursery() as nursery:

        async def stubborn_server():
            transport = ByteStreamTransport(there, info=info)
            await serve_transport(Responder(), transport)

        nursery.start_soon(stubborn_server)
        with pytest.raises(LookupError, match="mine"), trio.CancelScope() as scope:
            async with connect(ByteStreamTransport(here, info=info)):
                scope.cancel()
                raise LookupError("mine")


async def test_a_broken_handler_ends_one_stream():
    """Other streams beside a failing handler go on."""

    class Mixed(Handlers):
        async def request_response(self, payload):
            raise RuntimeError("crash")

    async with connected_pair(Mixed()) as client:
        async with client.request_stream(Payload(b"x"), prefetch=1) as items:
            await items.receive()
            with pytest.raises(ApplicationError):
                await client.request_response()
            assert len([item async for item in items]) == 2


@pytest.mark.parametrize("ends", ["cancel", "disconnect"])
async def test_a_handler_that_fails_while_it_is_cancelled(ends, caplog):
    """An error that its nursery adds to the cancellation is logged; nothing crashes."""

    class Stubborn(Responder):
        async def request_response(self, payload):
            if payload.data:
                return payload

            async def fails_at_the_end():
                try:
                    await trio.sleep_forever()
                finally:
                    raise ValueError("in the cleanup")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails_at_the_end)
                nursery.start_soon(trio.sleep_forever)
            return payload

    async with connected_pair(Responder(), client_responder=None) as _:
        pass
    async with connected_pair(Stubborn()) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.request_response)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        if ends == "cancel":
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                assert await client.request_response(Payload(b"x")) == Payload(b"x")
    assert "crashed" not in caplog.text
    assert "in the cleanup" in caplog.text


async def test_a_client_whose_handler_fails_while_the_connection_ends(caplog):
    """On a client, too, leaving the block is not an InternalError."""
    begun = trio.Event()

    class Stubborn(Responder):
        async def request_response(self, _payload):
            async def fails_at_the_end():
                try:
                    await trio.sleep_forever()
                finally:
                    raise ValueError("in the cleanup")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails_at_the_end)
                nursery.start_soon(trio.sleep_forever)
                begun.set()

    async def accept(_setup, requester):
        nursery.start_soon(ask, requester)
        return Responder()

    async def ask(requester):
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionClosed):
            await requester.request_response()

    async with trio.open_nursery() as nursery:
        async with connected_pair(accept, client_responder=Stubborn()):
            await begun.wait()
    assert "in the cleanup" in caplog.text


async def test_a_generator_is_finished_in_its_own_task():
    """A generator with a nursery around its yield is closed in its own task and scope."""
    log = []

    class Sections(Responder):
        async def request_stream(self, payload):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                try:
                    while True:
                        yield payload
                finally:
                    log.append("finally")
                    nursery.cancel_scope.cancel()

    async with connected_pair(Sections()) as client:
        async with client.request_stream(prefetch=2) as items, aclosing(items):
            await items.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["finally"]
        assert client.statistics().open_streams == 0
