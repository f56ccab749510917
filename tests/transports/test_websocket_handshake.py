"""The opening handshake: agreement, refusal, and the texts for both sides."""

from __future__ import annotations

import base64
import hashlib

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.listen import NoHandshake
from rsocket_trio.transports.http_head import MAX_HEAD_LINES, MAX_HEAD_SIZE
from rsocket_trio.transports.pages import Page
from rsocket_trio.transports.websocket_handshake import (
    MAX_BODY_SIZE,
    MAX_INTERIM_RESPONSES,
    Endpoint,
    Handshake,
    accept_websocket,
    normal_headers,
    request_websocket,
)
from rsocket_trio.uri import Uri, parse_uri

GOOD = {
    "Host": "example.org",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, section 1.3


def request(line: str = "GET /rsocket HTTP/1.1", **changes: str | None) -> bytes:
    headers = GOOD | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [line, *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def page() -> Page:
    return Page(b"OK.\n")


async def ask(
    data: bytes, path: str = "/rsocket"
) -> tuple[Handshake | ConnectFailed | NoHandshake, bytes]:
    """Return a server's result for a request, and its answer."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(data)
    outcome: Handshake | ConnectFailed | NoHandshake
    try:
        outcome = await accept_websocket(ours, Endpoint(path=path, pages={"/healthz": page}))
    except (ConnectFailed, NoHandshake) as error:
        outcome = error
    await ours.aclose()
    return outcome, b"".join([bytes(part) async for part in theirs])


async def test_both_sides_agree(nursery: trio.Nursery) -> None:
    """The server learns path and headers of the request, the client proposes a subprotocol."""
    ours, theirs = trio.testing.memory_stream_pair()
    handshakes: list[Handshake] = []

    async def serve() -> None:
        handshakes.append(await accept_websocket(theirs, Endpoint(path="/rsocket")))

    nursery.start_soon(serve)
    headers = [("Authorization", "Bearer x"), ("sec-websocket-protocol", "other, rsocket")]
    client = await request_websocket(ours, parse_uri("ws://h:7879/rsocket?a=b"), headers)
    (server,) = handshakes
    assert client.path == server.path == "/rsocket?a=b"
    assert server.headers[0] == ("host", "h:7879")
    assert ("authorization", "Bearer x") in server.headers
    assert ("sec-websocket-protocol", "other, rsocket") in server.headers
    assert client.headers[0] == ("authorization", "Bearer x")


async def test_the_answer_of_the_specification() -> None:
    """The key of RFC 6455's example gets the answer of the example, and no extension."""
    outcome, answer = await ask(request())
    assert isinstance(outcome, Handshake)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b": " + ACCEPT + b"\r\n" in answer
    assert b"permessage-deflate" not in answer


async def test_a_request_in_small_pieces(nursery: trio.Nursery) -> None:
    """The request may come byte by byte."""
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(accept_websocket, ours, Endpoint(path="/rsocket"))
    for byte in request():
        await theirs.send_all(bytes([byte]))
        await trio.testing.wait_all_tasks_blocked()
    assert bytes(await theirs.receive_some()).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (request("POST /rsocket HTTP/1.1", Upgrade=None), 400, "GET"),
        (request("POST /rsocket HTTP/1.1", Content_Length="5") + b"12345", 400, "GET"),
        (request(Upgrade="h2c, other"), 426, "This is no page"),
        (request(Connection="keep-alive"), 400, "Connection: Upgrade"),
        (request("GET /rsocket HTTP/1.0"), 400, "HTTP/1.1"),
        (request(Content_Length="5") + b"12345", 400, "body"),
        (request(Content_Length="5"), 400, "body"),
        (request(Transfer_Encoding="chunked"), 400, "body"),
        (request("CONNECT h:1 HTTP/1.1"), 404, "path"),
        (request("GET http://[::1/rsocket HTTP/1.1"), 400, "no URI"),
        (request("GET http://h/elsewhere HTTP/1.1"), 404, "path"),
        (request("GET ftp://h/rsocket HTTP/1.1"), 404, "path"),
        (request("GET * HTTP/1.1"), 404, "path"),
        (request("GET / HTTP/1.1"), 404, "no WebSocket at this path"),
        (request("GET /rsocket/more HTTP/1.1"), 404, "no WebSocket at this path"),
        (request("POST /rsocket HTTP/1.1"), 400, "GET"),
        (request(Sec_WebSocket_Version="8"), 426, "Version"),
        (request(Sec_WebSocket_Version=None), 400, "Version"),
        (request(Sec_WebSocket_Key=None), 400, "Key"),
        (request(Sec_WebSocket_Key=""), 400, "Key"),
        (request(Sec_WebSocket_Key="c2hvcnQ="), 400, "16 octets"),
        (request(Sec_WebSocket_Key="A" * 24), 400, "16 octets"),
        (request(Sec_WebSocket_Key="!" * 22 + "=="), 400, "base64"),
        (request(Host="user@h"), 400, "no host"),
        (request(Host="a b"), 400, "no host"),
        (request(Host="[::1]x"), 400, "no host"),
        (request(Host="h:http"), 400, "no host"),
        (request("GET http://user:password@h/rsocket HTTP/1.1"), 400, "no host"),
        (request(Connection="\xe9"), 400, "Connection: Upgrade"),
        (request(Host=None), 400, ""),
        (b"nonsense\r\n\r\n", 400, "Bad HTTP"),
        (b"\x16\x03\x01\x02\n\n", 400, "Bad HTTP"),
        (b"\r\n\r\n", 400, ""),
        (request() + b"\x82\x85early", 400, "before the handshake"),
        (request(X="x" * MAX_HEAD_SIZE), 431, "headers"),
        (request(X="x" * (MAX_HEAD_SIZE - 250)) + b"\n" * 200, 400, "before"),
        (b"G" * (MAX_HEAD_SIZE + 1), 431, "headers"),
    ],
)
async def test_a_wrong_handshake_gets_an_http_error(data: bytes, status: int, why: str) -> None:
    """The client gets status and text, and the server's log the error."""
    outcome, answer = await ask(data)
    assert isinstance(outcome, ConnectFailed | NoHandshake)
    assert f"HTTP {status}" in str(outcome)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert f"Content-Length: {len(body)}".encode() in head
    assert why.encode() in body
    assert (b"Sec-WebSocket-Version: 13" in head) == (status == 426)


