"""A `Router` that is served over ttrpc: kinds, guards, authentication, errors; and both wires."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Invalid,
    Metadata,
    Payload,
    Rejected,
    RejectedSetup,
    RequestFacts,
    Responder,
    Router,
    StreamedPayload,
    connect,
    serve,
    ttrpc,
)
from rsocket_trio.metadata import BearerAuthentication, SimpleAuthentication
from rsocket_trio.ttrpc import Method, MethodKind, StatusCode
from rsocket_trio.ttrpc.metadata import METADATA_TYPE
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    SERVICE,
    client_of,
    data,
    end,
    opening,
    request,
    stranger_to,
)

ROUTE = f"{SERVICE}/"
TELL = Method.raw(SERVICE, "Tell")


class Number:
    """A message, as protobuf generates them."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        return b"%d" % self.value

    @classmethod
    def FromString(cls, raw: bytes) -> Number:  # noqa: N802 - the name that protobuf has
        return cls(int(raw.decode()))


def full_router(**settings) -> Router:
    router = Router(**settings)
    router.told = []

    @router.request_response(ROUTE + "Echo")
    async def echo(data: bytes) -> bytes:
        return data

    @router.fire_and_forget(ROUTE + "Tell")
    async def tell(data: bytes) -> None:
        router.told.append(data)

    @router.request_stream(ROUTE + "Count")
    async def count(data: bytes) -> AsyncIterator[bytes]:
        for number in range(int(data or b"0")):
            yield b"%d" % number

    @router.request_channel(ROUTE + "Chat")
    async def chat(items: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item.upper()

    return router


async def test_each_kind():
    router = full_router()
    async with client_of(router) as client:
        assert await client.unary(ECHO, b"x") == b"x"
        assert await client.unary(TELL, b"told") == b""
        assert router.told == [b"told"]
        for size in (0, 3):
            async with client.server_stream(COUNT, b"%d" % size) as replies:
                assert [each async for each in replies] == [b"%d" % n for n in range(size)]
        for lines in ([], [b"a"], [b"a", b"", b"b"]):  # an empty message is one, here too
            async with client.bidi_stream(CHAT) as call:
                for line in lines:
                    await call.send(line)
                await call.end()
                assert [each async for each in call] == [line.upper() for line in lines]


async def test_a_route_that_is_not_there():
    async with stranger_to(full_router()) as stranger:
        await stranger.send(request(1, "None"), request(3, service=""), request(5, ""))
        frames = await stranger.drain()
        assert {each.code for each in frames} == {StatusCode.UNIMPLEMENTED}
        assert len(frames) == 3
        texts = {each.stream_id: each.status.message for each in frames}
        assert (texts[1], texts[3]) == ("method None", "service ")
        await stranger.send(request(7, service="test.Thing"))
        assert (await stranger.frame()).status.message == "service test.Thing"


async def test_the_flags_choose_between_handlers_of_one_route():
    """As a client opens a kind; if there is no such handler, another one of the route answers."""
    router = full_router()

    @router.request_stream(ROUTE + "Echo")
    async def stream(data: bytes) -> AsyncIterator[bytes]:
        yield b"stream"

    @router.request_channel(ROUTE + "Echo")
    async def channel(items: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        async for _ in items:
            yield b"channel"

    async with stranger_to(router) as stranger:
        await stranger.send(request(1, payload=b"x"), request(3, flags=0x01))
        await stranger.send(opening(5, "Echo"), data(5, b"x"), end(5))
        frames = await stranger.drain()
        assert next(each for each in frames if each.stream_id == 1).payload == b"x"
        assert next(each for each in frames if each.stream_id == 3).body == b"stream"
        assert next(each for each in frames if each.stream_id == 5).body == b"channel"
        await stranger.send(request(7, "Count", b"1"))
        assert (await stranger.frame()).body == b"0"


async def test_messages_of_protobuf_classes():
    """The codec of the Router reads and writes them; one that cannot be read is INVALID."""
    router = Router()

    @router.request_response(ROUTE + "Echo")
    async def double(number: Number) -> Number:
        return Number(2 * number.value)

    @router.request_channel(ROUTE + "Chat")
    async def chat(numbers: trio.abc.ReceiveChannel[Number]) -> AsyncIterator[Number]:
        async for number in numbers:
            yield Number(-number.value)

    number = ttrpc.codec_for(Number)
    echo = Method(SERVICE, "Echo", MethodKind.UNARY, number, number)
    talk = Method(SERVICE, "Chat", MethodKind.BIDI_STREAM, number, number)
    async with client_of(router) as client:
        assert (await client.unary(echo, Number(4))).value == 8
        async with client.bidi_stream(talk) as call:
            for value in (1, 2):
                await call.send(Number(value))
            await call.end()
            assert [each.value async for each in call] == [-1, -2]
        with pytest.raises(ttrpc.InvalidArgument) as caught:
            await client.unary(ECHO, b"four")
        assert "four" not in caught.value.message


async def test_another_mime_type():
    router = Router()

    @router.request_response(ROUTE + "Echo")
    async def echo(item: dict[str, int]) -> dict[str, int]:
        return {"n": item["n"] + 1}

    settings = {"data_mime_type": "application/json"}
    async with stranger_to(router, **settings) as stranger:
        await stranger.send(request(1, payload=b'{"n": 1}'))
        assert json.loads((await stranger.frame()).payload) == {"n": 2}


async def test_what_is_no_mime_type_is_refused_at_once():
    with pytest.raises(ValueError, match=r"must be a MIME type.*not 'json'"):
        await ttrpc.serve(Router(), "tcp://127.0.0.1:0", data_mime_type="json")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ApplicationError(b"no luck"), StatusCode.UNKNOWN, "no luck"),
        (Rejected(b"not you"), StatusCode.PERMISSION_DENIED, "not you"),
        (Invalid(b"not so"), StatusCode.INVALID_ARGUMENT, "not so"),
        (ttrpc.NotFound("no thing"), StatusCode.NOT_FOUND, "no thing"),
        (ValueError("secret"), StatusCode.UNKNOWN, "the handler failed"),
    ],
)
async def test_errors(error, code, text):
    router = Router()

    @router.request_response(ROUTE + "Echo")
    async def fails(data: bytes) -> bytes:
        raise error

    @router.request_stream(ROUTE + "Count")
    async def fails_later(data: bytes) -> AsyncIterator[bytes]:
        yield b"first"
        raise error

    async with stranger_to(router) as stranger:
        await stranger.send(request(1), request(3, "Count"))
        frames = await stranger.drain()
        for frame in (each for each in frames if each.kind == 2):
            assert (frame.code, frame.status.message) == (code, text)
        assert sum(each.kind == 2 for each in frames) == 2


