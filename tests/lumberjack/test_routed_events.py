"""A `Router` that is served by Lumberjack: parameters, conversion, guards, refusals."""

from __future__ import annotations

import gc
import json
import logging
import ssl
import weakref
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, TypedDict

import attrs
import pytest
import trio
import trustme

from rsocket_trio import (
    Codecs,
    ConnectionClosed,
    Invalid,
    Payload,
    Peer,
    Principal,
    Provided,
    Rejected,
    RejectedSetup,
    Requester,
    RequestFacts,
    Router,
    Setup,
    TransportInfo,
)
from rsocket_trio.codecs import JsonCodec
from rsocket_trio.lumberjack import Batch, DataFrame, InvalidEvent, encode_batch, serve
from rsocket_trio.lumberjack.server.routed import admit
from rsocket_trio.testing import cancel_everywhere
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared
from tests.lumberjack.vectors import window
from tests.waiting import until

INFO = TransportInfo(scheme="lumberjack", peer="tester")


@attrs.frozen
class Login:
    user: str
    attempts: int = 1


class Line(TypedDict):
    message: str


@attrs.frozen
class Picky:
    n: int = attrs.field()

    @n.validator
    def _check(self, _attribute, value):
        if value < 0:
            raise Invalid(f"{value} is a secret")


