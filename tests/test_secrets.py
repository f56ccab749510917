"""No ``repr``, no text of an error, no log line and no status shows a secret."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

import rsocket_trio
from rsocket_trio import (
    BearerAuthentication,
    ConnectFailed,
    CustomAuthentication,
    Lease,
    Metadata,
    Payload,
    Peer,
    RequestFacts,
    ResumeFacts,
    Setup,
    SimpleAuthentication,
    StreamedPayload,
    TransportInfo,
    connect,
    frames,
    rsio,
    spool,
    ttrpc,
)
from rsocket_trio.cli import main
from rsocket_trio.collector import Grant, Role, Subscription, parse_subscription
from rsocket_trio.lumberjack import StoredEvents
from rsocket_trio.metadata import CompositeMetadata, MetadataEntry
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.reactive_streams import collect
from rsocket_trio.reactivesocket import frames as old_frames
from rsocket_trio.routing.parameters import Route
from rsocket_trio.sealed import make
from rsocket_trio.ttrpc import OutgoingCall
from rsocket_trio.ttrpc.metadata import as_metadata
from rsocket_trio.ttrpc.server.bound import ServedMethod
from rsocket_trio.ttrpc.server.call import Call, Facts
from rsocket_trio.ttrpc.server.service import BoundMethod
from rsocket_trio.uri import Uri, parse_uri, shown
from rsocket_trio.wires import wire_of
from tests.ports import held_port
from tests.programs import ROOT
from tests.rsio.engine_scenes import pair as rsio_pair

SECRET = "hunter2"
BYTES = SECRET.encode()
HEADERS = (("authorization", f"Bearer {SECRET}"), ("cookie", f"session={SECRET}"))
QUERY = f"/rsocket?token={SECRET}"

INFO = TransportInfo(
    scheme="ws", peer="10.0.0.1:5", listener=f"ws://h:1{QUERY}", path=QUERY, headers=HEADERS
)
SETUP = Setup(
    data=BYTES,
    metadata=BYTES,
    data_mime_type="text/plain",
    metadata_mime_type="text/plain",
    keepalive_interval=1.0,
    max_lifetime=1.0,
    transport=INFO,
    principal=SECRET,
)
METHOD = ttrpc.Method.raw("a.B", "C")

OBJECTS = [
    INFO,
    SETUP,
    ResumeFacts(setup=SETUP, transport=INFO),
    RequestFacts(
        interaction=Interaction.REQUEST_RESPONSE,
        route=Route("x"),
        setup=SETUP,
        outer_principal=SECRET,
    ),
    Payload(b"", BYTES),
    StreamedPayload(None, BYTES),
    SimpleAuthentication("ada", SECRET),
    BearerAuthentication(SECRET),
    CustomAuthentication("mine", BYTES),
    MetadataEntry("mine", BYTES),
    CompositeMetadata([MetadataEntry("mine", BYTES)]),
    CompositeMetadata.decode(MetadataEntry("mine", BYTES).encode()),
    Metadata(auth=BearerAuthentication(SECRET), extra=[MetadataEntry("mine", BYTES)]),
    Lease(1, 1.0, BYTES),
    parse_uri(f"ws://h:1{QUERY}"),
    parse_subscription(f"ws://h:1{QUERY}#events"),
    Subscription(parse_uri("ws://h:1/"), "events", auth=BearerAuthentication(SECRET)),
    Grant(BearerAuthentication(SECRET), Role),
    spool.Batch(1, BYTES, encoding="lines"),
    spool.StoredBatch(
        first=0, count=1, start=0, stop=1, data=BYTES, encoding="", facts={}, stored_at=0.0
    ),
    StoredEvents(raw=[BYTES], is_json=False, first=0),
    parse_subscription(f"rsio://h:1/ticks?token={SECRET}"),
    make(
        Call, ServedMethod.of(BoundMethod(METHOD, print, True, "")), Facts(Peer(INFO)), HEADERS, 0.0
    ),
    make(OutgoingCall, METHOD, HEADERS, INFO),
    ttrpc.wire.messages.Request("a.B", "C", b"", 0, HEADERS),
    frames.SetupFrame(1, 0, 1, 1, metadata=BYTES, data=BYTES, resume_token=BYTES),
    frames.ResumeFrame(1, 0, BYTES, 0, 0),
    frames.RequestResponseFrame(1, metadata=BYTES),
    frames.RequestFnfFrame(1, metadata=BYTES),
    frames.RequestStreamFrame(1, 1, metadata=BYTES),
    frames.RequestChannelFrame(1, 1, metadata=BYTES),
    frames.PayloadFrame(1, metadata=BYTES),
    frames.MetadataPushFrame(BYTES),
    frames.LeaseFrame(1, 1, metadata=BYTES),
    frames.ExtFrame(1, 1, metadata=BYTES),
    old_frames.MetadataPushFrame(BYTES),
    old_frames.RequestResponseFrame(1, metadata=BYTES),
]


@pytest.mark.parametrize("object_", OBJECTS, ids=lambda each: type(each).__name__)
def test_an_object_does_not_show_its_secrets(object_):
    """Objects land in logs, in tracebacks of other tools, and in the output of a debugger."""
    for text in (repr(object_), str(object_), f"{[object_]}"):
        if not isinstance(object_, Uri) or text != str(object_):  # that is the address, to be used
            assert SECRET not in text


WORDS = ("metadata", "header", "token", "password", "secret", "cookie", "credential", "uri")
HARMLESS = ("mime_type", "min_token_size", "has_metadata", "metadata_type", "header_size")
SAFE_TYPES = ("Uri", "Metadata | None", "Dump", "Callable", "bool")


def classes():
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and value.__module__ == module.name and attrs.has(value):
                    yield value


def test_every_class_hides_the_fields_that_may_be_secret():
    """Also those that are written later: a new field ``token`` is shown by default."""
    pytest.importorskip("pyspark")
    pytest.importorskip("google.protobuf")
    shown_fields = [
        f"{cls.__module__}.{cls.__qualname__}.{field.name}"
        for cls in classes()
        for field in attrs.fields(cls)
        if field.repr is True
        and any(word in field.name.lower() for word in WORDS)
        and not any(word in field.name for word in (*HARMLESS, "max_"))
        and not str(field.type).startswith(SAFE_TYPES)
        and not str(getattr(field.type, "__name__", "")).startswith(SAFE_TYPES)
    ]
    assert shown_fields == []


ADDRESSES = [
    (f"tcp://user:{SECRET}@host:1", "tcp://***@host:1"),
    (f"tcp://user:pa/{SECRET}@host:1", "tcp://***@host:1"),
    (f"tcp://user:{SECRET}/ss@host:1", "tcp://***@host:1"),
    (f"ws://user:{SECRET}@host:1/p", "ws://***@host:1/p"),
    (f"ws://user:a@{SECRET}@host:1/p", "ws://***@host:1/p"),
    (f"ws://user:{SECRET}/x@host:1/p", "ws://***@host:1/p"),
    (f"ws://user:pa?{SECRET}@host:1/p", "ws://***"),
    (f"ws://user:pa#{SECRET}@host:1/p", "ws://***@host:1/p"),
    (f"ws://user:[{SECRET}@host:1/p", "ws://***@host:1/p"),
    (f"ws://user: {SECRET}@host:1/p", "ws://***@host:1/p"),
    (f"ws://host:1/p?token={SECRET}", "ws://host:1/p?***"),
    (f"ws://host:1/p?{SECRET}", "ws://host:1/p?***"),
    (f"ws://host:1/p?a=b@{SECRET}", "ws://***"),
    (f"user:{SECRET}@host:1", "***@host:1"),
    (f"{SECRET}@host:1", "***@host:1"),
    (f"mqtt://user:{SECRET}@host:1", "mqtt://***@host:1"),
    (f"rsio://user:{SECRET}@host:1", "rsio://***@host:1"),
    (f"lumberjack://user:{SECRET}@host:1", "lumberjack://***@host:1"),
    (f"vsock://user:{SECRET}@3:1", "vsock://***@3:1"),
    (f"fd://x/{SECRET}@3", "fd://***@3"),
]


@pytest.mark.parametrize(("address", "text"), ADDRESSES)
def test_an_address_as_people_see_it(address, text):
    """Whatever characters a password has."""
    assert shown(address) == text


def test_what_is_no_secret_stays():
    """Paths may have an @, and so may names of abstract sockets."""
    for address in ("unix:///run/a@b.sock", "unix://@name", "tcp://[::1]:7878"):
        assert shown(address) == address
    assert shown(parse_uri("unix:///run/a@b.sock")) == "unix:///run/a%40b.sock"
    assert shown(parse_uri("ws://h:1/a@b?c")) == "ws://h:1/a@b?***"


@pytest.mark.parametrize("address", [address for address, _ in ADDRESSES])
def test_an_error_about_an_address(address):
    """No reason for which it is refused has a part of it."""
    readers = [parse_uri, rsio.rsio_uri, ttrpc.ttrpc_uri, parse_subscription, wire_of]
    refused = []
    for read in readers:
        try:
            read([address] if read is wire_of else address)
        except ValueError as error:
            refused.append(error)
    assert [error for error in refused if SECRET in str(error) or error.__cause__] == []


def is_address(node):
    match node:
        case ast.Attribute(
            value=ast.Name(id="args"), attr="status" | "listen" | "subscribe" | "to"
        ):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_") in {"uri", "address", "listener"}
    return False


def texts_with_addresses(tree):
    """The places where a text for people has an address as it is."""
    for node in ast.walk(tree):
        match node:
            case ast.FormattedValue(value=value) if is_address(value):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger")), args=args):
                yield from (node.lineno for each in args[1:] if is_address(each))


def test_every_text_shows_an_address_by_one_function():
    """A new log line or error with ``{uri}`` would show its query."""
    found = [
        f"{file}:{line}"
        for file in (Path(ROOT) / "rsocket_trio").rglob("*.py")
        for line in texts_with_addresses(ast.parse(file.read_text()))
    ]
    assert found == []


async def test_a_connection_that_cannot_be_made():
    """The text goes into logs."""
    with held_port() as port:
        for dial in (
            lambda: connect(f"ws://127.0.0.1:{port}{QUERY}"),
            lambda: rsio.connect(f"rsio+ws://127.0.0.1:{port}{QUERY}"),
        ):
            with pytest.raises(ConnectFailed) as caught:
                async with dial():
                    raise AssertionError("connected")
            assert SECRET not in str(caught.value)
            assert "***" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["request", f"ws://127.0.0.1:1{QUERY}"],
        ["request", f"tcp://user:pa/{SECRET}@127.0.0.1:1"],
        ["rsio", "subscribe", f"rsio+ws://127.0.0.1:1{QUERY}", "x"],
        ["bench", f"ws://127.0.0.1:1{QUERY}"],
        ["serve", "app.py", "--listen", f"ws://127.0.0.1{QUERY}"],
        ["collect", "--spool", "x", "--subscribe", f"ws://127.0.0.1:1{QUERY}"],
        ["request", "tcp://127.0.0.1:1", "--header", f"Authorization {SECRET}"],
        ["ttrpc", "call", "unix:///x", "a.B/C", "--metadata", f"authorization: {SECRET}"],
        ["conformance", f"rsio://user:{SECRET}@127.0.0.1"],
        ["conformance", "--listen", f"tcp://user:{SECRET}@127.0.0.1:1"],
    ],
    ids=" ".join,
)
def test_the_command_line(arguments, capfd):
    """What it prints about an address or a credential goes into the journal."""
    with suppress(SystemExit):
        main.main(arguments)
    out, err = capfd.readouterr()
    assert err
    assert SECRET not in out + err


async def test_a_header_that_cannot_be_sent():
    """As a token that was read from a file with its line end."""
    headers = {"Authorization": f"Bearer {SECRET}\n"}
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with listener:
        uri = f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/"
        with pytest.raises(ValueError, match="'Authorization' cannot be sent") as caught:
            async with connect(uri, headers=headers):
                raise AssertionError("connected")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "metadata",
    [[("authorization", BYTES)], {"authorization": 5}, [SECRET], [(SECRET,)], 5],
    ids=repr,
)
def test_metadata_of_ttrpc_that_are_refused(metadata):
    """The error names types, and no values."""
    with pytest.raises(TypeError) as caught:
        as_metadata(metadata)
    assert SECRET not in str(caught.value)


async def test_a_publisher_that_fails(caplog):
    """The name of a publisher of rsio may have a query. Neither side shows it."""

    async def items():
        raise KeyError("no token")
        yield

    async with rsio_pair(lambda name, connection: items()) as link:
        publisher = link.publisher(f"ticks?token={SECRET}")
        with pytest.raises(rsio.PublisherError) as caught:
            await collect(publisher)
    for text in (caplog.text, str(caught.value), repr(caught.value), repr(publisher)):
        assert SECRET not in text
    assert "ticks?***" in caplog.text
    assert str(caught.value) == "publisher 'ticks?***': the publisher failed"