# -- guards -------------------------------------------------------------------------------------


async def test_the_authorization_of_a_call():
    """Bearer and Basic, under a key in any case; anything else is refused."""
    seen: list[Any] = []

    async def authenticate(auth, facts):
        seen.append(auth)
        if isinstance(auth, SimpleAuthentication) and auth.username == "eve":
            raise Rejected("not eve")
        return "somebody"

    router = full_router(authenticate=authenticate)
    basic = b64encode(b"ada:open:sesame").decode()
    async with client_of(router) as client:
        assert await client.unary(ECHO, b"x") == b"x"
        assert seen == [None, None]  # about the connection, and about the call
        seen.clear()
        for value in ("Bearer token", "bearer token", f"Basic {basic}"):
            assert await client.unary(ECHO, b"x", metadata={"Authorization": value}) == b"x"
        bearer = BearerAuthentication("token")
        assert seen == [bearer, bearer, SimpleAuthentication("ada", "open:sesame")]
        eve = b64encode(b"eve:x").decode()
        with pytest.raises(ttrpc.PermissionDenied, match="not eve"):
            await client.unary(ECHO, b"x", metadata={"authorization": f"Basic {eve}"})
        for wrong in ("Digest x", "Basic ???", "Basic /w==", "Bearer"):
            call = partial(client.unary, ECHO, b"x", metadata={"authorization": wrong})
            if wrong == "Bearer":
                assert await call() == b"x"  # an empty token; the guard decides
            else:
                with pytest.raises(ttrpc.Unauthenticated):
                    await call()
        with pytest.raises(ttrpc.Unauthenticated):
            async with client.server_stream(COUNT, b"1", metadata={"authorization": "x"}) as items:
                await items.receive()