@pytest.mark.parametrize("filler", [b"a:\r\n", b" \r\n", b"a:\n"])
async def test_the_number_of_header_lines_is_limited(filler: bytes) -> None:
    """The blank line counts, and the size of the lines does not matter."""
    bare = request().removesuffix(b"\r\n")
    lines = MAX_HEAD_LINES - bare.count(b"\n") - 1
    outcome, _ = await ask(bare + filler * lines + b"\r\n")
    assert isinstance(outcome, Handshake)
    for many in (lines + 1, 3000):
        outcome, answer = await ask(bare + filler * many + b"\r\n")
        assert isinstance(outcome, ConnectFailed)
        assert answer.startswith(b"HTTP/1.1 431 ")
    with pytest.raises(ConnectFailed, match="lines of headers"):
        await answered(SWITCHING + filler * MAX_HEAD_LINES + b"\r\n")


async def test_a_request_that_ends_early() -> None:
    """A connection closed before the blank line gets no answer."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(b"GET /")
    await theirs.send_eof()
    with pytest.raises(ConnectFailed, match="ended during"):
        await accept_websocket(ours, Endpoint(path="/"))


async def answered(answer: bytes, uri: Uri | None = None) -> Handshake:
    """Return a client's result for an answer; the accept token is filled in."""
    ours, theirs = trio.testing.memory_stream_pair()
    result: list[Handshake] = []

    async def serve() -> None:
        asked = bytes(await theirs.receive_some())
        key = asked.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
        digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        await theirs.send_all(answer.replace(b"TOKEN", base64.b64encode(digest)))
        await theirs.aclose()

    failure: ConnectFailed | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            result.append(await request_websocket(ours, uri or parse_uri("ws://h:1/")))
        except ConnectFailed as error:
            failure = error
    if failure is not None:
        raise failure
    return result[0]


SWITCHING = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: TOKEN\r\n"
)


