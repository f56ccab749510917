"""Payloads that are sent while they are made, and how that ends."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial

import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    ConnectionClosed,
    ConnectionConfig,
    Limits,
    LocalProtocolError,
    Metadata,
    Payload,
    Rejected,
    Responder,
    Router,
    StreamedPayload,
    connect,
    serve_transport,
)
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client, frame_peer_server
from rsocket_trio.transports import TransportWrapper, memory_transport_pair

SMALL = ConnectionConfig(fragment_size=128)
CHUNKS = [b"a" * 100, b"", b"b" * 1000, bytearray(b"c"), memoryview(b"d")]
WHOLE = b"".join(CHUNKS)


class Source:
    """Chunks, and whether the source was closed in the task that iterated over them."""

    def __init__(self, chunks=CHUNKS, then=None):
        self.chunks = chunks
        self.then = then
        self.closed = trio.Event()
        self.waiting = trio.Event()

    async def __aiter__(self):
        task = trio.lowlevel.current_task()
        try:
            for chunk in self.chunks:
                yield chunk
            self.waiting.set()
            if self.then is not None:
                await self.then()
        finally:
            assert trio.lowlevel.current_task() is task
            self.closed.set()


async def fail():
    raise KeyError("the source failed")


class Echo(Responder):
    """Sends every payload back, in chunks."""

    async def request_response(self, payload):
        self.got = payload
        return StreamedPayload(Source([payload.data]), payload.metadata)

    async def fire_and_forget(self, payload):
        self.got = payload

    async def request_stream(self, payload):
        for _ in range(3):
            yield StreamedPayload(Source([payload.data]), payload.metadata)
        yield Payload(b"end")

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield StreamedPayload(Source([item.data]), item.metadata)


@pytest.mark.parametrize("metadata", [None, b"", b"m" * 500])
@pytest.mark.parametrize("config", [SMALL, ConnectionConfig()])
async def test_every_interaction_takes_a_payload_in_chunks(config, metadata):
    """A payload in chunks may stand wherever a payload may, on both sides."""
    echo = Echo()
    whole = Payload(WHOLE, metadata)

    def made():
        return StreamedPayload(Source(), metadata)

    async with connected_pair(echo, config=config) as requester:
        assert await requester.request_response(made()) == whole
        async with requester.request_stream(made()) as items:
            assert [item async for item in items] == [whole] * 3 + [Payload(b"end")]
        async with requester.request_channel([made(), Payload(b"x"), made()]) as items:
            assert [item async for item in items] == [whole, Payload(b"x"), whole]
        async with requester.request_channel([Payload(b"x")], payload=made()) as items:
            assert [item async for item in items] == [whole, Payload(b"x")]
        await requester.fire_and_forget(made())
        await requester.request_response()
        assert requester.statistics().open_streams == 0


async def test_metadata_are_added():
    """A route and more metadata go before the payload's own metadata."""
    echo = Echo()
    async with connected_pair(echo) as requester:
        payload = StreamedPayload(Source([b"x"]), b"\xe3\0\0\0")
        await requester.request_response(payload, route="r")
    assert echo.got == Payload(b"x", Metadata(route="r", extra=[(99, b"")]).encode())


async def test_handlers_of_a_router_may_send_in_chunks():
    """Handlers of a router may return and yield payloads in chunks."""
    router = Router()

    @router.request_response("one")
    async def one() -> StreamedPayload:
        return StreamedPayload(Source())

    @router.request_stream("many")
    async def many() -> AsyncIterator[StreamedPayload | bytes]:
        yield StreamedPayload(Source())
        yield b"end"

    async with connected_pair(router) as requester:
        assert (await requester.request_response(route="one")).data == WHOLE
        async with requester.request_stream(route="many") as items:
            assert await items.receive() == Payload(WHOLE)


async def test_fragments_leave_while_chunks_come():
    """A chunk is sent as soon as it comes; it does not wait for the end."""
    more = trio.Event()
    source = Source([b"x" * 100], then=more.wait)
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requester.request_response, StreamedPayload(source))
            first = await peer.receive(RequestResponseFrame)
            assert (first.follows, first.data) == (True, b"x" * 100)
            more.set()
            last = await peer.receive(PayloadFrame)
            assert (last.follows, last.next, last.complete, last.data) == (False, True, False, b"")
            await peer.send(PayloadFrame(first.stream_id, next=True, complete=True))


