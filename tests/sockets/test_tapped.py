"""Somebody listens in on the connections of a context."""

from __future__ import annotations

import pytest
import trio
import trustme

from rsocket_trio import Payload, Responder, connect, serve
from rsocket_trio.sockets.tapped import TappedStream, tap

CA = trustme.CA()


class Listens:
    """Keeps what it hears of all connections."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool, list[tuple[str, bytes]]]] = []

    def connection(self, info, *, dialled):
        words: list[tuple[str, bytes]] = []
        self.heard.append((info.scheme, dialled, words))
        return Words(words)


class Words:
    def __init__(self, words: list[tuple[str, bytes]]) -> None:
        self.words = words

    def sent(self, data: bytes) -> None:
        self.words.append(("sent", data))

    def received(self, data: bytes) -> None:
        self.words.append(("received", data))

    def closed(self) -> None:
        self.words.append(("closed", b""))


class Echoes(Responder):
    async def request_response(self, payload: Payload) -> Payload:
        return payload


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss", "unix"])
async def test_both_ends_are_heard(scheme: str, tmp_path, nursery: trio.Nursery):
    """What one end sends is what the other receives, behind TLS; then both are closed."""
    import ssl

    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(server_side)
    client_side = ssl.create_default_context()
    CA.configure_trust(client_side)
    secure = scheme in ("tls", "wss")
    listens = Listens()
    token = tap.set(listens)
    address = f"unix://{tmp_path}/socket" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
    server = await nursery.start(
        lambda task_status: serve(
            Echoes(), address, ssl_context=server_side if secure else None, task_status=task_status
        )
    )
    async with connect(server.uris[0], ssl_context=client_side if secure else None) as requester:
        answer = await requester.request_response(Payload(b"a secret"))
        assert answer.data == b"a secret"
    await server.aclose(grace=0)
    tap.reset(token)
    ends = {dialled: words for _, dialled, words in listens.heard}
    assert len(listens.heard) == 2
    for one, other in ((True, False), (False, True)):
        sent = b"".join(data for word, data in ends[one] if word == "sent")
        received = b"".join(data for word, data in ends[other] if word == "received")
        assert sent == received
        assert scheme in ("ws", "wss") or b"a secret" in sent
        assert ("closed", b"") in ends[one]


async def test_nobody_listens_by_default():
    """Then the streams are those without a listener, and nothing costs more."""
    assert tap.get() is None
    left, _ = trio.testing.memory_stream_pair()
    assert not isinstance(left, TappedStream)