@pytest.mark.parametrize(
    ("first", "spoken"),
    [
        (bytes.fromhex("16030100ee010000ea0303"), "TLS"),
        (b"\x00\x00\x2c\x00\x00\x00\x00\x04\x00", "frames over TCP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
    ],
)
async def test_what_is_no_http_is_refused_at_once(
    first: bytes, spoken: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Both ends would wait for each other until a timeout, and neither would learn why."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(first)
    with trio.fail_after(1), pytest.raises(ConnectFailed, match=f"speak HTTP, but {spoken}"):
        await accept_websocket(ours, Endpoint(path="/rsocket"))
    with trio.fail_after(1), pytest.raises(ConnectFailed, match=f"speak HTTP, but {spoken}"):
        await answered(first)


async def test_frames_right_behind_the_answer_are_kept() -> None:
    """A server may send frames at once."""
    handshake = await answered(SWITCHING + b"\r\n\x82\x01x")
    assert handshake.trailing_data == b"\x82\x01x"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404 Not Found"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n", "HTTP 301 Moved Permanently"),
        (b"HTTP/1.1 799 Odd\r\n\r\n", "HTTP 799"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "ended during"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_INTERIM_RESPONSES, "16 responses, and no answer"),
        (SWITCHING.replace(b"websocket", b"h2c") + b"\r\n", "does not switch"),
        (SWITCHING.replace(b"n: Upgrade", b"n: close") + b"\r\n", "does not switch"),
        (SWITCHING.replace(b"TOKEN", b"wrong") + b"\r\n", "accept token"),
        (SWITCHING + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "extension"),
        (SWITCHING + b"Sec-WebSocket-Protocol: other\r\n\r\n", "subprotocol"),
        (SWITCHING + b"Sec-WebSocket-Protocol: \xe9\r\n\r\n", "subprotocol"),
        (b"\0\0\x10nonsense\n\n", "Bad HTTP"),
        (b"x" * (MAX_HEAD_SIZE + 1), "headers"),
        (b"HTTP/1.1 101", "ended during"),
    ],
)
async def test_a_client_says_why_there_is_no_agreement(answer: bytes, why: str) -> None:
    """The error has the status of a refusal, or the fault in the answer."""
    with pytest.raises(ConnectFailed, match=why):
        await answered(answer)


@pytest.mark.parametrize(
    ("uri", "headers", "host"),
    [
        ("ws://h:7879/", [], b"h:7879"),
        ("ws://h/", [], b"h"),
        ("wss://h/", [], b"h"),
        ("ws://[::1]/", [], b"[::1]"),
        ("ws://[::1]:81/", [], b"[::1]:81"),
        ("ws://h:443/", [], b"h:443"),
        ("wss://h:80/", [], b"h:80"),
        ("wss://h:443/", [], b"h"),
        ("ws://[fe80::1%eth0]:81/", [], b"[fe80::1]:81"),
        ("ws://[fe80::1%eth0]/", [], b"[fe80::1]"),
        ("ws://b\u00fccher.example/", [], b"xn--bcher-kva.example"),
        ("ws://127.0.0.1:1/", [("Host", "virtual.example")], b"virtual.example"),
    ],
)
async def test_the_host_header(
    uri: str, headers: list[tuple[str, str]], host: bytes, nursery: trio.Nursery
) -> None:
    """The default port is left out, as in browsers; a given Host replaces the address's."""
    ours, theirs = trio.testing.memory_stream_pair()
    nursery.start_soon(request_websocket, ours, parse_uri(uri), headers)
    asked = bytes(await theirs.receive_some())
    assert b"\r\nHost: " + host + b"\r\n" in asked
    assert asked.startswith(b"GET / HTTP/1.1\r\n")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "header",
    [
        ("Bad Name", "x"),
        ("", "x"),
        ("X", "a\r\nY: b"),
        ("X", "\0"),
        ("X", "\u20ac"),
        ("Connection", "close"),
        ("Sec-WebSocket-Key", "x"),
    ],
)
def test_headers_that_cannot_be_sent(header: tuple[str, str]) -> None:
    """Headers cannot inject lines into a request, and cannot replace the handshake's own."""
    with pytest.raises(ValueError, match=r"header|handshake"):
        normal_headers([header])


@pytest.mark.parametrize("size", [MAX_HEAD_SIZE, MAX_HEAD_SIZE + 1])
async def test_the_size_of_the_head_is_limited(size: int) -> None:
    """It is counted to the end of the blank line."""
    head = request(X="x" * (size - len(request(X=""))))
    assert len(head) == size
    outcome, answer = await ask(head)
    assert isinstance(outcome, Handshake if size == MAX_HEAD_SIZE else ConnectFailed)
    assert answer.startswith(b"HTTP/1.1 101 " if size == MAX_HEAD_SIZE else b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "upgrade", ["WebSocket", "h2c, websocket", "websocket, h2c", "h2c,\tWEBSOCKET"]
)
async def test_the_upgrade_may_be_a_list(upgrade: str) -> None:
    """RFC 6455, 4.2.1: the header includes the word."""
    outcome, _ = await ask(request(Upgrade=upgrade))
    assert isinstance(outcome, Handshake)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://other.example:81/rsocket", "/rsocket"),
        ("HTTPS://other.example/rsocket?a=b", "/rsocket?a=b"),
        ("ws://other.example/rsocket", "/rsocket"),
    ],
)
async def test_a_target_with_a_host(target: str, path: str) -> None:
    """RFC 9112, 3.2.2: it is the path of this server, and its host replaces `Host`."""
    outcome, _ = await ask(request(f"GET {target} HTTP/1.1"))
    assert isinstance(outcome, Handshake)
    assert outcome.path == path
    assert outcome.headers[0] == ("host", target.split("/")[2])


