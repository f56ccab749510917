"""Services and the annotations of their handlers, `ServiceBase`, and what `serve` takes.

Modules of rsocket_trio.ttrpc.server: service, signature, bound.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Coroutine,
)
from functools import partial
from typing import ClassVar

import pytest
import trio
from trio.abc import ReceiveChannel

from rsocket_trio import Responder
from rsocket_trio.responder import check_responder
from rsocket_trio.ttrpc import (
    BYTES,
    EMPTY,
    Call,
    MessageStream,
    Method,
    MethodKind,
    Service,
    ServiceBase,
    StatusCode,
    Unimplemented,
    serve_stream,
)
from rsocket_trio.ttrpc.server.service import as_services
from rsocket_trio.ttrpc.server.signature import read_handler
from tests.ttrpc.scenes import ECHO, SERVICE, client_of, data, end, opening, request, stranger_to

UNARY, SERVER, CLIENT, BOTH = MethodKind


class Ping:
    """A message, as protobuf generates them."""

    def __init__(self, raw: bytes = b"") -> None:
        self.raw = raw

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        return self.raw

    @classmethod
    def FromString(cls, raw: bytes) -> Ping:  # noqa: N802 - the name that protobuf has
        return cls(raw)


# -- annotations --------------------------------------------------------------------------------


async def unary(request: Ping) -> Ping: ...
async def unary_call(request: Ping, call: Call) -> Ping: ...
async def call_first(call: Call, request: Ping) -> Ping: ...
async def keywords(*, call: Call, request: Ping) -> Ping: ...
async def no_request() -> bytes: ...
async def only_call(call: Call) -> bytes: ...
async def empty(request: None) -> None: ...
async def with_default(request: bytes, more: int = 3) -> bytes: ...
def awaited(request: bytes) -> Awaitable[bytes]: ...
def coroutine(request: bytes) -> Coroutine[None, None, bytes]: ...


async def generator(request: Ping) -> AsyncIterator[Ping]:
    yield request


async def generator_2(request: Ping) -> AsyncGenerator[Ping, None]:
    yield request


async def coroutine_of_stream(request: bytes) -> AsyncIterable[bytes]: ...
def plain_stream(request: bytes) -> AsyncIterator[bytes]: ...
async def channel_out(request: bytes) -> ReceiveChannel[bytes]: ...
async def client(parts: ReceiveChannel[Ping]) -> Ping: ...
async def client_2(parts: AsyncIterator[Ping]) -> Ping: ...
async def client_3(parts: AsyncIterable[Ping]) -> Ping: ...
async def client_4(parts: MessageStream[Ping]) -> Ping: ...


async def both(call: Call, parts: ReceiveChannel[Ping]) -> AsyncIterator[Ping]:
    yield Ping()


@pytest.mark.parametrize(
    ("function", "kind", "message", "call"),
    [
        (unary, UNARY, "request", None),
        (unary_call, UNARY, "request", "call"),
        (call_first, UNARY, "request", "call"),
        (keywords, UNARY, "request", "call"),
        (no_request, UNARY, None, None),
        (only_call, UNARY, None, "call"),
        (empty, UNARY, "request", None),
        (with_default, UNARY, "request", None),
        (awaited, UNARY, "request", None),
        (coroutine, UNARY, "request", None),
        (generator, SERVER, "request", None),
        (generator_2, SERVER, "request", None),
        (coroutine_of_stream, SERVER, "request", None),
        (plain_stream, SERVER, "request", None),
        (channel_out, SERVER, "request", None),
        (client, CLIENT, "parts", None),
        (client_2, CLIENT, "parts", None),
        (client_3, CLIENT, "parts", None),
        (client_4, CLIENT, "parts", None),
        (both, BOTH, "parts", "call"),
    ],
)
def test_annotations(function, kind, message, call):
    signature = read_handler(function)
    assert (signature.kind, signature.message, signature.call) == (kind, message, call)


def test_codecs_of_annotations():
    signature = read_handler(unary)
    assert signature.request.message_type is signature.response.message_type is Ping
    assert read_handler(empty).request is read_handler(no_request).request is EMPTY
    assert read_handler(with_default).request is BYTES


async def no_result(request: bytes): ...
async def no_annotation(request) -> bytes: ...
async def two_requests(request: bytes, other: bytes) -> bytes: ...
async def star(*requests: bytes) -> bytes: ...
async def stars(request: bytes, **more: bytes) -> bytes: ...
async def wrong_type(request: int) -> bytes: ...
async def wrong_result(request: bytes) -> str: ...
async def bare_stream(parts: AsyncIterator) -> bytes: ...
async def stream_of_wrong(parts: AsyncIterator[int]) -> bytes: ...
async def unknown_name(request: Missing) -> bytes: ...  # noqa: F821
def plain(request: bytes) -> bytes: ...


async def bare_generator(request: bytes) -> bytes:
    yield b""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (no_result, "no_result needs an annotation of its result, e.g. -> bytes"),
        (no_annotation, "no_annotation needs an annotation of 'request', e.g. request: bytes"),
        (two_requests, "two_requests takes 'other' besides 'request'"),
        (star, r"star must not take \*requests"),
        (stars, r"stars must not take \*\*more"),
        (wrong_type, "'request' of .*wrong_type: int is not a type of messages: use bytes, None"),
        (wrong_result, "the result of .*wrong_result: str is not a type of messages"),
        (bare_stream, r"needs the type of its messages, e.g. AsyncIterator\[bytes\]"),
        (stream_of_wrong, "int is not a type of messages"),
        (unknown_name, "unknown_name cannot be read: name 'Missing' is not defined"),
        (plain, "plain must be an async function"),
        (bare_generator, r"is a generator, so it needs the annotation AsyncIterator\[...\]"),
    ],
)
def test_mistakes_in_annotations(function, text):
    """The text names the function, and says what to write."""
    with pytest.raises(TypeError, match=text):
        read_handler(function)
    service = Service(SERVICE)
    with pytest.raises(TypeError, match=text):
        service.method(function)
    assert service.methods == {}


# -- services -----------------------------------------------------------------------------------


def test_names_of_methods():
    service = Service(SERVICE)

    @service.method
    async def One(request: bytes) -> bytes:  # noqa: N802 - as the method is called
        return request

    @service.method("Two")
    async def two(request: bytes) -> bytes:
        return request

    @service.method()
    async def Three(request: bytes) -> bytes:  # noqa: N802 - as the method is called
        return request

    assert list(service.methods) == ["One", "Two", "Three"]
    assert service.methods["Two"].method.path == "/test.Things/Two"
    with pytest.raises(ValueError, match=r"/test.Things/One has a handler already"):
        service.method("One")(two)
    for name in ("a.b", "", "a b", "1"):
        with pytest.raises(ValueError, match="is not the name of a method"):
            service.add(Method.raw(SERVICE, name), two)
    with pytest.raises(ValueError, match=r"does not belong to the service test.Things"):
        service.add(Method.raw("other.Service", "One"), two)


@pytest.mark.parametrize("name", ["", "a/b", ".a", "a.", "a b", "ä", "a..b"])
def test_names_of_services(name):
    with pytest.raises(ValueError, match=r"is not the name of a service, e.g. package.Service"):
        Service(name)


async def test_handlers_are_called_with_what_they_take():
    """By position or by name, with the facts or without."""
    service = Service(SERVICE)
    seen = []

    @service.method
    async def Names(*, call: Call, request: bytes) -> bytes:  # noqa: N802
        seen.append(call.method.name)
        return request

    @service.method
    async def First(call: Call, request: bytes) -> bytes:  # noqa: N802
        seen.append(call.method.name)
        return request

    @service.method
    async def Nothing() -> bytes:  # noqa: N802
        return b"nothing"

    @service.method
    async def Facts(call: Call) -> bytes:  # noqa: N802
        return call.method.path.encode()

    @service.method
    async def Named(*, request: bytes) -> bytes:  # noqa: N802
        return request

    @service.method
    async def Stream(*, parts: ReceiveChannel[bytes], call: Call) -> AsyncIterator[bytes]:  # noqa: N802
        seen.append(call.method.name)
        async for each in parts:
            yield each

    async with client_of(service) as client:
        for name, expected in [
            ("Names", b"x"),
            ("First", b"x"),
            ("Nothing", b"nothing"),
            ("Facts", b"/test.Things/Facts"),
            ("Named", b"x"),
        ]:
            assert await client.unary(Method.raw(SERVICE, name), b"x") == expected
        stream = Method.raw(SERVICE, "Stream", BOTH)
        async with client.bidi_stream(stream) as call:
            await call.send(b"x")
            assert await call.receive() == b"x"
    assert seen == ["Names", "First", "Stream"]


@pytest.mark.parametrize(
    "handler",
    [plain_stream, coroutine_of_stream, channel_out],
)
async def test_ways_to_return_a_stream(handler):
    """A generator, a coroutine that returns an iterable, a function, a channel."""

    async def items():
        yield b"a"
        yield b"b"

    def plain(request):
        return items()

    async def coroutine(request):
        return items()

    async def channel(request):
        send, receive = trio.open_memory_channel(2)
        for each in (b"a", b"b"):
            send.send_nowait(each)
        send.close()
        return receive

    function = {"plain_stream": plain, "coroutine_of_stream": coroutine, "channel_out": channel}
    service = Service(SERVICE)
    count = Method.raw(SERVICE, "Count", SERVER)
    service.add(count, function[handler.__name__])
    async with client_of(service) as client, client.server_stream(count, b"") as replies:
        assert [each async for each in replies] == [b"a", b"b"]


# -- generated classes --------------------------------------------------------------------------


class ThingsBase(ServiceBase):
    """As the generator of code writes it."""

    __ttrpc_service__ = SERVICE
    __ttrpc_methods__: ClassVar = {
        "Echo": ("echo", ECHO),
        "Join": ("join", Method.raw(SERVICE, "Join", CLIENT)),
        "Count": ("count", Method.raw(SERVICE, "Count", SERVER)),
    }

    async def echo(self, request, call):
        raise Unimplemented(f"method {ECHO.name}")

    async def join(self, messages, call):
        raise Unimplemented("method Join")

    async def count(self, request, call):
        raise Unimplemented("method Count")


class Things(ThingsBase):
    async def echo(self, request):  # without the facts
        return request

    async def count(self, request, call):
        yield call.method.name.encode()


async def test_methods_that_are_not_overridden():
    async with stranger_to(Things()) as stranger:
        await stranger.send(request(1, payload=b"x"), request(3, "Count"), opening(5))
        await stranger.send(data(5, b"x"), end(5))
        frames = await stranger.drain()
        assert next(each for each in frames if each.stream_id == 1).payload == b"x"
        assert [each.body for each in frames if each.stream_id == 3] == [b"Count", b""]
        (refused,) = [each for each in frames if each.stream_id == 5]
        assert (refused.code, refused.status.message) == (StatusCode.UNIMPLEMENTED, "method Join")


class BothNames(Things):
    async def Echo(self, request):  # noqa: N802 - a helper of `echo`, which is overridden
        return request


class NothingBase(ServiceBase):
    __ttrpc_service__ = "test.Nothing"


def test_what_can_be_served():
    other = Service("other.Things")
    assert list(as_services(other)) == ["other.Things"]
    assert list(as_services(BothNames())) == [SERVICE]
    assert list(as_services([Things(), other, NothingBase()])) == [
        SERVICE,
        "other.Things",
        "test.Nothing",
    ]


class OthersBase(ServiceBase):
    """A second generated class, with a method of the same name."""

    __ttrpc_service__ = "test.Others"
    __ttrpc_methods__: ClassVar = {
        "Echo": ("echo", Method.raw("test.Others", "Echo", ECHO.kind)),
        "Stop": ("stop", Method.raw("test.Others", "Stop", ECHO.kind)),
    }

    async def echo(self, request, call):
        raise Unimplemented("method Echo")

    async def stop(self, request, call):
        raise Unimplemented("method Stop")


class StopsBase(ServiceBase):
    __ttrpc_service__ = "test.Stops"
    __ttrpc_methods__: ClassVar = {
        "Stop": ("stop", Method.raw("test.Stops", "Stop", ECHO.kind)),
    }

    async def stop(self, request, call):
        raise Unimplemented("method Stop")


class ThingsThatStop(Things, StopsBase):
    async def stop(self, request, call):
        return b"stopped"


class SaysItTwice(ThingsBase, OthersBase):
    pass


async def test_an_object_of_two_generated_classes_is_two_services():
    """Until now the methods of the second one answered UNIMPLEMENTED, and nothing said so."""
    assert as_services(ThingsThatStop()).keys() == {SERVICE, "test.Stops"}
    stop = Method.raw("test.Stops", "Stop", ECHO.kind)
    async with client_of(ThingsThatStop()) as client:
        assert await client.unary(stop, b"") == b"stopped"
        assert await client.unary(ECHO, b"x") == b"x"


def test_one_function_cannot_be_a_method_of_two_services():
    """It could not know which of them was called."""
    text = r"SaysItTwice\.echo would serve \S+/Echo and \S*test\.Others/Echo: serve two objects"
    with pytest.raises(TypeError, match=text):
        as_services(SaysItTwice())


class NamedAsInProto(ThingsBase):
    async def Echo(self, request, call):  # noqa: N802 - the mistake
        return request


class YieldsOneAnswer(ThingsBase):
    async def echo(self, request, call):
        yield request


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (NamedAsInProto(), TypeError, "NamedAsInProto.Echo is never called: name it echo"),
        (
            YieldsOneAnswer(),
            TypeError,
            "YieldsOneAnswer.echo yields, but /test.Things/Echo",
        ),
        ([Things(), Service(SERVICE)], ValueError, "two services with the name test.Things"),
        ([], ValueError, "serve needs a service at least"),
        (Things, TypeError, r"needs an object, not the class Things: write Things\("),
        (Service, TypeError, r"needs an object, not the class Service: write Service\("),
        ([Things], TypeError, r"write Things\("),
        (unary, TypeError, "serve needs a Service.*not function"),
        ("name", TypeError, "serve needs a Service.*not str"),
        ([Things(), 3], TypeError, "not int"),
    ],
)
async def test_what_cannot_be_served(wrong, error, text):
    with pytest.raises(error, match=text):
        as_services(wrong)
    with pytest.raises(error, match=text):
        await serve_stream(wrong, None)


class AlsoAResponder(Responder, ThingsBase):
    async def request_response(self, payload):
        return payload


def test_a_class_is_checked_for_each_of_its_bases():
    """That it was a good responder says nothing about the service that it serves besides."""
    check_responder(AlsoAResponder())
    with pytest.raises(TypeError, match="AlsoAResponder overrides none of the methods"):
        as_services(AlsoAResponder())


async def test_several_services():
    first, second = Service("a.First"), Service("b.Second")
    for service in (first, second):
        service.add(Method.raw(service.name, "Name"), partial(answer_with, service.name.encode()))
    async with client_of([first, second]) as client:
        for service in (first, second):
            method = Method.raw(service.name, "Name")
            assert await client.unary(method, b"") == service.name.encode()


async def answer_with(answer, _request):
    return answer
