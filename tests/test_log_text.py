"""No text of a peer forges a line of the log, controls a terminal, or makes a line long."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionConfig,
    Metadata,
    Payload,
    Rejected,
    Requester,
    Router,
    SimpleAuthentication,
    StreamError,
    serve,
    serve_transport,
)
from rsocket_trio.escapes import cut, escaped
from rsocket_trio.frames import (
    ErrorFrame,
    Frame,
    RequestFnfFrame,
    RequestResponseFrame,
    ResumeFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.log_policy import PeerLog, logger
from rsocket_trio.log_text import MAX_ARGUMENT, MAX_BLOCK, Block
from rsocket_trio.metadata.composite import MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair

ASCII = "\x1b[31m\nFORGED\r\x00\x7f"
EVIL = ASCII + "\x85\u2028\u202e"
LONG = EVIL + 200_000 * "A"
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Lines(logging.Handler):
    """What a log file would contain."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    def check(self) -> None:
        for text in self.texts:
            assert not UNPRINTABLE.search(text), ascii(text)
            assert not re.search("^FORGED", text, re.MULTILINE), text
            assert len(text) < 1.2 * MAX_BLOCK
            assert max(map(len, text.split("\n"))) < 5000


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines = Lines()
    log = logging.getLogger("rsocket_trio")
    level = log.level
    log.addHandler(lines)
    log.setLevel(logging.DEBUG)
    yield lines
    log.removeHandler(lines)
    log.setLevel(level)


def make_router() -> Router:
    async def authenticate(auth: object, facts: object) -> str:
        if isinstance(auth, SimpleAuthentication):
            raise Rejected(f"{auth.username.decode()} is not known")
        return "anybody"

    router = Router(authenticate=authenticate)

    @router.request_response("fail")
    async def fail(data: bytes) -> int:
        raise ValueError(data.decode())

    @router.request_response("group")
    async def group(data: bytes) -> int:
        error = KeyError(data.decode())
        error.add_note(data.decode())
        raise ExceptionGroup(data.decode(), [error]) from OSError(data.decode())

    @router.request_response("ask")
    async def ask(requester: Requester) -> int:
        try:
            await requester.request_response(Payload(b""))
        except StreamError as error:
            raise LookupError("no answer") from error
        return 1

    @router.request_response("numbers")
    async def numbers(values: dict[str, int]) -> int:
        return 1

    return router


def setup(
    metadata: bytes | None = None,
    data_mime_type: str = MIME.JSON,
    metadata_mime_type: str = MIME.COMPOSITE_METADATA,
) -> SetupFrame:
    return SetupFrame(
        major=1,
        minor=0,
        keepalive_interval_ms=60_000,
        max_lifetime_ms=60_000,
        metadata_mime_type=metadata_mime_type,
        data_mime_type=data_mime_type,
        metadata=metadata,
    )


def request(route: str, data: str = "", more: bytes = b"") -> RequestResponseFrame:
    return RequestResponseFrame(
        1, metadata=Metadata(route=route).encode() + more, data=data.encode()
    )


def entry(mime_type: str, content: str) -> bytes:
    return MetadataEntry(mime_type, content.encode()).encode()


RESUME = ResumeFrame(
    major=1,
    minor=0,
    token=EVIL.encode(),
    last_received_server_position=0,
    first_available_client_position=0,
)
NOT_ASCII = b"\0\0\0\0\x04\0\0\x01\0\0" + 2 * b"\0\0\xea\x60" + b"\x04\x1b\n\xffaa\x01xx"
FRAMES: dict[str, list[Frame | bytes]] = {
    "data type": [setup(data_mime_type=f"a/{ASCII}"), request("numbers", "{}")],
    "metadata type": [setup(metadata_mime_type=f"a/{ASCII}"), request("numbers", "{}")],
    "SETUP": [NOT_ASCII],
    "SETUP's user": [setup(Metadata(auth=SimpleAuthentication(EVIL, "")).encode())],
    "RESUME": [RESUME],
    "no frame": [EVIL.encode()],
    "route": [setup(), request(EVIL)],
    "user": [setup(), request("x", "", Metadata(auth=SimpleAuthentication(EVIL, "")).encode())],
    "mime type": [setup(), request("numbers", "", entry(MIME.MIME_TYPE, chr(len(ASCII)) + ASCII))],
    "keys": [setup(), request("numbers", '{"\\u001b\\nFORGED": "a"}')],
    "not JSON": [setup(), request("numbers", EVIL)],
    "long value": [setup(), request("numbers", f'{{"a": "{200_000 * "A"}"}}')],
    "fire and forget": [setup(), RequestFnfFrame(1, metadata=Metadata(route=EVIL).encode())],
    "handler": [setup(), request("fail", LONG)],
    "handler's group": [setup(), request("group", LONG)],
    "answer": [setup(), request("ask")],
    "ERROR": [setup(), ErrorFrame(0, 0x101, LONG.encode())],
}