@asynccontextmanager
async def running(router, **options):
    """A server of the router."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, router, ADDRESS, **options))
        yield server
        await server.aclose()


def texts(*events):
    return encode_batch([event if isinstance(event, bytes) else event.encode() for event in events])


async def test_parameters():
    """Each parameter gets its value; the batch is acknowledged when the handler returns."""
    router = Router()
    seen = []

    @router.events()
    async def handler(events: list[Login], batch: Batch, *, transport: TransportInfo) -> None:
        assert transport is batch.transport
        assert transport.peer.startswith("127.0.0.1:")
        seen.append((events, batch.events, len(batch)))
        await batch.ack(1)

    async with running(router) as server, sender_to(server) as sender:
        await sender.send(texts('{"user":"ada"}', '{"user":"bob","attempts":3}'))
        assert [await sender.ack(), await sender.ack()] == [(2, 1), (2, 2)]
    events = [{"user": "ada"}, {"user": "bob", "attempts": 3}]
    assert seen == [([Login("ada"), Login("bob", 3)], events, 2)]


class Methods:
    def __init__(self):
        self.seen = []

    async def take(self, prefix: str, events: list[Line], transport: TransportInfo) -> None:
        self.seen.append((prefix, events, transport.scheme))


async def test_bound_methods_and_partials():
    """A parameter that a partial binds is not filled."""
    router, methods = Router(), Methods()
    router.events(partial(methods.take, "x"))
    async with running(router) as server, sender_to(server) as sender:
        await sender.send(texts('{"message":"a","more":1}'))
        assert await sender.ack() == (2, 1)
    assert methods.seen == [("x", [{"message": "a"}], "lumberjack")]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Login, [Login("ada")]),
        (Login | Line, [Login("ada")]),
        (bytes, [b'{"user":"ada"}']),
        (Any, [{"user": "ada"}]),
        (dict[str, Any], [{"user": "ada"}]),
    ],
    ids=str,
)
async def test_conversion(item, expected):
    """Events are converted as the data of other handlers are; bytes are the events as they came."""
    router, seen = Router(), []

    async def handler(events) -> None:
        seen.extend(events)

    handler.__annotations__["events"] = list[item]
    router.events(handler)
    async with running(router) as server, sender_to(server) as sender:
        await sender.send(texts('{"user":"ada"}'))
        assert await sender.ack() == (2, 1)
    assert seen == expected


async def test_key_value_pairs():
    """The pairs of version 1 are an object of text."""
    router, seen = Router(), []

    @router.events()
    async def handler(events: list[Line]) -> None:
        seen.extend(events)

    pairs = DataFrame(1, 1, ((b"message", "ä".encode()), (b"host", b"h"))).encode()
    async with running(router) as server, sender_to(server) as sender:
        await sender.send(window(1, 1) + pairs)
        assert await sender.ack() == (1, 1)
    assert seen == [{"message": "ä"}]


async def test_the_codecs_of_the_router():
    """An included handler has the codecs of its own router."""

    class Marked(JsonCodec):
        def decode(self, data, annotation):
            return {"marked": super().decode(data, annotation)}

    logs, router, seen = Router(codecs=Codecs({"application/json": Marked()})), Router(), []

    @logs.events
    async def handler(events: list[Line]) -> None:
        seen.extend(events)

    router.include(logs, "logs.")
    async with running(router) as server, sender_to(server) as sender:
        await sender.send(texts('{"message":"a"}'))
        assert await sender.ack() == (2, 1)
    assert seen == [{"marked": {"message": "a"}}]


# -- events that do not fit ----------------------------------------------------------------

MISFITS = [
    (b'{"n":"secret"}', "cannot be read as Picky: event.n: expected int, got str"),
    (b'{"m":1}', "cannot be read as Picky: event.n: expected int, got nothing"),
    (b'{"n":', "is not JSON at character 5"),
    (b"\xff", "is not UTF-8 at byte 0"),
    (b'{"n":-1}', "cannot be read as Picky: its class raised Invalid"),
    (b'{"n":1e999}', "cannot be read as Picky: event"),
]


async def test_misfits_with_a_hook():
    """The hook gets each event that does not fit, once; the others get to the handler."""
    router, seen, poisons = Router(), [], []

    @router.events()
    async def handler(events: list[Picky], batch: Batch) -> None:
        assert len(poisons) == len(MISFITS)
        seen.append((events, batch.events, list(batch.numbered()), len(batch)))

    events = [b'{"n":1}', *(raw for raw, _ in MISFITS), b'{"n":2}']
    last = len(events)
    async with running(router, on_poison=poisons.append) as server:
        async with sender_to(server) as sender:
            await sender.send(encode_batch(events))
            assert await sender.ack() == (2, last)
    decoded = [{"n": 1}, {"n": 2}]
    assert seen == [([Picky(1), Picky(2)], decoded, [(1, decoded[0]), (last, decoded[1])], last)]
    assert [(poison.raw, poison.number) for poison in poisons] == [
        (raw, number) for number, (raw, _) in enumerate(MISFITS, 2)
    ]
    for poison, (_, reason) in zip(poisons, MISFITS, strict=True):
        assert poison.reason.startswith(reason)
        assert "secret" not in poison.reason


@pytest.mark.parametrize(("raw", "reason"), MISFITS, ids=lambda each: str(each)[:20])
async def test_misfits_without_a_hook(raw, reason, caplog):
    """The handler is not called, nothing is acknowledged, and the log shows no values."""
    router = Router()

    @router.events()
    async def handler(events: list[Picky]) -> None:
        raise AssertionError

    async with running(router) as server, sender_to(server) as sender:
        await sender.send(encode_batch([b'{"n":1}', raw]))
        assert await sender.acks_until_end() == []
    (record,) = caplog.records
    assert "failed with 2 of 2 events of a batch" in record.getMessage()
    assert isinstance(record.exc_info[1], InvalidEvent)
    assert str(record.exc_info[1]).startswith(f"event 2 {reason}")
    assert "secret" not in caplog.text
    assert "serve(..., on_poison=...) takes such events" in caplog.text


async def test_pairs_that_are_not_text():
    """An event of version 1 that is not UTF-8 is poison too."""
    router, poisons, seen = Router(), [], []

    @router.events()
    async def handler(events: list[Line]) -> None:
        seen.extend(events)

    pairs = DataFrame(1, 1, ((b"message", b"\xff"),)).encode()
    async with running(router, on_poison=poisons.append) as server, sender_to(server) as sender:
        await sender.send(window(1, 1) + pairs)
        assert await sender.ack() == (1, 1)
    assert [poison.reason for poison in poisons] == ["has a key or a value that is not UTF-8"]
    assert seen == []


@pytest.mark.parametrize("takes", ["batch", "bytes"])
async def test_the_hook_and_a_handler_that_converts_nothing(takes):
    """A handler of batches gets them as without a router. Bytes are never poison."""
    router, poisons, seen = Router(), [], []

    async def of_batch(batch: Batch) -> None:
        seen.extend(batch.events)

    async def of_bytes(events: list[bytes]) -> None:
        seen.extend(events)

    router.events(of_batch if takes == "batch" else of_bytes)
    async with running(router, on_poison=poisons.append) as server, sender_to(server) as sender:
        await sender.send(encode_batch([b"1", b"{"]))
        assert await sender.ack() == (2, 2)
    expected = ([1], 1) if takes == "batch" else ([b"1", b"{"], 0)
    assert (seen, len(poisons)) == expected


async def test_a_failing_handler_is_named(caplog):
    """The note of the error names the handler; a missing await is an error too."""
    router, forgotten = Router(), []

    @router.events()
    async def handler(events: list[Line]) -> Any:
        if events[0]["message"] == "fail":
            raise RuntimeError("the disk is full")
        forgotten.append(trio.sleep(0))
        return forgotten[0]

    for message, text in [("fail", "the disk is full"), ("x", "handler returned a coroutine")]:
        async with running(router) as server, sender_to(server) as sender:
            await sender.send(texts(json.dumps({"message": message})))
            assert await sender.acks_until_end() == []
        assert text in caplog.text
        assert "while answering events (tests.lumberjack.test_routed_events" in caplog.text
        caplog.clear()
    forgotten[0].close()


async def test_a_failing_provider_is_named_with_the_handler_that_needs_it(caplog):
    """The log says for which handler the provider was called."""
    router = Router()

    @router.events()
    async def handler(batch: Batch, *, line: Annotated[Login, Provided]) -> None: ...

    async def log_in() -> Login:
        raise RuntimeError("the directory is down")

    router.provide(Login, log_in)
    async with running(router) as server, sender_to(server) as sender:
        await sender.send(texts("{}"))
        assert await sender.acks_until_end() == []
    assert "the directory is down" in caplog.text
    assert "while answering events (tests.lumberjack.test_routed_events" in caplog.text


# -- guards --------------------------------------------------------------------------------


async def test_the_principal():
    """The authenticator is asked about the connection, and then about each batch."""
    asked = []

    async def authenticate(auth, facts):
        assert auth is None
        asked.append(facts)
        if isinstance(facts, Setup):
            return facts.transport.peer.partition(":")[0]
        return f"{facts.principal} as {facts.interaction}"

    router, seen = Router(authenticate=authenticate), []

    @router.events()
    async def handler(batch: Batch, user: Annotated[str, Principal]) -> None:
        seen.append((len(batch), user))

    async with running(router) as server, sender_to(server) as sender:
        await sender.send(full_window(2) + full_window(3))
        assert [await sender.ack(), await sender.ack()] == [(2, 2), (2, 3)]
    assert seen == [(2, "127.0.0.1 as events"), (3, "127.0.0.1 as events")]
    setup, *requests = asked
    assert setup.transport.scheme == "lumberjack"
    assert setup.metadata is None
    assert not setup.ours
    assert [type(facts) for facts in requests] == [RequestFacts] * 2
    assert {(facts.route.name, facts.outer_principal) for facts in requests} == {("", None)}


def refusing(when, error):
    """An authenticator that refuses the connection, or the second batch."""
    batches = []

    async def authenticate(auth, facts):
        if isinstance(facts, Setup):
            if when == "connection":
                raise error
            return "ada"
        batches.append(facts)
        if len(batches) == 2:
            raise error
        return facts.principal

    return authenticate


REFUSALS = [Rejected("not you"), RejectedSetup("not you"), RuntimeError("not you")]


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("when", ["connection", "batch"])
@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_a_refusal(when, error, depth, caplog):
    """Nothing is acknowledged, the connection closes, and the hook and the handler see nothing.

    Also if the guard is that of a router that is included, or included in an included one.
    """
    caplog.set_level(logging.INFO)
    seen = []
    router = Router(authenticate=refusing(when, error))

    @router.events()
    async def handler(batch: Batch) -> None:
        seen.append(batch.raw)

    for _ in range(depth):
        inner, router = router, Router()
        router.include(inner, "inner.")

    async with running(router, on_poison=seen.append) as server:
        async with sender_to(server) as sender, sender_to(server) as other:
            if when == "batch":
                await sender.send(full_window(1))
                assert await sender.ack() == (2, 1)
                assert len(seen) == 1
            await sender.send(full_window(1) if when == "batch" else b"")
            with trio.fail_after(30):
                try:
                    assert await sender.acks_until_end() == []
                except trio.BrokenResourceError:  # reset, as the server has read nothing
                    assert when == "connection"
            seen.clear()
            if when == "batch":  # refused once; other connections go on
                await other.send(encode_batch([b"{"]))
                assert await other.ack() == (2, 1)
                assert len(seen) == 2, "the hook and the handler"
    infos = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert any(message.startswith("refused") for message in infos)
    failures = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    if isinstance(error, RuntimeError):
        assert all("authenticate= of a Router failed" in message for message in failures)
        assert failures
    else:
        assert not failures
        assert any("not you" in message for message in infos)


async def test_all_guards_on_the_way_are_asked():
    """From the outside to the inside; a handler gets the principal of the nearest one."""
    asked = []

    def keeper(name):
        async def authenticate(auth, facts):
            kind = type(facts).__name__
            asked.append((name, kind, getattr(facts, "outer_principal", None), facts.principal))
            return f"{name} {kind}"

        return authenticate

    async def unrelated(auth, facts):
        raise AssertionError("this guard has no events handler")

    inner, middle = Router(authenticate=keeper("inner")), Router()
    outer, other = Router(authenticate=keeper("outer")), Router(authenticate=unrelated)
    outer.include(middle, "middle.")
    outer.include(other, "other.")
    middle.include(inner, "inner.")
    seen = []

    @inner.events()  # registered behind the inclusion
    async def handler(batch: Batch, user: Annotated[str, Principal]) -> None:
        seen.append(user)

    async with running(outer) as server, sender_to(server) as sender:
        await sender.send(full_window(1))
        assert await sender.ack() == (2, 1)
    assert seen == ["inner RequestFacts"]
    assert asked == [
        ("outer", "Setup", None, None),
        ("inner", "Setup", None, None),
        ("outer", "RequestFacts", None, "outer Setup"),
        ("inner", "RequestFacts", "outer RequestFacts", "inner Setup"),
    ]


async def test_on_setup_is_a_guard_too(caplog):
    """It gets a requester that can send nothing; its refusal closes the connection."""
    caplog.set_level(logging.INFO)
    calls = []

    async def on_setup(setup: Setup, requester: Requester) -> None:
        calls.append((setup.principal, requester.closed, requester.transport is setup.transport))
        assert "lumberjack" in repr(requester) or "127.0.0.1" in repr(requester)
        with pytest.raises(ConnectionClosed, match="takes no requests"):
            await requester.request_response(Payload())
        if len(calls) == 2:
            raise RejectedSetup("only one")

    router = Router(on_setup=on_setup)

    @router.events()
    async def handler(batch: Batch) -> None: ...

    async with running(router) as server:
        async with sender_to(server) as sender:
            await sender.send(full_window(1))
            assert await sender.ack() == (2, 1)
        async with sender_to(server) as sender:
            assert await sender.acks_until_end() == []
    assert calls == [(None, True, True)] * 2
    assert "refused the connection of the sender 127.0.0.1" in caplog.text
    assert "only one" in caplog.text


async def test_no_memory_stays_of_a_connection_that_is_over():
    """A server that runs for months has served millions of them."""
    gone = []

    async def on_setup(setup: Setup, requester: Requester) -> None:
        gone.append(weakref.ref(requester))

    router = Router(on_setup=on_setup)

    @router.events()
    async def handler(batch: Batch) -> None: ...

    async with running(router) as server:
        async with sender_to(server) as sender:
            await sender.send(full_window(1))
            assert await sender.ack() == (2, 1)
        await until(
            lambda: not server.statistics().connections and gc.collect() >= 0 and not gone[0]()
        )


async def test_the_client_certificate():
    """A sender authenticates by its certificate, which guards see with the transport facts."""
    authority = trustme.CA()
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(ours)
    authority.configure_trust(ours)
    ours.verify_mode = ssl.CERT_REQUIRED

    def theirs(name):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        authority.issue_cert(name).configure_cert(context)
        return context

    async def authenticate(auth, facts):
        if isinstance(facts, Setup):
            certificate = facts.transport.extra["peer_certificate"]
            names = [name for _, name in certificate["subjectAltName"]]
            if names != ["beat.example"]:
                raise Rejected("unknown sender")
            return names[0]
        return facts.principal

    router, seen = Router(authenticate=authenticate), []

    @router.events()
    async def handler(events: list[Any], user: Annotated[str, Principal]) -> None:
        seen.append(user)

    address = "lumberjacks://127.0.0.1:0"
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, router, address, ssl_context=ours))
        async with sender_to(server, theirs("beat.example")) as sender:
            await sender.send(full_window(1))
            assert await sender.ack() == (2, 1)
        async with sender_to(server, theirs("stranger.example")) as sender:
            try:
                await sender.send(full_window(1))
                assert await sender.acks_until_end() == []
            except trio.BrokenResourceError:
                pass  # reset, as the server has read nothing
        await server.aclose()
    assert seen == ["beat.example"]


@pytest.mark.parametrize("answer", [None, "ada"])
async def test_a_handler_that_needs_a_principal(answer, caplog):
    """Without one the batch is refused, unless the annotation allows it."""
    caplog.set_level(logging.INFO)

    async def authenticate(auth, facts):
        return answer

    seen = []

    async def needing(batch: Batch, user: Annotated[str, Principal]) -> None:
        seen.append(user)

    async def allowing(batch: Batch, user: Annotated[str | None, Principal]) -> None:
        seen.append(user)

    for needs in (True, False):
        router = Router(authenticate=authenticate)
        seen.clear()
        router.events(needing if needs else allowing)
        async with running(router) as server, sender_to(server) as sender:
            await sender.send(full_window(1))
            if answer is None and needs:
                assert await sender.acks_until_end() == []
                assert "authentication is needed" in caplog.text
            else:
                assert await sender.ack() == (2, 1)
                assert seen == [answer]


# -- guards that misbehave -----------------------------------------------------------------


def guarded_by(authenticate):
    router = Router(authenticate=authenticate)

    @router.events()
    async def handler(batch: Batch) -> None: ...

    return router


async def test_guards_that_never_answer(autojump_clock, caplog):
    """The connection is refused after a while."""

    async def authenticate(auth, facts):
        await trio.sleep_forever()

    assert await admit(guarded_by(authenticate), Peer(INFO), None, 10) is None
    assert "did not answer within 10 s (first_byte_timeout)" in caplog.text


KEPT = []


async def test_guards_that_leave_a_nursery_open(caplog):
    """This ends only their own connection."""

    async def authenticate(auth, facts):
        nursery = trio.open_nursery()
        opened = await nursery.__aenter__()
        opened.start_soon(trio.sleep_forever)
        KEPT.append(nursery)

    async with running(guarded_by(authenticate)) as server:
        for _ in range(2):
            async with sender_to(server) as sender:
                assert await sender.acks_until_end() == []
    KEPT.clear()
    assert "because a guard of the Router failed" in caplog.text
    assert "crashed" not in caplog.text


async def test_stop_while_a_guard_is_asked():
    """The server ends; a connection that is admitted afterwards is not served."""
    asked = trio.Event()

    async def authenticate(auth, facts):
        asked.set()
        await trio.sleep(0.05)

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, guarded_by(authenticate), ADDRESS)
        async with sender_to(server) as sender:
            await asked.wait()
            await server.aclose()
            assert await sender.acks_until_end() == []
        assert server.statistics().connections == 0


async def test_cancelled_everywhere():
    """A batch whose guards, hook or handler are cancelled is not acknowledged."""
    steps = []

    async def authenticate(auth, facts):
        await trio.lowlevel.checkpoint()
        return "ada"

    async def hook(_poison):
        await trio.lowlevel.checkpoint()

    router = Router(authenticate=authenticate)

    @router.events()
    async def handler(events: list[Line], user: Annotated[str, Principal]) -> None:
        await trio.lowlevel.checkpoint()
        steps.append(user)

    handler_of_connection, _ = await admit(router, Peer(INFO), hook, 10)

    async def operation():
        steps.clear()
        async with served(shared(handler_of_connection)) as one:
            await one.sender.send(encode_batch([b"{", b'{"message":"x"}']))
            steps.append(await one.sender.ack())

    async def check():
        assert steps in ([], ["ada"], ["ada", (2, 2)])

    assert await cancel_everywhere(operation, check) > 3

    async def admitting():
        await admit(router, Peer(INFO), hook, 10)

    async def nothing(): ...

    assert await cancel_everywhere(admitting, nothing) > 1


# -- what serve refuses --------------------------------------------------------------------


class OwnAccept(Router):
    async def accept(self, setup, requester):
        raise RejectedSetup("never")


async def takes_a_principal(batch: Batch, user: Annotated[str, Principal]) -> None: ...


async def takes_a_batch(batch: Batch) -> None: ...


@pytest.mark.parametrize(
    ("router", "handler", "error", "text"),
    [
        (Router(), None, ValueError, r"handles no events: .* with @router.events\(\)"),
        (Router(), takes_a_principal, TypeError, "no authenticator: give it authenticate="),
        (OwnAccept(), takes_a_batch, TypeError, r"OwnAccept.accept would not be called"),
    ],
    ids=["no handler", "no authenticator", "own accept"],
)
async def test_routers_that_cannot_be_served(router, handler, error, text):
    """These are errors before anything is opened."""
    if handler is not None:
        router.events(handler)
    with pytest.raises(error, match=text):
        await serve(router, ADDRESS)
