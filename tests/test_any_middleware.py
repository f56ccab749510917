"""Any chain of blocks around any handler, on each wire that has handlers.

Blocks that do nothing are not noticed: what a handler, its requester and the log see is written
down, once without the blocks and once with them, and must be the same. Blocks that misbehave harm
their own request, and the log names them.

The tests of known ones have the same examples each time, `test_fresh` has others.
"""

from __future__ import annotations

import contextvars
import inspect
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Annotated

import attrs
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rsocket_trio import (
    AccessLog,
    Call,
    Caller,
    CallMeter,
    ConnectionConfig,
    Peer,
    Provided,
    Router,
    TransportInfo,
    connect,
    errors,
    rsio,
    serve_transport,
    ttrpc,
)
from rsocket_trio.lumberjack.server.routed import admit
from rsocket_trio.reactive_streams import collect, open_iter
from rsocket_trio.reactivesocket import ReactiveSocketTransport
from rsocket_trio.testing import cancel_everywhere
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports.memory import memory_transport_pair
from rsocket_trio.ttrpc import Method, MethodKind
from tests.lumberjack.receiving import full_window, served, shared
from tests.misuses import MISUSES, TOUCHED, enter_nursery, remembered
from tests.ttrpc.scenes import pair as ttrpc_pair

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
VARIABLE = contextvars.ContextVar("variable", default="unset")
SERVICE = "demo.Words"
ROUTE = f"{SERVICE}/"
DEFAULT = ConnectionConfig()
FRAGMENTS = ConnectionConfig(fragment_size=64)
LARGE = b"d" * 300

# -- what a handler does -----------------------------------------------------------------------

STEPS = ["checkpoint", "item", "read", "variable", "scope", "shield", "nursery", "sleep"]
ENDS = [
    "returns",
    "StreamError",
    "Rejected",
    "ValueError",
    "chained",
    "group",
    "nested group",
    "group of two",
    "group with StreamError",
    "StopAsyncIteration",
    "StopIteration",
    "GeneratorExit",
    "stray Cancelled",
    "nursery",
    "deadline",
]
CUTS = ["cancels", "leaves", "raises", "is lost"]
"""What its requester does while it waits: its task is cancelled, it leaves the stream, an error
leaves the block of the stream, the connection is lost."""
WHEN_CUT = ["raise", "return", "another error", "wait"]
"""What the handler does then; it may wait behind a shield."""


@attrs.frozen
class Script:
    """What a handler does, and its requester.

    Attributes:
        steps: What the handler does, one by one.
        end: How it ends.
        cut: What its requester does at a step, if there is one.
        at: The step.
        when_cut: What the handler does then.
    """

    steps: tuple[str, ...] = ("checkpoint", "item")
    end: str = "returns"
    cut: str | None = None
    at: int = 0
    when_cut: str = "raise"


@st.composite
def scripts(draw):
    steps = draw(st.lists(st.sampled_from(STEPS), max_size=5))
    cut = draw(st.none() | st.sampled_from(CUTS))
    at = 0 if cut is None else draw(st.integers(0, len(steps)))
    when_cut = "raise" if cut is None else draw(st.sampled_from(WHEN_CUT))
    end = draw(st.sampled_from(ENDS)) if cut is None else "returns"
    return Script(tuple(steps), end, cut, at, when_cut)