@pytest.mark.parametrize(
    "host", ["", "h", "h:", "a_b.example:81", "127.0.0.1:1", "[::1]:1", "[fe80::1%25lo]", "a%20b"]
)
async def test_hosts_of_all_forms(host: str) -> None:
    """RFC 9110, 7.2: also an empty one."""
    outcome, _ = await ask(request(Host=host))
    assert isinstance(outcome, Handshake)
    assert outcome.headers[0] == ("host", host)


async def test_a_request_without_a_body_may_say_so() -> None:
    outcome, _ = await ask(request(Content_Length="0"))
    assert isinstance(outcome, Handshake)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("target", "status", "checked"),
    [
        ("/rsocket", 426, False),
        ("/healthz", 200, True),
        ("/healthz?x", 200, True),
        ("/", 404, False),
    ],
)
async def test_a_plain_request_is_answered(
    method: str, target: str, status: int, checked: bool
) -> None:
    """A browser's page and a health check are no failed handshakes."""
    data = request(f"{method} {target} HTTP/1.1", Upgrade=None, Connection=None)
    outcome, answer = await ask(data)
    assert isinstance(outcome, NoHandshake)
    assert outcome.expected == checked
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Connection: close" in head
    assert bool(body) == (method == "GET")


async def test_a_health_check_of_an_old_client() -> None:
    """Some load balancers speak HTTP/1.0, without `Host`."""
    _, answer = await ask(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_responses_before_the_answer_are_passed_over() -> None:
    """RFC 9110, 15.2: a client expects them at any time."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    handshake = await answered(interim + SWITCHING + b"\r\n\x82\x01x")
    assert handshake.trailing_data == b"\x82\x01x"
    with pytest.raises(ConnectFailed, match="HTTP 403"):
        await answered(interim + b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"Content-Length: 4\r\n\r\nbusy", b"busy"),
        (b"Content-Length: 9\r\n\r\nbusy", b"busy"),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nbu\r\n2\r\nsy\r\n0\r\n\r\n", b"busy"),
        (b"Transfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\nnonsense", b"busy"),
        (b"\r\nbusy", b"busy"),
        (b"\r\n" + b"x" * 100_000, b"x" * MAX_BODY_SIZE),
    ],
)
async def test_a_refusal_is_kept(answer: bytes, body: bytes) -> None:
    """Status, headers and text, of which there is a limit."""
    with pytest.raises(ConnectFailed) as caught:
        await answered(b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\n" + answer)
    assert caught.value.status == 503
    assert ("retry-after", "5") in caught.value.headers
    assert caught.value.body == body


async def test_a_refusal_whose_text_comes_later_is_kept(nursery: trio.Nursery) -> None:
    """The body is in a packet of its own, as many servers send it; here each byte is."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def refuse() -> None:
        for byte in b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy":
            await theirs.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()

    nursery.start_soon(refuse)
    with pytest.raises(ConnectFailed) as caught:
        await request_websocket(ours, parse_uri("ws://h:1/"))
    assert caught.value.body == b"busy"


@pytest.mark.parametrize(
    ("mime", "text"),
    [
        ("text/plain; charset=utf-8", "HTTP 403 Forbidden: go\\naway"),
        ("text/html", "HTTP 403 Forbidden"),
    ],
)
async def test_what_a_refusal_says_is_in_the_text_of_the_error(mime: str, text: str) -> None:
    """The server says why; a page of HTML of a proxy is left out, and no line of it is one."""
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: {mime}\r\n\r\n".encode()
    with pytest.raises(ConnectFailed) as caught:
        await answered(head + b"go\naway\n")
    assert str(caught.value).endswith(f": {text}")


async def test_a_body_that_does_not_come_is_not_waited_for(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy")
    with pytest.raises(ConnectFailed) as caught:
        await request_websocket(ours, parse_uri("ws://h:1/"))
    assert caught.value.body == b"busy"
    assert trio.current_time() == 1.0