@pytest.mark.parametrize("answer", ["error", "payload"])
async def test_an_answer_to_an_unfinished_request_ends_its_source(answer):
    """The source is cancelled and closed."""
    source = Source([b"x" * 100], then=trio.sleep_forever)
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def ask():
                if answer == "error":
                    with pytest.raises(Rejected, match="too long"):
                        await requester.request_response(StreamedPayload(source))
                else:
                    answered = await requester.request_response(StreamedPayload(source))
                    assert answered == Payload(b"ok")

            nursery.start_soon(ask)
            first = await peer.receive(RequestResponseFrame)
            if answer == "error":
                await peer.send(ErrorFrame(first.stream_id, 0x202, b"too long"))
            else:
                frame = PayloadFrame(first.stream_id, next=True, complete=True, data=b"ok")
                await peer.send(frame)
        assert source.closed.is_set()
        assert requester.statistics().open_streams == 0


@pytest.mark.parametrize("chunks", [[b"x" * 100], [b"few"], []], ids=["sent", "unsent", "none"])
@pytest.mark.parametrize("interaction", ["request_response", "fire_and_forget"])
async def test_the_end_of_the_connection_ends_a_waiting_source(interaction, chunks):
    """A source that waits does not keep its caller waiting, even if no frame has left yet."""
    source = Source(chunks, then=trio.sleep_forever)
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def ask():
                with pytest.raises(ConnectionClosed):
                    await getattr(requester, interaction)(StreamedPayload(source))

            nursery.start_soon(ask)
            await source.waiting.wait()
            await peer.send(ErrorFrame(0, 0x101, b"over"))
        assert source.closed.is_set()


@pytest.mark.parametrize(
    ("interaction", "frame"),
    [("request_response", RequestResponseFrame), ("fire_and_forget", RequestFnfFrame)],
)
async def test_the_error_of_a_source_is_the_callers(interaction, frame):
    """The peer gets CANCEL, or no frame if none has left before."""
    async with frame_peer_server() as (peer, requester):
        ask = getattr(requester, interaction)
        with pytest.raises(KeyError, match="the source failed"):
            await ask(StreamedPayload(Source([b"few"], then=fail)))
        with pytest.raises(KeyError, match="the source failed"):
            await ask(StreamedPayload(Source([b"x" * 100], then=fail)))
        first = await peer.receive(frame)
        assert first.data == b"x" * 100
        assert await peer.receive(CancelFrame) == CancelFrame(first.stream_id)
        assert requester.statistics().open_streams == 0


async def test_a_cancelled_caller_closes_the_source():
    """CANCEL is sent, and the source is closed."""
    source = Source([b"x" * 100], then=trio.sleep_forever)
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requester.request_response, StreamedPayload(source))
            first = await peer.receive(RequestResponseFrame)
            nursery.cancel_scope.cancel()
        assert await peer.receive(CancelFrame) == CancelFrame(first.stream_id)
        assert source.closed.is_set()


async def test_a_response_that_fails_ends_with_an_error(caplog):
    """The stream ends with an ERROR behind the fragments that have left."""

    class Failing(Responder):
        async def request_response(self, payload):
            return StreamedPayload(Source([b"x" * 100], then=fail))

    async with frame_peer_client(Failing()) as peer:
        await peer.send(RequestResponseFrame(1))
        fragment = await peer.receive(PayloadFrame)
        assert (fragment.follows, fragment.complete) == (True, False)
        assert (await peer.receive(ErrorFrame)).data == b"the handler failed"
    assert "the source failed" in caplog.text


async def test_cancel_cancels_the_source_of_a_response():
    """The requester's CANCEL is a cancellation in the source."""
    source = Source([b"x" * 100], then=trio.sleep_forever)

    class Endless(Responder):
        async def request_response(self, payload):
            return StreamedPayload(source)

    async with frame_peer_client(Endless()) as peer:
        await peer.send(RequestResponseFrame(1))
        await peer.receive(PayloadFrame)
        await peer.send(CancelFrame(1))
        await source.closed.wait()


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (StreamedPayload(Source(["text"])), "a chunk must be bytes, not str"),
        (StreamedPayload([b"x"]), "an async iterable of bytes, not list"),
        (StreamedPayload(Source(), "text"), "metadata must be bytes or None, not str"),
    ],
)
async def test_a_wrong_type_of_body_is_refused(payload, text):
    """The error names the wrong type, and no frame is sent."""
    async with connected_pair(Echo()) as requester:
        with pytest.raises(TypeError, match=text):
            await requester.request_response(payload)
        assert requester.statistics().open_streams == 0


async def test_a_closing_connection_opens_no_stream_for_a_late_chunk():
    """A source whose first chunk comes too late opens no stream."""

    async def close():
        server.requester._connection.close_gracefully()
        requester._connection.lifecycle.drain(LocalProtocolError("too late"))

    class Server(Responder):
        async def accept(self, setup, requester):
            self.requester = requester
            return self

    server = Server()
    async with connected_pair(server) as requester:
        source = Source([b"few"], then=close)
        with pytest.raises((LocalProtocolError, ConnectionClosed)):
            await requester.request_response(StreamedPayload(source))