@pytest.mark.parametrize("frames", FRAMES.values(), ids=FRAMES)
async def test_frames(frames: list[Frame | bytes], lines: Lines) -> None:
    """Whatever a client sends in any place, before its SETUP is accepted and after."""
    client, server = memory_transport_pair()
    with trio.move_on_after(2):
        async with trio.open_nursery() as nursery:
            config = ConnectionConfig(setup_timeout=1)
            nursery.start_soon(partial(serve_transport, make_router(), server, config=config))
            async with FramePeer(client) as peer:
                for frame in frames:
                    await peer.send(frame)
                    await trio.testing.wait_all_tasks_blocked()
                with trio.move_on_after(0.05):
                    for received in await client.receive_frames():
                        if isinstance(frame := decode(received), RequestResponseFrame):
                            await peer.send(ErrorFrame(frame.stream_id, 0x201, LONG.encode()))
                    await trio.sleep(0.05)
    assert lines.texts
    lines.check()


UPGRADE = (
    b"Host: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def message(opcode: int, content: bytes) -> bytes:
    return bytes([0x80 | opcode, 0x80 | len(content)]) + bytes(4) + content


@pytest.mark.parametrize(
    ("head", "messages"),
    [
        (b"GET /\x1b[31m HTTP/1.1\r\n", b""),
        (b"G\x1bT / HTTP/1.1\r\n", b""),
        (b"GET / HTTP/1.1\r\nX: \x1b[31m\x85\xff\r\n", b""),
        (b"GET / HTTP/1.1\r\n", message(8, b"\x03\xf0" + EVIL.encode())),
        (b"GET / HTTP/1.1\r\n", message(2, setup().encode()) + message(8, b"\x03\xf0\x1b\n")),
        (b"GET / HTTP/1.1\r\n", message(1, EVIL.encode())),
    ],
)
async def test_websockets(head: bytes, messages: bytes, lines: Lines) -> None:
    """A handshake, and the reason of a close frame."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, make_router(), "ws://127.0.0.1:0/")
        port = int(re.findall(r":(\d+)", str(server.uris[0]))[0])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(head + UPGRADE)
            await stream.receive_some()
            if messages:
                await stream.send_all(messages)
            with trio.move_on_after(0.2):
                while await stream.receive_some():
                    pass
        while not lines.texts:
            await trio.sleep(0.01)
        await server.aclose()
    lines.check()


def test_texts() -> None:
    """Letters of every language stay; what cannot be printed is visible."""
    assert escaped("grün 緑 зелёный") == "grün 緑 зелёный"
    assert escaped("a\n\x1b\u202e\ud800\t") == r"a\n\x1b\u202e\ud800\t"
    assert cut("abc", 3) == "abc"
    assert cut(100 * "a" + 100 * "b", 10) == "aaaaa... (200 characters) ...bbbbb"


def test_arguments(lines: Lines) -> None:
    """Numbers keep their format, and each kind of format gets a safe text."""
    logger.info("%d %g %s %r", 3, 0.5, ValueError(EVIL), ValueError(LONG))
    logger.info("%s", Block("two\nlines"))
    logger.info("%s", LONG)
    first, second, third = lines.texts
    assert first.startswith(f"3 0.5 {escaped(EVIL)} ValueError(")
    assert len(first) < 2 * MAX_ARGUMENT
    assert second == "two\nlines"
    assert len(third) < 2 * MAX_ARGUMENT


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # to have a traceback
        return caught


@pytest.mark.parametrize(
    "make",
    [
        lambda: raised(ValueError(EVIL)),
        lambda: ExceptionGroup(EVIL, [ExceptionGroup("inner", [raised(ValueError(LONG))])]),
        lambda: ExceptionGroup("many", [ValueError(10_000 * "A") for _ in range(1000)]),
        lambda: SyntaxError(EVIL, ("file", 1, 1, EVIL)),
    ],
)
def test_tracebacks(make: Callable[[], BaseException], lines: Lines) -> None:
    logger.error("it failed", exc_info=make())
    assert "Error" in lines.texts[0]
    lines.check()


def test_a_usual_traceback_is_left_to_the_formatter(lines: Lines) -> None:
    """An application may format tracebacks as it likes; lines of a text are indented."""

    class Own(logging.Formatter):
        def formatException(self, ei: object) -> str:  # noqa: N802 - the name is logging's
            return "formatted by the application"

    lines.setFormatter(Own())
    logger.error("it failed", exc_info=ValueError("usual"))
    logger.error("it failed", exc_info=ValueError("two\nlines"))
    assert lines.texts[0] == "it failed\nformatted by the application"
    assert lines.texts[1] == "it failed\nValueError: two\n    lines"


def test_exceptions_that_cannot_be_formatted(lines: Lines) -> None:
    """They are logged as before."""

    class Odd(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    error = Odd()
    error.__notes__ = [1, "a\nb"]
    logger.error("it failed", exc_info=error)
    assert "Odd: <exception str() failed>" in lines.texts[0]


def test_one_filter_for_many_logs() -> None:
    for _ in range(3):
        PeerLog("rsocket_trio.test")
    assert len(logging.getLogger("rsocket_trio.test").filters) == 1
