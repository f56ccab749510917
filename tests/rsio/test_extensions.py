"""Extensions of the protocol: new messages, and changed ones that are declared and acknowledged."""

from __future__ import annotations

import zlib
from functools import partial

import pytest
import trio

from rsocket_trio import LocalProtocolError, rsio
from rsocket_trio.reactive_streams import MAX_DEMAND, collect, from_iterable
from rsocket_trio.rsio.wire.messages import (
    ClientHello,
    Extension,
    Goodbye,
    OnNext,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)
from tests.rsio.engine_scenes import Recorder, Stranger, numbers, stranger_to_server, words
from tests.waiting import until


async def connected(nursery, client_extensions, server_extensions, target=None):
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(
        partial(rsio.serve_stream, target or {}, theirs, extensions=server_extensions)
    )
    return rsio.connect(ours, extensions=client_extensions)


async def test_a_ping_comes_back():
    ping = rsio.Ping()
    async with trio.open_nursery() as nursery:
        async with await connected(nursery, [ping], [rsio.Ping()]) as connection:
            assert connection.extensions == {1}
            assert await ping.round_trip(connection) >= 0
            assert await ping.round_trip(connection) >= 0


async def test_a_peer_without_the_extension_gets_none_of_its_messages():
    ping = rsio.Ping()
    async with trio.open_nursery() as nursery:
        async with await connected(nursery, [ping, rsio.Compression()], []) as connection:
            assert connection.extensions == frozenset()
            with pytest.raises(rsio.RsioError, match="does not support the extension Ping"):
                await ping.round_trip(connection)
            with pytest.raises(LocalProtocolError):
                connection.send_extension(0x40, b"")


async def test_a_ping_fails_with_its_connection():
    ours, theirs = trio.testing.memory_stream_pair()
    ping = rsio.Ping()
    stranger = Stranger(ours)
    await stranger.send(ServerHello(0, (1,)))
    async with rsio.connect(theirs, extensions=[ping]) as connection:
        async with trio.open_nursery() as nursery:

            async def fail():
                with pytest.raises(rsio.RsioError, match="the connection is over"):
                    await ping.round_trip(connection)

            nursery.start_soon(fail)
            assert await stranger.next() == ClientHello(0, (1,))
            assert isinstance(await stranger.next(), Extension)
            await stranger.send(Goodbye(""))


async def test_compression_is_in_force_for_streams_behind_its_acknowledgement():
    """Declared, acknowledged, and then the elements are compressed; those before it are not."""
    text = [b"again and again " * 100] * 3
    target = {"text": from_iterable(text)}
    async with stranger_to_server(target, greet=False, extensions=[rsio.Compression()]) as stranger:
        await stranger.send(ClientHello(0, (2,)), Subscribe("text", 0, 1))
        assert await stranger.next() == ServerHello(0, (2,))
        assert await stranger.next() == Extension(0x42, b"")
        assert await stranger.next() == Subscribed(0, 0)
        assert await stranger.next() == OnNext(0, text[0])
        await stranger.send(Extension(0x42, b""), Subscribe("text", 1, 1))
        assert await stranger.next() == Extension(0x43, b"")
        assert await stranger.next() == Subscribed(1, 0)
        element = (await stranger.next()).element
        assert len(element) < 100
        assert zlib.decompress(element) == text[0]


async def test_compressed_elements_arrive_as_they_were():
    text = [b"again and again " * 100] * 50
    target = {"text": from_iterable(text), "ints": rsio.fixed_size(words(100), 8)}
    async with trio.open_nursery() as nursery:
        both = [rsio.Compression()]
        async with await connected(nursery, both, both, target) as connection:
            assert await collect(connection.publisher("text")) == text
            before = connection.statistics().received_size
            assert await collect(connection.publisher("text")) == text
            assert connection.statistics().received_size - before < 5000
            assert await collect(connection.publisher("ints")) == words(100)


async def test_an_element_that_cannot_be_decompressed_ends_its_stream():
    ours, theirs = trio.testing.memory_stream_pair()
    stranger = Stranger(ours)
    await stranger.send(ServerHello(0, (2,)))
    config = rsio.RsioConfig(limits=rsio.RsioLimits(max_element_size=1000))
    async with rsio.connect(theirs, extensions=[rsio.Compression()], config=config) as connection:
        assert await stranger.next() == ClientHello(0, (2,))
        assert await stranger.next() == Extension(0x42, b"")
        await stranger.send(Extension(0x43, b""))
        broken, bomb = Recorder(MAX_DEMAND), Recorder(MAX_DEMAND)
        connection.publisher("broken").subscribe(broken)
        connection.publisher("bomb").subscribe(bomb)
        await stranger.send(
            Subscribed(0),
            OnNext(0, b"not zlib"),
            Subscribed(1),
            OnNext(1, zlib.compress(bytes(100_000))),
        )
        await until(lambda: broken.ended and bomb.ended)
        assert isinstance(broken.error, rsio.RsioError)
        assert isinstance(bomb.error, rsio.RsioError)
        assert "more than 1000 octets" in str(bomb.error)
        await stranger.send(Goodbye(""))


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([Extension(0x43, b"")], "extension"),
        ([Extension(0x42, b""), Extension(0x42, b"")], "declared twice"),
        ([Extension(0x42, b"x")], "has a content"),
        ([Extension(0x40, b"")], "unknown-type"),
    ],
)
async def test_a_peer_that_breaks_an_extension_gets_a_goodbye(messages, reason):
    async with stranger_to_server(greet=False, extensions=[rsio.Compression()]) as stranger:
        await stranger.send(ClientHello(0, (2,)), *messages)
        if messages == [Extension(0x43, b"")]:
            await stranger.send(Extension(0x43, b""))  # the second one is too many
        goodbye = await stranger.next(Goodbye)
        assert goodbye.reason.startswith("protocol error: ")
        assert reason in goodbye.reason or "acknowledged" in goodbye.reason