async def test_errors_of_the_peer_are_the_callers():
    """An error of the responder reaches the caller of a request in chunks too."""

    class Refusing(Responder):
        async def request_response(self, payload):
            raise ApplicationError("no")

    async with connected_pair(Refusing()) as requester:
        with pytest.raises(ApplicationError, match="no"):
            await requester.request_response(StreamedPayload(Source()))


async def test_a_stream_refused_after_the_first_chunk_is_not_opened():
    """If the stream may not be opened any more once the first chunks are here, it stays closed."""

    async def refuse():
        requester._connection.admission.refuse(LocalProtocolError("too late"))

    async with connected_pair(Echo()) as requester:
        source = Source([b"few"], then=refuse)
        with pytest.raises(LocalProtocolError, match="too late"):
            await requester.request_response(StreamedPayload(source))
        assert source.closed.is_set()
        statistics = requester.statistics()
        assert (statistics.open_streams, statistics.queued_size) == (0, 0)


async def test_chunks_of_a_shielded_source_after_the_answer_are_dropped():
    """A source that cannot be cancelled may give chunks after the answer; they are not sent."""

    async def chunks():
        yield b"x" * 100
        with trio.CancelScope(shield=True):
            await answered.wait()
        yield b"y" * 100
        yield b"z" * 100

    answered = trio.Event()
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(PayloadFrame(1, next=True, complete=True, data=b"ok"))
                await peer.expect_alive()
                answered.set()

            nursery.start_soon(serve)
            answer = await requester.request_response(StreamedPayload(chunks()))
            assert answer == Payload(b"ok")
        await peer.expect_nothing()
        assert requester.statistics().queued_size == 0


@pytest.mark.parametrize("whole", [True, False])
async def test_an_item_in_chunks_before_an_item_that_is_replaced(whole):
    """A handler may send another item in place of a wrong one, unless a part of that has left."""

    class Replaces(Responder):
        async def request_stream(self, payload):
            try:
                yield StreamedPayload(chunks())
                yield "wrong"
            except TypeError:
                yield Payload(b"instead")

    async def chunks():
        yield bytes(100)
        yield bytes(100) if whole else "wrong"

    items = []
    config = ConnectionConfig(fragment_size=64)
    async with connected_pair(Replaces(), config=config) as requester:
        with nullcontext() if whole else pytest.raises(ApplicationError):
            async with requester.request_stream() as stream:
                async for item in stream:
                    items.append(item.data)
    assert items == ([bytes(200), b"instead"] if whole else [])


@pytest.mark.parametrize("role", ["requester", "handler"])
@pytest.mark.parametrize("kept", ["in time", "too long, and ends", "too long, and goes on"])
async def test_a_timeout_around_a_yield(role, kept, autojump_clock):
    """It works as in a source of items; but data with a hole are never sent as a whole payload."""
    sizes = []

    async def chunks():
        with trio.move_on_after(5 if kept == "in time" else 1) as scope:
            yield b"a" * 100
            yield b"b" * 100_000
        sizes.append(scope.cancelled_caught)
        if kept != "too long, and ends":
            yield b"c"

    class Served(Responder):
        async def request_response(self, payload):
            return payload if payload.data else StreamedPayload(chunks())

    there, here = memory_transport_pair(max_bytes=1000)
    slow = SlowReading(here) if role == "requester" else here
    config = ConnectionConfig(fragment_size=1000, limits=Limits(max_outbox_size=2000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_transport, Served(), slow, config=config))
        far = there if role == "requester" else SlowReading(there)
        async with connect(far, config=config) as client:
            sent = StreamedPayload(chunks()) if role == "requester" else Payload()
            if kept == "too long, and goes on":
                with pytest.raises(RuntimeError if role == "requester" else ApplicationError):
                    await client.request_response(sent)
            else:
                data = (await client.request_response(sent)).data
                assert data == b"a" * 100 + b"b" * 100_000 + b"c" * (kept == "in time")
            assert await client.request_response(Payload(b"x")) is not None
        nursery.cancel_scope.cancel()
    assert sizes == [kept != "in time"]


class SlowReading(TransportWrapper):
    """Stops to read once, for three seconds, when a large frame has come."""

    paused = False

    async def receive_frames(self):
        frames = await super().receive_frames()
        if len(frames[0]) > 500 and not self.paused:
            self.paused = True
            await trio.sleep(3)
        return frames