async def test_metadata_reach_the_handler():
    router = Router()
    seen = []

    @router.request_response(ROUTE + "Echo")
    async def echo(payload: Payload) -> bytes:
        parts = Metadata.decode(payload.metadata)
        (entry,) = parts.extra or (None,)
        assert entry is None or str(entry.mime_type) == METADATA_TYPE
        seen.append(json.loads(entry.content) if entry else [])
        return b""

    async with client_of(router) as client:
        await client.unary(ECHO, b"", metadata=[("k", "1"), ("k", "2")])
        await client.unary(ECHO, b"")
    assert seen == [[["k", "1"], ["k", "2"]], []]


async def test_a_guard_that_refuses_the_connection(caplog):
    caplog.set_level("INFO", "rsocket_trio")

    async def authenticate(auth, facts):
        raise RejectedSetup("strangers stay out")

    router = full_router(authenticate=authenticate)
    async with stranger_to(router) as stranger:
        await stranger.send(request(1))
        assert await stranger.until_end() == []
    assert "strangers stay out" in caplog.text


async def test_a_guard_that_never_answers(autojump_clock, caplog):
    async def authenticate(auth, facts):
        await trio.sleep_forever()

    router = full_router(authenticate=authenticate)
    async with stranger_to(router, config=ttrpc.TtrpcConfig(connect_timeout=3)) as stranger:
        begun = trio.current_time()
        assert await stranger.until_end() == []
        assert trio.current_time() - begun == pytest.approx(3)
    assert "did not answer within 3 s (connect_timeout)" in caplog.text


@pytest.mark.parametrize("misuse", ["error", "scope", "nursery"])
async def test_a_guard_that_fails(misuse, caplog):
    async def authenticate(auth, facts):
        if misuse == "error":
            raise ValueError("secret")
        if misuse == "scope":
            trio.CancelScope().__enter__()
        else:
            await trio.open_nursery().__aenter__()
        raise ValueError

    async with stranger_to(full_router(authenticate=authenticate)) as stranger:
        assert await stranger.until_end() == []
    assert "authenticate= of a Router failed" in caplog.text
    assert "please report" not in caplog.text


# -- other responders ---------------------------------------------------------------------------


class Plain(Responder):
    """No router: the flags of a request say which handler is meant."""

    async def request_response(self, payload):
        if payload.data == b"streamed":
            return StreamedPayload(self.chunks())
        return None if payload.data == b"none" else Payload(b"response", b"metadata")

    async def chunks(self):
        yield b"in "
        yield b"chunks"

    async def request_stream(self, payload):
        if payload.data == b"streamed":
            yield StreamedPayload(self.chunks())
        yield Payload(b"stream")

    async def request_channel(self, payload, payloads):
        async for each in payloads:
            yield Payload(b"channel " + each.data)


async def test_another_responder():
    async with stranger_to(Plain()) as stranger:
        await stranger.send(
            request(1, "Any", b"x"),
            request(3, "Any", b"none"),
            request(5, "Any", b"streamed"),
            request(7, "Any", b"x", flags=0x01),
            opening(9, "Any"),
            data(9, b"x"),
            end(9),
            request(11, "Any", b"streamed", flags=0x01),
        )
        frames = await stranger.drain()
        answers = {each.stream_id: each for each in frames if each.kind == 2}
        assert [answers[each].payload for each in (1, 3, 5)] == [b"response", b"", b"in chunks"]
        assert [each.body for each in frames if each.stream_id == 7] == [b"stream", b""]
        assert [each.body for each in frames if each.stream_id == 9] == [b"channel x", b""]
        assert answers[11].code == StatusCode.UNKNOWN