class Scene:
    """One connection, with requests; what is seen of them.

    Attributes:
        script: What the handler of the next request does.
        seen: What handlers have seen.
        got: What requesters have got.
        reached: The handler waits at its cut.
        outcomes: What an observing block says of how requests end.
        meter: Counts the requests.
        lines: What an access log says of them.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[object] = []
        self.got: list[object] = []
        self.reached = trio.Event()
        self.outcomes: list[object] = []
        self.meter = CallMeter()
        self.lines: list[str] = []

    async def work(self, items=None) -> AsyncIterator[bytes]:
        """Do the steps, then come to the end."""
        script = self.script
        tasks = {trio.lowlevel.current_task()}
        self.seen.append(f"variable {VARIABLE.get()}")
        try:
            for number, step in enumerate([*script.steps, "end"]):
                if script.cut is not None and number == script.at:
                    self.reached.set()
                    await self.wait()
                self.seen.append(f"step {step}")
                if step == "item":
                    yield b"item %d" % number
                elif step == "end":
                    await self.end()
                else:
                    await self.step(step, items)
                tasks.add(trio.lowlevel.current_task())
                self.seen.append(f"variable {VARIABLE.get()}")
        except BaseException as error:
            self.seen.append(("sees", shape(error)))
            raise
        finally:
            tasks.add(trio.lowlevel.current_task())
            self.seen.append(f"is left; {len(tasks)} task")

    async def wait(self):
        """Wait for the cut, which a block may hide."""
        try:
            await trio.sleep(50)
        except trio.Cancelled:
            when_cut = self.script.when_cut
            if when_cut == "another error":
                raise ValueError("secret, when it was cut") from None
            if when_cut == "raise":
                raise
            if when_cut == "wait":
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                raise

    async def step(self, step, items):
        match step:
            case "checkpoint":
                await trio.lowlevel.checkpoint()
            case "read" if items is not None:
                try:
                    self.seen.append(await anext(items))
                except StopAsyncIteration:
                    self.seen.append("no more items")
            case "variable":
                VARIABLE.set("set by the handler")
            case "scope":
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await trio.sleep_forever()
            case "shield":
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()
            case "nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.lowlevel.checkpoint)
            case "sleep":
                await trio.sleep(0.1)

    async def end(self):
        no = errors.CustomError("no", code=0x321)
        match self.script.end:
            case "StreamError":
                raise no
            case "Rejected":
                raise errors.Rejected("not now")
            case "ValueError":
                raise ValueError("secret")
            case "chained":
                try:
                    raise KeyError("secret")
                except KeyError as error:
                    raise no from error
            case "group":
                raise ExceptionGroup("one", [no])
            case "nested group":
                raise ExceptionGroup("outer", [ExceptionGroup("inner", [no])])
            case "group of two":
                raise ExceptionGroup("two", [ValueError("secret"), KeyError("secret")])
            case "group with StreamError":
                raise ExceptionGroup("two", [ValueError("secret"), no])
            case "StopIteration":
                raise StopIteration("secret")
            case "GeneratorExit":
                raise GeneratorExit
            case "stray Cancelled":
                raise await stray()
            case "nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.fail)
                    await trio.sleep_forever()
            case "deadline":
                with trio.fail_after(0.1):
                    await trio.sleep_forever()

    async def fail(self):
        raise ValueError("secret of a task")

    async def whole(self, items=None) -> bytes:
        """Do the same for a request with one answer."""
        async with aclosing(self.work(items)) as got:
            answer = b",".join([item async for item in got])
        if self.script.end == "StopAsyncIteration":  # no generator lets it out
            raise StopAsyncIteration("secret")
        return answer


async def stray():
    """A `trio.Cancelled` that belongs to no scope that is open."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            kept = error
    return kept


def shape(error):
    """What an exception is, with its causes and those in it."""
    if error is None:
        return None
    if isinstance(error, trio.Cancelled):
        return f"Cancelled {error.source} {error.reason}"
    told = [repr(error), *getattr(error, "__notes__", ())]
    if isinstance(error, BaseExceptionGroup):
        told = [type(error), error.message, *map(shape, error.exceptions)]
    if error.__cause__ is not None:
        told.append(shape(error.__cause__))
    return told


# -- blocks that do nothing ----------------------------------------------------------------------


def blocks_of(scene):
    """All forms of blocks that do nothing."""

    async def generator(call):
        yield

    async def with_finally(call):
        try:
            yield
        finally:
            call.attributes["left"] = True

    async def that_raises_again(call):
        try:
            yield
        except BaseException:
            raise

    @asynccontextmanager
    async def manager(call):
        yield

    class Block:
        def __init__(self, call):
            pass

        async def __aenter__(self):
            pass

        async def __aexit__(self, *error):
            return None

    async def with_a_scope(call):
        with trio.CancelScope():
            yield

    async def that_waits(call):
        await trio.lowlevel.checkpoint()
        yield
        await trio.lowlevel.checkpoint()

    async def with_a_variable(call):
        own = contextvars.ContextVar("own")
        token = own.set(call)
        try:
            yield
        finally:
            assert own.get() is call
            own.reset(token)

    async def within_another(call):
        async with manager(call):
            yield

    async def observer(call):
        task = trio.lowlevel.current_task()
        outcome = []
        scene.outcomes.append(outcome)
        try:
            yield
        finally:
            assert trio.lowlevel.current_task() is task
            outcome += [str(call.interaction), str(call.outcome), call.items]

    every = [
        generator, with_finally, that_raises_again, manager, Block, with_a_scope, that_waits,
        with_a_variable, within_another, observer,
    ]  # fmt: skip
    if scene is None:
        return {each.__name__: each for each in every}
    log = AccessLog(scene.lines.append, form="json", burst=1000)
    return {each.__name__: each for each in every} | {"meter": scene.meter, "log": log}