async def test_extensions_must_differ():
    with pytest.raises(ValueError, match="two extensions"):
        await rsio.serve({}, "rsio://127.0.0.1:0", extensions=[rsio.Ping(), rsio.Ping()])
    with pytest.raises(TypeError, match="must be of type Extension, not the class Ping"):
        await rsio.serve({}, "rsio://127.0.0.1:0", extensions=[rsio.Ping])


async def test_an_extension_that_fails_ends_its_connection_only(caplog):
    class Faulty(rsio.Extension):
        id = 20_000
        types = (0x50,)

        def attach(self, peer):
            class Here(rsio.Behaviour):
                def receive(self, message_type, content):
                    raise RuntimeError("of the extension")

            return Here()

    target = {"count": from_iterable(numbers(3))}
    async with stranger_to_server(target, greet=False, extensions=[Faulty()]) as stranger:
        await stranger.send(ClientHello(0, (20_000,)), encode(Extension(0x50, b"")))
        assert (await stranger.next(Goodbye)).reason == "protocol error: an extension failed"
    assert "of the extension" in caplog.text


class Changing(rsio.Extension):
    """Changes elements with a function, in one direction."""

    id = 20_000

    def __init__(self, *, encode=None, decode=None):
        self.encode = encode
        self.decode = decode

    def attach(self, peer):
        if self.encode is not None:
            peer.encode_elements(self.encode)
        if self.decode is not None:
            peer.decode_elements(self.decode)
        return rsio.Behaviour()


class Unusual(BaseException):
    """An error that is no `Exception`."""


def raising(error):
    def change(_element):
        raise error

    return change


WRONG = [raising(ValueError("a secret")), raising(Unusual()), lambda _: "text", lambda _: None]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("direction", ["encode", "decode"])
async def test_an_extension_that_cannot_change_an_element_ends_the_stream(wrong, direction):
    """The stream ends for its reader, too, and the connection goes on."""
    target = {"x": from_iterable(numbers(3)), "words": rsio.fixed_size(words(3), 8)}
    broken = [Changing(**{direction: wrong})]
    ours, theirs = (broken, []) if direction == "decode" else ([], broken)
    async with trio.open_nursery() as nursery:
        async with await connected(nursery, ours, theirs, target) as connection:
            kind = rsio.RsioError if direction == "decode" else rsio.PublisherError
            with trio.fail_after(60), pytest.raises(kind):
                await collect(connection.publisher("x"))
            assert await collect(connection.publisher("words")) == words(3)


@pytest.mark.parametrize("direction", ["encode", "decode"])
async def test_an_extension_may_make_a_bytearray_of_an_element(direction):
    made = bytearray(b"made")
    changing = [Changing(**{direction: lambda _: made})]
    ours, theirs = (changing, []) if direction == "decode" else ([], changing)
    async with trio.open_nursery() as nursery:
        target = {"x": from_iterable(numbers(1))}
        async with await connected(nursery, ours, theirs, target) as connection:
            (element,) = await collect(connection.publisher("x"))
            assert type(element) is bytes
            assert element == made


@pytest.mark.parametrize("when", ["begin", "receive", "end"])
@pytest.mark.parametrize("error", [ValueError, Unusual])
async def test_an_extension_that_raises_ends_its_connection_and_no_more(when, error):
    """The peer is told so in a goodbye, and `serve_stream` returns."""

    class Behaviour(rsio.Behaviour):
        def fail(self, *_):
            raise error

    setattr(Behaviour, when, Behaviour.fail)

    class Raising(rsio.Extension):
        id = 20_000
        types = (0x50,)

        def attach(self, peer):
            return Behaviour()

    ours, theirs = trio.testing.memory_stream_pair()
    stranger = Stranger(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(rsio.serve_stream, {}, theirs, extensions=[Raising()]))
        await stranger.send(ClientHello(0, (20_000,)), encode(Extension(0x50, b"")))
        await stranger.send(Goodbye(""))
        goodbye = await stranger.next(Goodbye)
        assert ("an extension failed" in goodbye.reason) is (when != "end")
        await ours.aclose()
