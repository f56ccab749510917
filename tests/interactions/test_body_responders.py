"""Requests that handlers read while they arrive."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
from cbor2 import loads
from trio.abc import ReceiveChannel

from rsocket_trio import (
    BodyResponder,
    Caller,
    ConnectionConfig,
    Invalid,
    Lease,
    LeaseOptions,
    Limits,
    Metadata,
    Payload,
    PayloadBody,
    RemoteProtocolError,
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
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client
from rsocket_trio.transports.memory import memory_transport_pair

SMALL = ConnectionConfig(fragment_size=128)
ROUTE = Metadata(route="up").encode()


async def chunks(n=10):
    for _ in range(n):
        yield b"x" * 100


def make_router(log=None):
    router = Router()

    @router.request_response("up")
    async def up(body: PayloadBody, metadata: Metadata) -> int:
        assert metadata.route == "up"
        assert body.metadata is not None
        return sum([len(chunk) async for chunk in body])

    @router.request_response("back")
    async def back(body: PayloadBody) -> StreamedPayload:
        return StreamedPayload(body)

    @router.request_stream("up")
    async def each(body: PayloadBody) -> AsyncIterator[int]:
        async for chunk in body:
            yield len(chunk)

    @router.fire_and_forget("up")
    async def take(body: PayloadBody) -> None:
        log.append(sum([len(chunk) async for chunk in body]))

    @router.request_response("early")
    async def early(body: PayloadBody) -> bytes:
        return await body.receive()

    @router.request_response("whole")
    async def whole(data: bytes) -> bytes:
        return data

    return router


@pytest.mark.parametrize("size", [1000, 1, 0])
@pytest.mark.parametrize("streamed", [True, False])
async def test_every_interaction_may_be_read_in_chunks(size, streamed):
    """Handlers with a body parameter read chunks; an unfragmented request is one chunk at most."""
    log = []

    def request():
        data = b"x" * size
        return StreamedPayload(chunks(10)) if streamed and size == 1000 else Payload(data)

    async with connected_pair(make_router(log), config=SMALL) as requester:
        answer = await requester.request_response(request(), route="up")
        assert loads(answer.data) == size
        async with requester.request_stream(request(), route="up") as sizes:
            assert sum([loads(item.data) async for item in sizes]) == size
        await requester.fire_and_forget(request(), route="up")
        answer = await requester.request_response(request(), route="whole")
        assert answer == Payload(b"x" * size)
        with pytest.raises(Invalid, match="no request_response handler"):
            await requester.request_response(request(), route="nowhere")
        statistics = requester.statistics()
        assert (statistics.open_streams, statistics.unread_size) == (0, 0)
    assert log == [size]


async def test_the_handler_runs_while_the_request_arrives():
    """The handler is called with the first data, and may answer before the request is complete."""
    async with frame_peer_client(make_router()) as peer:
        metadata = Metadata(route="early").encode()
        await peer.send(
            RequestResponseFrame(1, metadata=metadata[:5], follows=True),
            PayloadFrame(1, next=True, follows=True, metadata=metadata[5:]),
        )
        await peer.expect_alive()
        await peer.send(PayloadFrame(1, next=True, follows=True, data=b"first"))
        answer = await peer.receive(PayloadFrame)
        assert (answer.complete, answer.data) == (True, b"first")
        # The rest of the request is dropped.
        await peer.send(PayloadFrame(1, next=True, data=b"late"))
        await peer.expect_alive()


async def test_a_body_may_be_sent_back_while_it_arrives():
    """A body may be sent back while it arrives."""
    async with connected_pair(make_router(), config=SMALL) as requester:
        answer = await requester.request_response(StreamedPayload(chunks()), route="back")
        assert answer == Payload(b"x" * 1000)


class Reader(Responder):
    """Reads bodies slowly, or not at all."""

    def __init__(self):
        self.outcome = None
        self.go = trio.Event()

    def body_responder(self, interaction, metadata):
        return self

    async def request_response(self, body):
        assert isinstance(body, PayloadBody)
        try:
            await self.go.wait()
            async for _ in body:
                pass
        except BaseException as error:
            self.outcome = error
            raise
        return Payload(b"done")

    async def fire_and_forget(self, body):
        await self.request_response(body)

    def request_stream(self, body):
        return self._items(body)

    async def _items(self, body):
        yield await self.request_response(body)
        yield await self.request_response(body)


@pytest.mark.parametrize(
    "first",
    [
        RequestResponseFrame(1, data=b"x" * 100, follows=True),
        RequestFnfFrame(1, data=b"x" * 100, follows=True),
        RequestStreamFrame(1, initial_request_n=1, data=b"x" * 100, follows=True),
    ],
    ids=lambda frame: type(frame).__name__,
)
async def test_a_request_cancelled_while_it_arrives(first):
    """CANCEL of an unfinished request cancels its handler."""
    reader = Reader()
    async with frame_peer_client(reader) as peer:
        await peer.send(first)
        await peer.expect_alive()
        reader.go.set()
        await peer.expect_alive()
        await peer.send(CancelFrame(1))
        await peer.expect_alive()
        assert isinstance(reader.outcome, trio.Cancelled)


async def test_credit_that_comes_with_the_fragments_counts():
    """REQUEST_N between the fragments of a request counts for its stream."""
    reader = Reader()
    async with frame_peer_client(reader) as peer:
        await peer.send(
            RequestStreamFrame(1, initial_request_n=1, data=b"x", follows=True),
            RequestNFrame(1, 1),
            PayloadFrame(1, next=True, data=b"y"),
        )
        reader.go.set()
        assert [(await peer.receive(PayloadFrame)).data for _ in range(2)] == [b"done"] * 2
        assert (await peer.receive(PayloadFrame)).complete


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_body_past_the_unread_limit_fails(at_once):
    """The peer gets CANCELED at once, and a handler that runs an error; all bytes are given back.

    At once: a handler that sleeps on would keep the peer waiting for an answer that never comes.
    """
    limits = Limits(max_unread_body_size=500)
    reader = Reader()
    async with frame_peer_client(reader, config=ConnectionConfig(limits=limits)) as peer:
        size = 1000 if at_once else 200
        await peer.send(RequestResponseFrame(1, data=b"x" * size, follows=True))
        if not at_once:
            await peer.expect_alive()  # the handler has begun
        await peer.send(*[PayloadFrame(1, next=True, follows=True, data=b"x" * 200)] * 3)
        answer = await peer.receive(ErrorFrame)
        assert answer.code == 0x203
        await peer.expect_alive()
        reader.go.set()
        await peer.expect_nothing()
        if at_once:
            assert reader.outcome is None  # it was never called
        else:
            assert isinstance(reader.outcome, RemoteProtocolError)
        reader.outcome = None
        await peer.send(RequestResponseFrame(3, data=b"x", follows=True))
        await peer.send(PayloadFrame(3, next=True, data=b"y"))
        assert (await peer.receive(PayloadFrame)).data == b"done"


async def test_a_message_past_the_unread_limit_is_dropped(caplog):
    """A fire_and_forget has no answer."""
    caplog.set_level("INFO")
    limits = Limits(max_unread_body_size=500)
    reader = Reader()
    async with frame_peer_client(reader, config=ConnectionConfig(limits=limits)) as peer:
        await peer.send(RequestFnfFrame(1, data=b"x" * 1000, follows=True))
        await peer.send(PayloadFrame(1, next=True, data=b"x" * 200))
        await peer.expect_alive()
        await peer.expect_nothing()
    assert "dropped: its body" in caplog.text


async def test_bodies_count_as_requests():
    """A body counts as a request; one too many is refused before its handler runs."""
    limits = Limits(max_requests_size=100)
    reader = Reader()
    async with frame_peer_client(reader, config=ConnectionConfig(limits=limits)) as peer:
        await peer.send(RequestResponseFrame(1, data=b"x" * 90, follows=True))
        await peer.send(RequestResponseFrame(3, data=b"x" * 90, follows=True))
        answer = await peer.receive(ErrorFrame)
        assert (answer.stream_id, answer.code) == (3, 0x202)
        reader.go.set()
        await peer.send(PayloadFrame(1, next=True), PayloadFrame(3, next=True))
        assert (await peer.receive(PayloadFrame)).stream_id == 1


async def test_a_request_with_a_body_needs_one_lease(nursery):
    """A request that is read while it arrives is counted once, and waits for its lease."""
    client_end, server_end = memory_transport_pair()
    lease = LeaseOptions(Lease(1, 60.0))
    nursery.start_soon(partial(serve_transport, make_router(), server_end, lease=lease))
    async with connect(client_end, lease=LeaseOptions()) as requester:
        answer = await requester.request_response(StreamedPayload(chunks(2)), route="early")
        assert answer.data == b"x" * 100
        assert requester.leases.sendable_requests == 0


def test_handlers_that_cannot_take_a_body():
    """A channel has many payloads; and a handler has a body or a whole payload, not both."""
    router = Router()
    with pytest.raises(TypeError, match="a channel has many payloads"):

        @router.request_channel("x")
        async def channel(
            body: PayloadBody, items: ReceiveChannel[bytes]
        ) -> AsyncIterator[bytes]: ...

    for annotation in (bytes, Payload):

        async def both(body: PayloadBody, other: bytes) -> None: ...

        both.__annotations__["other"] = annotation
        with pytest.raises(TypeError, match="they arrive, so 'other' cannot get them"):
            router.request_response("x")(both)


async def test_damaged_metadata_of_a_body():
    """It is answered with INVALID once the request is complete, as without a body."""
    async with connected_pair(make_router(), config=SMALL) as requester:
        with pytest.raises(Invalid, match="cannot be read"):
            await requester.request_response(StreamedPayload(chunks(), b"\xd0"))


class Undecided(Responder):
    """Its `body_responder` fails; the text of `Invalid` is for the peer."""

    def body_responder(self, interaction, metadata):
        raise Invalid("not this") if metadata else KeyError("internal")

    async def request_response(self, payload):
        return payload


async def test_a_body_responder_that_fails(caplog):
    """An error of `body_responder` ends that request, as an error of a handler does."""
    async with frame_peer_client(Undecided()) as peer:
        for stream_id, metadata in ((1, None), (3, b"m")):
            await peer.send(
                RequestResponseFrame(stream_id, follows=True, metadata=metadata, data=b"x")
            )
        assert await peer.receive() == ErrorFrame(1, 0x201, b"the handler failed")
        assert await peer.receive() == ErrorFrame(3, 0x204, b"not this")
        await peer.send(RequestFnfFrame(5, follows=True, data=b"x"))
        await peer.send(PayloadFrame(1, complete=True), RequestResponseFrame(7, data=b"whole"))
        assert await peer.receive() == PayloadFrame(7, next=True, complete=True, data=b"whole")
        await peer.expect_alive()
    assert caplog.text.count("KeyError: 'internal'") == 2


class Unusual(BaseException):
    """Not an `Exception`, as the cancellations of other frameworks."""


@pytest.mark.parametrize("error", [Unusual, GeneratorExit])
async def test_a_body_responder_that_raises_a_base_exception(error, caplog):
    """It ends one request of this connection, and the server goes on."""

    class Raises(Undecided):
        def body_responder(self, interaction, metadata):
            raise error

    async with frame_peer_client(Raises()) as peer:
        await peer.send(RequestResponseFrame(1, follows=True, data=b"x"))
        assert await peer.receive() == ErrorFrame(1, 0x201, b"the handler failed")
        await peer.expect_alive()
    assert error.__name__ in caplog.text


async def test_an_interaction_that_a_body_responder_lacks_is_invalid():
    """As with `Responder`; fire_and_forget is not answered."""

    class Nothing(Responder):
        def body_responder(self, interaction, metadata):
            return BodyResponder()

    async with connected_pair(Nothing(), config=SMALL) as requester:
        with pytest.raises(Invalid, match="does not answer request_response"):
            await requester.request_response(StreamedPayload(chunks()))
        async with requester.request_stream(StreamedPayload(chunks())) as items:
            with pytest.raises(Invalid, match="does not answer request_stream"):
                await items.receive()
        await requester.fire_and_forget(StreamedPayload(chunks()))
        await trio.testing.wait_all_tasks_blocked()
        assert requester.statistics().open_streams == 0


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_payload_parameter_gets_a_payload(guarded):
    """A handler gets what its parameter says, however the request arrives."""
    seen = []

    class Noting(Responder):
        """Stands in front of a router, and lets it read bodies."""

        def __init__(self, router):
            self.router = router

        def body_responder(self, interaction, metadata):
            return self.router.body_responder(interaction, metadata)

        async def request_response(self, payload):
            seen.append(type(payload))
            return await self.router.request_response(payload)

    async def no_principal(auth, facts):
        return None

    router = Router(authenticate=no_principal if guarded else None)

    @router.request_response("whole")
    async def whole(payload: Payload) -> int:
        seen.append(type(payload))
        return len(payload.data)

    @router.request_response("body")
    async def body(body: PayloadBody) -> int:
        seen.append(type(body))
        return sum([len(chunk) async for chunk in body])

    async def accept(setup, requester):
        return Noting(await router.accept(setup, requester))

    async with connected_pair(accept, config=SMALL) as requester:
        caller = Caller(requester)
        for route in ("whole", "body"):
            answer = await requester.request_response(StreamedPayload(chunks()), route=route)
            assert caller.decode(answer, int) == 1000
            await requester.request_response(Payload(b"few"), route=route)
    # Behind a guard no payload is joined before the guard has run.
    first = [Payload] if guarded else [Payload, Payload]
    assert seen == [*first, Payload, Payload, PayloadBody, Payload, PayloadBody]