BLOCKS = [name for name in blocks_of(None) if name != "observer"]


class One:
    pass


class Two:
    pass


class Three:
    pass


NEEDED = [One, Two, Three]
FORMS = ["function", "async", "generator", "manager", "needing"]
SCOPES = ["request", "connection", "application"]


def provide(router, number, form, scope, held):
    """Have a router provide one of the types, in one of the forms."""
    key = NEEDED[number]
    if form is None:
        router.provide(key, key())
        return
    if callable(form):
        is_block = inspect.isasyncgenfunction(inspect.unwrap(form))
        router.provide(key, form, held=held if is_block else None)
        return

    async def made_async():
        return key()

    async def generator():
        yield key()

    @asynccontextmanager
    async def manager():
        yield key()

    async def needing(one: Annotated[One, Provided]):
        assert isinstance(one, One)
        with trio.CancelScope():
            yield key()

    sources = {
        "function": key,
        "async": made_async,
        "generator": generator,
        "manager": manager,
        "needing": needing if number else generator,
    }
    is_block = form in ("generator", "manager", "needing")
    router.provide(
        key, sources[form], scope=scope, held=held if is_block and scope == "request" else None
    )


@attrs.frozen
class Chain:
    """Blocks around a handler; by default there are none.

    Attributes:
        outer: The names of the middleware of the router that is served.
        included: Those of a router that it includes.
        inner: Those of the handler.
        ours: Those around the requests of the client.
        provided: The forms of the three providers, with their scopes.
        held: How long a stream holds them.
        guarded: There is an authenticator between the middleware.
        fragments: The request comes in fragments.
    """

    outer: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    provided: tuple[tuple[str | None, str | None], ...] = ((None, None),) * 3
    held: str = "call"
    guarded: bool = False


@st.composite
def chains(draw):
    """Ten blocks at most, in three places, three around the request, and three providers."""
    blocks = draw(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=10))
    one, two = sorted(draw(st.tuples(st.integers(0, 10), st.integers(0, 10))))
    provided, longest = [], 2
    for form in draw(st.tuples(*[st.none() | st.sampled_from(FORMS)] * 3)):
        scope = None
        if form is not None:  # what is used longer cannot need what is used for a shorter time
            longest = min(longest, draw(st.integers(0, 2)))
            scope = SCOPES[longest]
        provided.append((form, scope))
    return Chain(
        outer=tuple(blocks[:one]),
        included=tuple(blocks[one:two]),
        inner=tuple(blocks[two:]),
        ours=tuple(draw(st.lists(st.sampled_from(BLOCKS), max_size=3))),
        provided=tuple(provided),
        held=draw(st.sampled_from(["call", "start"])),
        guarded=draw(st.booleans()),
    )


async def authenticate(auth, facts):
    return "somebody"


