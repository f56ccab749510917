"""A router remembers the handlers of requests, but no metadata that may be secret."""

import gc
from collections import deque
from contextlib import suppress
from types import CellType, FunctionType, MethodType

import pytest

from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.authentication import BearerAuthentication, SimpleAuthentication
from rsocket_trio.metadata.builder import Metadata
from rsocket_trio.metadata.composite import MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.tracing_zipkin import ZipkinTrace
from rsocket_trio.payload import Payload
from rsocket_trio.routing import Router
from rsocket_trio.routing.bound import BoundRouter

SECRET = b"opensesame"
PASSWORD = SimpleAuthentication("ada", SECRET.decode())
TOKEN = BearerAuthentication(SECRET.decode())
TRACE = ZipkinTrace(trace_id=bytes(8), span_id=bytes(8))
CONTAINERS = (dict, list, tuple, set, frozenset, deque, CellType, MethodType)
BY_NAME = bytes((len(MIME.AUTHENTICATION) - 1,)) + MIME.AUTHENTICATION.upper().encode()


def keeps(bound: BoundRouter, secret: bytes) -> bool:
    """Whether the secret is in bytes or text that the parts of a bound router refer to."""
    seen, waiting = set(), deque([bound])
    while waiting:
        found = waiting.popleft()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, str):
            found = found.encode(errors="replace")
        if isinstance(found, bytes):
            if secret in found:
                return True
        elif isinstance(found, FunctionType):
            waiting.extend(found.__closure__ or ())
        elif isinstance(found, CONTAINERS) or type(found).__module__.startswith("rsocket_trio"):
            waiting.extend(gc.get_referents(found))
    return False


def make_router(**options) -> Router:
    router = Router(**options)

    @router.request_response("me")
    async def me() -> str:
        return "me"

    @router.request_response()
    async def without_a_route() -> str:
        return "no route"

    return router


async def admit(auth, facts):
    return "somebody"


def entry(mime_type: bytes, content: bytes) -> bytes:
    return mime_type + len(content).to_bytes(3, "big") + content


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(
    "metadata",
    [
        Metadata(route="me", auth=PASSWORD).encode(),
        Metadata(route="me", auth=TOKEN).encode(),
        Metadata(auth=TOKEN).encode(),
        Metadata(route="me").encode() + entry(BY_NAME, TOKEN.encode()),
        Metadata(route="me", data_mime_type=MIME.JSON).encode() + Metadata(auth=TOKEN).encode(),
        Metadata(route="me", auth=SimpleAuthentication("x", "y")).encode()
        + Metadata(auth=TOKEN).encode(),
        Metadata(route="me").encode() + MetadataEntry("x-api-key", SECRET).encode(),
        Metadata(route="me", data_mime_type=MIME.JSON).encode() + b"\xfc\0\0\xff" + SECRET,
    ],
    ids=["password", "token", "no route", "name", "behind", "two", "another type", "cut off"],
)
async def test_no_secret_is_kept(bind, metadata, guarded):
    """Credentials are not kept, with a guard or without, wherever they are in the metadata."""
    bound = await bind(make_router(authenticate=admit) if guarded else make_router())
    with suppress(Invalid):  # a guard refuses damaged credentials
        await bound.request_response(Payload(b"", metadata))
    assert not keeps(bound, SECRET)


@pytest.mark.parametrize("mime_type", [MIME.AUTHENTICATION, MIME.JSON, "x-api-key"])
async def test_metadata_of_another_type_are_not_kept(bind, mime_type):
    """All metadata of a connection may be secret; the handler is found all the same."""
    bound = await bind(make_router(), metadata=mime_type)
    for _ in range(2):
        answer = await bound.request_response(Payload(b"", TOKEN.encode()))
        assert answer.data == b'"no route"'
    assert not keeps(bound, SECRET)


async def test_routes_are_kept(bind):
    """The usual metadata are kept, so that this file tests something."""
    bound = await bind(make_router())
    metadata = Metadata(route="me", data_mime_type=MIME.JSON, accept=(MIME.JSON,)).encode()
    await bound.request_response(Payload(b"", metadata))
    assert keeps(bound, Metadata(route="me").encode())
    assert keeps(bound, metadata)
    # With another entry of any size, also one that nobody reads, they may be secret.
    for more in (MetadataEntry("x-api-key", b"").encode(), Metadata(trace=TRACE).encode()):
        await bound.request_response(Payload(b"", metadata + more))
        assert not keeps(bound, metadata + more)


async def test_a_peer_cannot_fill_the_memory_with_types(bind):
    """Only as many metadata with types are kept as one peer needs; the oldest make room."""
    bound = await bind(make_router())
    encoded = [
        Metadata(route="me", data_mime_type=f"text/plain; n={n}").encode() for n in range(200)
    ]
    encoded.append(Metadata(route="me", accept=["x/y"] * 50, data_mime_type=MIME.JSON).encode())
    for metadata in encoded:
        await bound.request_response(Payload(b"", metadata))
    kept = [keeps(bound, metadata) for metadata in encoded]
    assert kept == [False] * 136 + [True] * 64 + [False]