async def test_an_answer_in_chunks_is_one_message():
    """What gives the chunks is closed, as over a wire that sends them one by one."""
    app = Router()
    send, chunks = trio.open_memory_channel[bytes](2)
    send.send_nowait(b"in ")
    send.send_nowait(b"chunks")
    send.close()

    @app.request_response(ROUTE + "Any")
    async def answer() -> StreamedPayload:
        return StreamedPayload(chunks)

    async with stranger_to(app) as stranger:
        await stranger.send(request(1, "Any", b""))
        [response] = [each for each in await stranger.drain() if each.kind == 2]
        assert response.payload == b"in chunks"
    with pytest.raises(trio.ClosedResourceError):
        chunks.receive_nowait()


# -- both wires ---------------------------------------------------------------------------------


async def test_one_router_over_two_wires(tmp_path):
    """The same handlers answer over RSocket and ttrpc at the same time."""
    router = full_router()
    uri = f"ttrpc+unix://{tmp_path}/s"
    async with trio.open_nursery() as nursery:
        first = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        second = await nursery.start(ttrpc.serve, router, uri)
        async with connect(first.uris[0]) as requester, ttrpc.connect(uri) as client:
            route = Metadata(route=ROUTE + "Echo").encode()
            assert (await requester.request_response(Payload(b"x", route))).data == b"x"
            assert await client.unary(ECHO, b"x") == b"x"
        await first.aclose()
        await second.aclose()


async def test_methods_by_variables():
    """A template answers all methods of a service, and a name is no route if it is too long."""
    router = Router()

    @router.request_response(ROUTE + "{method}")
    async def any_method(method: str, data: bytes) -> bytes:
        return method.encode() + data

    async with client_of(router) as client:
        for name in ("Echo", "Other", "Echo"):
            assert await client.unary(Method.raw(SERVICE, name), b"!") == name.encode() + b"!"
        with pytest.raises(ttrpc.CallError):
            await client.unary(Method.raw(SERVICE, "x" * 300), b"")


async def test_middleware_and_guards_see_methods_without_a_handler():
    """The client gets UNIMPLEMENTED as ever, unless a guard refuses it before."""
    seen = []

    async def record(call):
        try:
            yield
        finally:
            error = type(call.error).__name__
            seen.append((call.interaction, call.route.name, call.handler, error))

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts) and facts.route.name == "a.B/Secret":
            raise Rejected("who are you?")
        if isinstance(facts, RequestFacts) and facts.route.name == "a.B/Odd":
            raise Invalid("not an odd one")

    async with stranger_to(Router(middleware=[record], authenticate=authenticate)) as stranger:
        await stranger.send(
            request(1, "None", service="a.B"),
            request(3, "Secret", service="a.B"),
            opening(5, "Chat", service="a.B"),
            end(5),
            request(7, "n" * 1000, service="a.B"),
            request(9, "Odd", service="a.B"),
        )
        codes = {each.stream_id: each.code for each in await stranger.drain()}
    refused = StatusCode.UNIMPLEMENTED
    denied, invalid = StatusCode.PERMISSION_DENIED, StatusCode.INVALID_ARGUMENT
    assert codes == {1: refused, 3: denied, 5: refused, 7: refused, 9: invalid}
    assert sorted(seen) == [
        ("request_channel", "a.B/Chat", None, "NoHandler"),
        ("request_response", "a.B/None", None, "NoHandler"),
        ("request_response", "a.B/Odd", None, "Invalid"),
        ("request_response", "a.B/Secret", None, "Rejected"),
    ]