def router_of(scene, chain, blocks):
    """A router with a handler of each interaction."""
    inner = Router(authenticate=authenticate if chain.guarded else None)
    outer = Router(
        middleware=[blocks[name] for name in chain.outer],
        authenticate=authenticate if chain.guarded else None,
    )
    for number, (form, scope) in enumerate(chain.provided):
        provide(inner if scope == "request" else outer, number, form, scope, chain.held)
    around = {"middleware": [blocks[name] for name in chain.inner]}

    async def stream(data: bytes, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> Items:
        return scene.work()

    async def channel(items: Received, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> Items:
        return scene.work(items)

    if chain.held == "call":

        async def stream(data: bytes, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> Items:
            async with aclosing(scene.work()) as got:
                async for item in got:
                    yield item

        async def channel(
            items: Received, one: NeedsOne, two: NeedsTwo, three: NeedsThree
        ) -> Items:
            async with aclosing(scene.work(items)) as got:
                async for item in got:
                    yield item

    async def response(data: bytes, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> bytes:
        return await scene.whole()

    async def drop(data: bytes, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> None:
        await scene.whole()

    async def good(data: bytes, one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> bytes:
        return await innocent(data)

    for name in ("", "Bad"):
        inner.request_response(f"Response{name}", **around)(response)
        inner.request_stream(f"Stream{name}", **around)(stream)
        inner.request_channel(f"Channel{name}", **around)(channel)
        inner.fire_and_forget(f"Drop{name}", **around)(drop)
    inner.request_response("Good", **around)(good)
    inner.metadata_push(**around)(drop)

    @inner.events(**around)
    async def events(events: list[bytes], one: NeedsOne, two: NeedsTwo, three: NeedsThree) -> None:
        await scene.whole()

    outer.include(inner, ROUTE, middleware=[blocks[name] for name in chain.included])
    return outer


NeedsOne = Annotated[One, Provided]
NeedsTwo = Annotated[Two, Provided]
NeedsThree = Annotated[Three, Provided]
Items = AsyncIterator[bytes]
Received = trio.abc.ReceiveChannel[bytes]


async def innocent(data):
    """The handler of a request that must not notice what others do."""
    for _ in range(2):
        task = trio.lowlevel.current_task()
        assert not task.child_nurseries
        assert not TOUCHED.get()
        assert task not in remembered
        await trio.sleep(3 if data == b"wait" else 0)
    return b"good"


def service_of(scene):
    """A service of ttrpc with a method of each kind."""
    service = ttrpc.Service(SERVICE)

    async def response(data: bytes) -> bytes:
        return await scene.whole()

    async def stream(data: bytes) -> Items:
        async with aclosing(scene.work()) as got:
            async for item in got:
                yield item

    async def join(items: Received) -> bytes:
        return await scene.whole(items)

    async def channel(items: Received) -> Items:
        async with aclosing(scene.work(items)) as got:
            async for item in got:
                yield item

    for name in ("", "Bad"):
        service.method(f"Response{name}")(response)
        service.method(f"Stream{name}")(stream)
        service.method(f"Join{name}")(join)
        service.method(f"Channel{name}")(channel)
    service.method("Good")(innocent_bytes)
    return service


async def innocent_bytes(data: bytes) -> bytes:
    return await innocent(data)


# -- the wires -----------------------------------------------------------------------------------


@attrs.frozen
class End:
    """The end of a requester.

    Attributes:
        answer: Makes a request, and waits for its answer if it has one.
        items: Opens a stream, for ``async with``.
        good: Makes a request that must not notice what others do; it may wait for a while.
        lose: Loses the connection.
    """

    answer: object
    items: object
    good: object
    lose: object


@asynccontextmanager
async def over_rsocket(scene, chain, blocks, *, draft=False, data=b"x", config=DEFAULT):
    near, far = memory_transport_pair()
    client, server = near, far
    if draft:
        client = ReactiveSocketTransport(near, client=True)
        server = ReactiveSocketTransport(far, client=False)
    async with trio.open_nursery() as nursery:
        router = router_of(scene, chain, blocks)
        nursery.start_soon(partial(serve_transport, router, server, config=config))
        ours = [blocks[name] for name in chain.ours]
        async with connect(client, config=config) as requester:
            caller = Caller(requester, middleware=ours)

            async def answer(interaction):
                if interaction == "Push":
                    return await requester.metadata_push(b"")  # no entries, which can be read
                if interaction.startswith("Drop"):
                    return await caller.fire_and_forget(ROUTE + interaction, data)
                return await caller.request_response(ROUTE + interaction, data, returns=bytes)

            def items(interaction):
                if interaction.startswith("Stream"):
                    return caller.request_stream(ROUTE + interaction, data, returns=bytes)
                return caller.request_channel(ROUTE + interaction, [b"a", b"b"], returns=bytes)

            async def good(data):
                return await caller.request_response(ROUTE + "Good", data, returns=bytes)

            yield End(answer, items, good, far.aclose)


over_the_draft = partial(over_rsocket, draft=True)
in_fragments = partial(over_rsocket, data=LARGE, config=FRAGMENTS)


@asynccontextmanager
async def over_rsio(scene, chain, blocks):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, router_of(scene, chain, blocks), theirs)
        async with rsio.connect(ours) as connection:

            def items(interaction):
                return open_iter(connection.publisher(f"{ROUTE}{interaction}?data=x"))

            async def answer(interaction):
                return await collect(connection.publisher(f"{ROUTE}{interaction}?data=x"))

            async def good(data):
                name = f"{ROUTE}Good?data={data.decode()}"
                return b"".join(await collect(connection.publisher(name)))

            yield End(answer, items, good, theirs.aclose)


@asynccontextmanager
async def over_ttrpc(scene, chain, blocks, *, service=False):
    here, there = ttrpc_pair()
    if service:
        every = [*chain.outer, *chain.included, *chain.inner]
        serve = partial(
            ttrpc.serve_stream, service_of(scene), there, middleware=[blocks[n] for n in every]
        )
    else:
        serve = partial(ttrpc.serve_stream, router_of(scene, chain, blocks), there)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        ours = [blocks[name] for name in chain.ours]
        async with ttrpc.connect(here, middleware=ours) as client:

            async def answer(interaction):
                if interaction.startswith("Join"):
                    method = Method.raw(SERVICE, interaction, MethodKind.CLIENT_STREAM)
                    async with client.client_stream(method) as call:
                        await call.send(b"a")
                        return await call.reply()
                return await client.unary(Method.raw(SERVICE, interaction), b"x")

            @asynccontextmanager
            async def items(interaction):
                if interaction.startswith("Stream"):
                    method = Method.raw(SERVICE, interaction, MethodKind.SERVER_STREAM)
                    async with client.server_stream(method, b"x") as got:
                        yield got
                else:
                    method = Method.raw(SERVICE, interaction, MethodKind.BIDI_STREAM)
                    async with client.bidi_stream(method) as call:
                        await call.send(b"a")
                        await call.end()
                        yield call

            async def good(data):
                return await client.unary(Method.raw(SERVICE, "Good"), data)

            yield End(answer, items, good, there.aclose)
        nursery.cancel_scope.cancel()


over_a_service = partial(over_ttrpc, service=True)


@asynccontextmanager
async def over_lumberjack(scene, chain, blocks):
    router = router_of(scene, chain, blocks)
    info = TransportInfo(scheme="lumberjack", peer="tester")
    async with router.lifespan():
        handler, bound = await admit(router, Peer(info), None, 10)
        async with AsyncExitStack() as stack:
            block = bound.connection_block()
            if block is not None:
                await stack.enter_async_context(block)
            async with served(shared(handler)) as one:

                async def answer(_interaction):
                    await one.sender.send(full_window(2))
                    return await one.sender.ack()

                yield End(answer, None, None, one.sender.stream.aclose)


RSOCKET = ["Response", "Stream", "Channel", "Drop", "Push"]
WIRES = {
    "rsocket": (over_rsocket, RSOCKET),
    "fragments": (in_fragments, ["Response", "Stream", "Drop"]),
    "draft": (over_the_draft, ["Response", "Stream", "Channel", "Drop"]),
    "rsio": (over_rsio, ["Response", "Stream"]),
    "ttrpc router": (over_ttrpc, ["Response", "Stream", "Channel", "Drop"]),
    "ttrpc service": (over_a_service, ["Response", "Stream", "Join", "Channel"]),
    "lumberjack": (over_lumberjack, ["Events"]),
}


@contextmanager
def logged():
    """Gather what is logged."""
    records = []
    log = logging.Handler()
    log.emit = records.append
    logger = logging.getLogger("rsocket_trio")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(log)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # thousands of runs are too much for pytest
    try:
        yield records
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
        logger.propagate = propagate


def told(record):
    error = record.exc_info[1] if record.exc_info else None
    return record.levelname, record.getMessage(), shape(error)


@attrs.frozen
class OfTheBlock(Exception):
    """Raised in the block of a stream."""


def observe(wire, interaction, script, chain):
    """Make one request, then another one, which shows that the connection is whole."""
    scene = Scene(script)
    with logged() as records:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(act, wire, interaction, scene, chain, clock=clock)
    return scene, [scene.seen, scene.got, list(map(told, records))]


async def act(wire, interaction, scene, chain):
    over, _ = WIRES[wire]
    script = scene.script
    is_stream = interaction.startswith(("Stream", "Channel"))
    with trio.fail_after(1000):
        async with assert_no_leaks(), over(scene, chain, blocks_of(scene)) as end:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, end, interaction, scene)
                if script.cut is not None:
                    await scene.reached.wait()
                    await trio.testing.wait_all_tasks_blocked()
                    if script.cut == "is lost":
                        await end.lose()
                    elif script.cut == "cancels" or not is_stream:
                        nursery.cancel_scope.cancel()
            await trio.sleep(5)
            if script.cut is None or (script.cut != "is lost" and is_stream):
                scene.script = Script()
                await ask(end, interaction, scene)
                await trio.sleep(5)
            await end.lose()  # now is the time for handlers that were not told
            await trio.sleep(5)


async def ask(end, interaction, scene):
    """Make a request, and write down what its requester gets."""
    script = scene.script
    try:
        if interaction.startswith(("Stream", "Channel")):
            async with end.items(interaction) as items:
                if script.cut in ("leaves", "raises"):
                    await scene.reached.wait()
                    await trio.testing.wait_all_tasks_blocked()
                    if script.cut == "raises":
                        raise OfTheBlock
                    return
                async for item in items:
                    scene.got.append(item)
        else:
            scene.got.append(await end.answer(interaction))
    except Exception as error:
        scene.got.append(shape(error))


ASKED = [(wire, interaction) for wire, (_, every) in WIRES.items() for interaction in every]


def check(wire, interaction, script, chain):
    """With blocks that look on, all is as without any; each request is counted, and has a line."""
    _, bare = observe(wire, interaction, script, Chain(held=chain.held))
    watched = attrs.evolve(chain, outer=("meter", "log", "observer", *chain.outer))
    scene, found = observe(wire, interaction, script, watched)
    assert found == bare
    counted = Counter()
    for each in scene.meter.statistics():
        assert each.open == 0
        assert each.begun == sum(histogram.count for histogram in each.ended.values())
        counted.update({(each.interaction, o): h.count for o, h in each.ended.items()})
    happened = Counter((kind, outcome) for kind, outcome, _ in scene.outcomes)
    assert counted == happened
    lines = [json.loads(line) for line in scene.lines]
    assert Counter((each["interaction"], each["outcome"]) for each in lines) == happened
    assert "secret" not in str(lines)
    kind, outcome, items = scene.outcomes[0]
    assert kind in KINDS[interaction]
    is_stream = interaction in ("Stream", "Channel")
    if script.end in ("GeneratorExit", "stray Cancelled"):
        assert outcome == "cancelled"
    elif script.cut is None:
        ends = script.end == "returns" or (is_stream and script.end == "StopAsyncIteration")
        assert outcome == ("completed" if ends else "failed")
    elif script.when_cut == "raise":
        assert outcome == "cancelled"
    before = script.steps if script.cut is None else script.steps[: script.at]
    if outcome == "completed" or script.when_cut == "raise":
        assert items == before.count("item") * is_stream


KINDS = {
    "Response": ["request_response"],
    "Stream": ["request_stream"],
    "Channel": ["request_channel"],
    "Join": ["request_channel"],
    "Drop": ["fire_and_forget", "request_response"],  # ttrpc has calls with an answer only
    "Push": ["metadata_push"],
    "Events": ["events"],
}


MODEST = settings(
    max_examples=20,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
FIXED = settings(MODEST, derandomize=True)
FRESH = settings(MODEST, print_blob=True)


@pytest.mark.parametrize(("wire", "interaction"), ASKED)
@given(script=scripts(), chain=chains())
@FIXED
def test_known_chains(wire, interaction, script, chain):
    """Cancellation, context variables, task, errors and groups pass them unchanged."""
    check(wire, interaction, script, chain)


# -- blocks that misbehave -----------------------------------------------------------------------


def is_bad(call) -> bool:
    """Whether a block misbehaves; events and pushed metadata have no route."""
    return call.route.name.endswith("Bad") or not call.route.name


async def never_yields(call: Call):
    if not is_bad(call):
        yield One()


async def yields_twice(call: Call):
    yield One()
    if is_bad(call):
        yield One()


async def goes_on_when_closed(call: Call):
    try:
        yield One()
    except BaseException:
        if is_bad(call):
            yield One()
        raise


async def swallows(call: Call):
    try:
        yield One()
    except BaseException:
        if not is_bad(call):
            raise


async def fails_before(call: Call):
    if is_bad(call):
        raise ValueError("secret")
    yield One()


async def fails_after(call: Call):
    yield One()
    if is_bad(call):
        raise ValueError("secret")


async def fails_always(call: Call):
    try:
        yield One()
    finally:
        if is_bad(call):
            raise ValueError("secret")


async def raises_a_group(call: Call):
    try:
        yield One()
    finally:
        if is_bad(call):
            raise BaseExceptionGroup("secret", [ValueError("secret"), Odd("secret")])


class Odd(BaseException):
    pass


async def raises_odd(call: Call):
    try:
        yield One()
    finally:
        if is_bad(call):
            raise Odd("secret")


async def raises_stray(call: Call):
    yield One()
    if is_bad(call):
        raise await stray()


async def raises_generator_exit(call: Call):
    yield One()
    if is_bad(call):
        raise GeneratorExit


async def holds_a_nursery(call: Call):
    if not is_bad(call):
        yield One()
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        yield One()


async def shields_a_nursery(call: Call):
    if not is_bad(call):
        yield One()
        return
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.shield = True
        nursery.start_soon(trio.sleep, 100)
        yield One()


async def waits_before(call: Call):
    if is_bad(call):
        await trio.sleep_forever()
    yield One()


async def waits_after(call: Call):
    yield One()
    if is_bad(call):
        await trio.sleep_forever()


class Swallowing:
    def __init__(self, call: Call):
        self.call = call

    async def __aenter__(self):
        return One()

    async def __aexit__(self, *error):
        return is_bad(self.call)


@asynccontextmanager
async def manager_that_fails(call: Call):
    yield One()
    if is_bad(call):
        raise ValueError("secret")


async def has_a_deadline(call: Call):
    with trio.move_on_after(1 if is_bad(call) else 100):
        yield One()


@asynccontextmanager
async def harmless():
    yield


def no_manager(call: Call):
    return 5 if is_bad(call) else harmless()


def gives_a_coroutine(call: Call):
    return trio.sleep(0) if is_bad(call) else harmless()


def misusing(misuse, *, before):
    """A block that leaves something in its task, before or after its ``yield``."""

    async def misuses(call: Call):
        if before and is_bad(call):
            await misuse()
        yield One()
        if not before and is_bad(call):
            await misuse()

    misuses.__name__ = misuses.__qualname__ = f"{misuse.__name__} {'before' if before else 'after'}"
    return misuses


FAULTS = [
    never_yields, yields_twice, goes_on_when_closed, swallows, fails_before, fails_after,
    fails_always, raises_a_group, raises_odd, raises_stray, raises_generator_exit,
    holds_a_nursery, shields_a_nursery, waits_before, waits_after, manager_that_fails,
    has_a_deadline, no_manager, gives_a_coroutine,
    *[misusing(misuse, before=before) for misuse in MISUSES for before in (False, True)],
]  # fmt: skip
PLACES = ["outer", "included", "inner", "provider"]


@attrs.frozen
class Mischief:
    """A request to whose chain a block is added that misbehaves.

    Attributes:
        fault: The block.
        place: Where it is: see `Chain`.
        at: The block stands behind so many of those that do nothing there.
        end: How the handler ends.
        leaves: The requester leaves while the handler waits.
    """

    fault: object = attrs.field(repr=lambda fault: fault.__name__)
    place: str
    at: int
    end: str
    leaves: bool

    @property
    def script(self) -> Script:
        return Script(("item", "checkpoint"), self.end, "cancels" if self.leaves else None, at=2)

    def told(self, interaction, held) -> tuple[str, bool]:
        """What the log must say with the name of the block, and whether the call is canceled."""
        name = self.fault.__name__
        fails = self.leaves or self.end != "returns"
        if self.place == "provider" and held == "start" and interaction in ("Stream", "Channel"):
            fails = False  # the block is left before the first item
        if name in ALWAYS:
            return ALWAYS[name], False
        if name in AFTER and not fails:
            return AFTER[name], False
        if name == "goes_on_when_closed" and fails:
            return f"{name} yields twice", False
        if name.endswith(" before") and name.removesuffix(" before") in LEFT_OPEN:
            return f"{name} left a nursery or a cancel scope open", False
        if name.endswith(" after") and name.removesuffix(" after") in LEFT_OPEN and not fails:
            return f"{name} left a nursery or a cancel scope open", False
        absorbed = fails and (self.leaves or name == "swallows")
        if name in ("swallows", "has_a_deadline") and absorbed and interaction not in UNANSWERED:
            return f"{name} absorbed an error", name == "has_a_deadline" or not self.leaves
        return "", False


UNANSWERED = ("Drop", "Push")
LEFT_OPEN = ("enter_nursery", "enter_nursery_with_a_child", "enter_scope", "enter_shielded_scope")
ALWAYS = {
    "never_yields": "never_yields ended before its `yield`",
    "no_manager": "no_manager returned int, which is no async context manager",
    "gives_a_coroutine": "gives_a_coroutine returned ",
    **{name: name for name in ("fails_before", "fails_always", "raises_a_group", "raises_odd")},
}
AFTER = {
    "yields_twice": "yields_twice yields twice",
    **{
        name: name
        for name in ("fails_after", "raises_stray", "raises_generator_exit", "manager_that_fails")
    },
}


MISCHIEF = st.builds(
    Mischief,
    st.sampled_from(FAULTS),
    st.sampled_from(PLACES),
    st.integers(0, 3),
    st.sampled_from(["returns", "StreamError", "ValueError"]),
    st.booleans(),
)


def mischief(wire, interaction, chain, mischief):
    """Make a request whose blocks misbehave among others, which must be answered as always."""
    scene = Scene(Script())
    blocks = blocks_of(scene)
    fault = mischief.fault
    blocks["fault"] = fault
    # A service has no providers, and a provider returns no block: that is refused for each request.
    if wire == "ttrpc service" or fault in (no_manager, gives_a_coroutine):
        place = "inner" if mischief.place == "provider" else mischief.place
        mischief = attrs.evolve(mischief, place=place)
    if mischief.place == "provider":
        provided = (chain.provided[0], chain.provided[1], (fault, "request"))
        chain = attrs.evolve(chain, provided=provided)
    else:
        names = list(getattr(chain, mischief.place))
        names.insert(mischief.at, "fault")
        chain = attrs.evolve(chain, **{mischief.place: tuple(names)})
    with logged() as records:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(misbehave, wire, interaction, chain, blocks, scene, mischief.script, clock=clock)
    assert "secret" not in str(scene.got)
    write = logging.Formatter().format
    text = "\n".join(write(each) for each in records)
    said, canceled = mischief.told(interaction, chain.held)
    assert said in text, (scene.got, text)
    assert text.count("left a nursery or a cancel scope open") <= 1  # the others are good
    if canceled and wire != "lumberjack":
        assert "ended before its answer was complete" in str(scene.got)


async def misbehave(wire, interaction, chain, blocks, scene, script):
    over, _ = WIRES[wire]
    answers = []
    with trio.fail_after(1000):
        async with over(scene, chain, blocks) as end:

            async def good(waits):
                answers.append(await end.good(b"wait" if waits else b"x"))

            async def bad():
                name = interaction if interaction == "Push" else f"{interaction}Bad"
                with trio.move_on_after(2):
                    await ask(end, name, scene)

            async with trio.open_nursery() as nursery:
                if wire != "lumberjack":  # a batch that fails ends the connection of its sender
                    nursery.start_soon(good, True)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.start_soon(good, False)
                scene.script = script
                nursery.start_soon(bad)
                if wire != "lumberjack":
                    for _ in range(3):
                        nursery.start_soon(good, False)
                        await trio.sleep(1)
            if wire != "lumberjack":
                await good(False)
                assert answers == [b"good"] * 6
            await end.lose()
            await trio.sleep(5)


@pytest.mark.parametrize(("wire", "interaction"), ASKED)
@given(chain=chains(), script=MISCHIEF)
@FIXED
def test_known_mischief(wire, interaction, chain, script):
    """The log names the block, and all other requests of the connection are answered."""
    mischief(wire, interaction, chain, script)


@pytest.mark.parametrize("place", ["inner", "provider"])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("wire", "interaction"), ASKED)
def test_what_leaves_a_nursery_open(wire, interaction, before, place):
    """It is named, on the way in and on the way out; blocks around it, which are good, are not."""
    fault = misusing(enter_nursery, before=before)
    mischief(wire, interaction, Chain(), Mischief(fault, place, 0, "returns", False))


@pytest.mark.parametrize("interaction", ["Response", "Stream"])
def test_a_stray_cancellation_over_rsio(interaction):
    """A block raises one that belongs to no scope: the log names it, and no nursery that ended."""
    mischief("rsio", interaction, Chain(), Mischief(raises_stray, "outer", 0, "returns", False))


@pytest.mark.parametrize(("wire", "interaction"), ASKED)
@given(chain=chains(), script=scripts(), bad=MISCHIEF)
@FRESH
def test_fresh(wire, interaction, chain, script, bad):
    """As the two tests of known ones."""
    check(wire, interaction, script, chain)
    mischief(wire, interaction, chain, bad)


# -- at each moment ------------------------------------------------------------------------------


@pytest.mark.parametrize(("wire", "interaction"), ASKED)
async def test_cancelled_at_each_moment(wire, interaction):
    """What was entered is left once, in the reverse order, in its task; the next call works."""
    opened, left = [], []

    async def block(call: Call):
        mine = (trio.lowlevel.current_task(), len(opened))
        await trio.lowlevel.checkpoint()
        opened.append(mine)
        try:
            await trio.lowlevel.checkpoint()
            yield One()
            await trio.lowlevel.checkpoint()
        finally:
            assert mine[0] is trio.lowlevel.current_task()
            assert opened.pop() is mine
            left.append(mine)

    scene = Scene(Script(("checkpoint", "item", "checkpoint")))
    blocks = {"block": block, "within": block}
    chain = Chain(
        outer=("block",), inner=("block",), provided=((None, None),) * 2 + ((block, None),)
    )
    over, _ = WIRES[wire]
    async with over(scene, chain, blocks) as end:

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert not opened
            scene.got.clear()
            left.clear()
            await ask(end, interaction, scene)
            await trio.testing.wait_all_tasks_blocked()
            assert not opened
            assert len(left) == (2 if wire == "ttrpc service" else 3)

        places = await cancel_everywhere(partial(ask, end, interaction, scene), check)
        assert places >= 1
