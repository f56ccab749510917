"""Requests that are sent by a policy, checked from the wire: `Repeats`."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsocket_trio import (
    ApplicationError,
    Budget,
    Caller,
    Canceled,
    Circuit,
    CircuitOpen,
    ConnectionClosed,
    CustomError,
    Forbidden,
    Hedge,
    Invalid,
    Reconnect,
    Rejected,
    Repeats,
    Retry,
    Router,
    RSocketError,
    connect,
    declaration,
    request_response,
)
from rsocket_trio.errors import ConnectFailed, ErrorCode
from rsocket_trio.frames import CancelFrame, ErrorFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.interactions.demand import PayloadInbox
from rsocket_trio.payload import Payload
from rsocket_trio.repeating import Repeating
from rsocket_trio.responder import Responder
from rsocket_trio.server import serve_transport
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair

QUICK = Retry(initial_delay=0.1, jitter=0, max_attempts=2)
NO_CIRCUIT = Repeats(retry=QUICK, circuit=None)


class Server(Responder):
    """Answers from a script, and counts; ``None`` in the script is no answer."""

    def __init__(self, *script):
        self.script = list(script)
        self.times = []
        self.cancelled = 0

    async def request_response(self, payload, /):
        self.times.append(trio.current_time())
        step = self.script.pop(0) if self.script else b"ok"
        if step is None or isinstance(step, float):
            try:
                await trio.sleep(1e6 if step is None else step)
            except trio.Cancelled:
                self.cancelled += 1
                raise
            return Payload(b"late")
        if isinstance(step, Exception):
            raise step
        return Payload(step)

    async def request_stream(self, payload, /):
        self.times.append(trio.current_time())
        step = self.script.pop(0) if self.script else b"ok"
        for each in step if isinstance(step, list) else [step]:
            if isinstance(each, Exception):
                raise each
            yield Payload(each)


@asynccontextmanager
async def client(server, repeats, **options):
    """A requester on a server, over memory; a dial finds the server that is there then."""
    async with trio.open_nursery() as nursery:

        @asynccontextmanager
        async def dial():
            ours, theirs = memory_transport_pair()
            nursery.start_soon(partial(serve_transport, server, theirs))
            async with ours:
                yield ours

        async with connect(dial, repeats=repeats, **options) as requester:
            yield requester
        nursery.cancel_scope.cancel()


def answer_to(stream_id, data):
    return PayloadFrame(stream_id, next=True, complete=True, data=data)


def times(*seconds):
    return [pytest.approx(each) for each in seconds]


async def ask(requester, **options):
    return (await requester.request_response(Payload(b"?"), **options)).data


# -- what is repeated ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "idempotent", "tries"),
    [
        (Rejected("busy"), False, 3),
        (Rejected("busy"), True, 3),
        (Canceled("over"), False, 1),
        (Canceled("over"), True, 3),
        (ApplicationError("no"), True, 1),
        (Invalid("no"), True, 1),
        (Forbidden("no"), True, 1),
        (CustomError("no", code=0x301), True, 1),
    ],
)
async def test_what_is_repeated(error, idempotent, tries, autojump_clock):
    """What was not processed, and what is idempotent; never what would fail again."""
    server = Server(*[error] * 5)
    async with client(server, NO_CIRCUIT) as requester:
        with pytest.raises(type(error)) as caught:
            await ask(requester, idempotent=idempotent)
    assert server.times == times(*[0, 0.1, 0.3][:tries])
    assert caught.value.sent
    assert caught.value.unprocessed == isinstance(error, Rejected)


@pytest.mark.parametrize(("idempotent", "tries"), [(False, 1), (True, 2)])
async def test_errors_that_the_policy_names(idempotent, tries, autojump_clock):
    """They are repeated where the call is idempotent: the handler has seen the request."""
    server = Server(*[ApplicationError("no")] * (tries - 1), b"ok")
    if not idempotent:
        server.script = [ApplicationError("no")]
    repeats = Repeats(retry=QUICK, also=(ApplicationError,))
    async with client(server, repeats) as requester:
        if idempotent:
            assert await ask(requester, idempotent=True) == b"ok"
        else:
            with pytest.raises(ApplicationError):
                await ask(requester)
    assert len(server.times) == tries


async def test_a_server_that_says_when(autojump_clock):
    """It is asked then, and not before; if that is too late, the caller is told at once."""
    server = Server(Rejected("too many requests: retry after 1.5 s"))
    async with client(server, NO_CIRCUIT) as requester:
        assert await ask(requester) == b"ok"
        assert server.times == times(0, 1.5)
        server.script = [Rejected("retry after 999999999 s")]
        with pytest.raises(Rejected) as caught:
            await ask(requester)
        assert caught.value.retry_after == 999999999
    assert trio.current_time() == pytest.approx(1.5)


async def test_the_scope_of_the_caller_holds_all_tries(autojump_clock):
    """A wait that would end behind its deadline is not begun: its caller gets the error."""
    server = Server(*[Rejected("busy")] * 5)
    async with client(server, NO_CIRCUIT) as requester:
        with trio.fail_after(0.2), pytest.raises(Rejected):
            await ask(requester)
        assert trio.current_time() == pytest.approx(0.1)
        server.script = [Rejected("busy"), None]
        with trio.move_on_after(5) as scope:
            await ask(requester)
        assert scope.cancelled_caught
    assert server.cancelled == 1
    assert len(server.times) == 4


@pytest.mark.parametrize("at", [0.05, 0.2, 0.35])
async def test_cancelling_in_each_state(at, autojump_clock):
    """In a wait nothing more is sent; in a try the peer is told."""
    server = Server(Rejected("busy"), 0.15, b"ok")
    repeats = Repeats(retry=QUICK)
    async with client(server, repeats) as requester:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, requester)
                await trio.sleep(at)
                scope.cancel()
        await trio.sleep(10)
        assert len(server.times) == (1 if at < 0.1 else 2)
        assert server.cancelled == (1 if at == 0.2 else 0)
        server.script = []
        assert await ask(requester) == b"ok"


async def test_a_connection_that_is_over_ends_it(autojump_clock):
    """Without ``reconnect=`` no other try could succeed, and none is paid for."""

    async def close(peer):
        await peer.accept()
        await peer.receive(RequestResponseFrame)
        await peer.aclose()

    ours, theirs = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(close, FramePeer(theirs))
        async with connect(ours, repeats=NO_CIRCUIT) as requester:
            with pytest.raises(ConnectionClosed):
                await ask(requester, idempotent=True)
            assert trio.current_time() == 0


async def test_declarations_say_it_too(autojump_clock):
    """A declared request that is idempotent is repeated; its sister is not."""

    @declaration()
    class Prices:
        @request_response("price", idempotent=True)
        async def price(self) -> int: ...

        @request_response("buy")
        async def buy(self) -> int: ...

    counts = Counter()
    router = Router()

    @router.request_response("price")
    @router.request_response("buy")
    async def handle(call: str | None = None) -> int:
        counts["calls"] += 1
        raise Canceled("the server stops")

    async with client(router, NO_CIRCUIT) as requester:
        prices = Caller(requester).of(Prices)
        with pytest.raises(Canceled):
            await prices.price()
        assert counts["calls"] == 3
        with pytest.raises(Canceled):
            await prices.buy()
        assert counts["calls"] == 4


# -- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("idempotent", "tries"), [(False, 1), (True, 3)])
async def test_a_stream_is_opened_again_before_its_first_item(idempotent, tries, autojump_clock):
    """By the same rules."""
    server = Server([Canceled("x")], [Canceled("x")], [b"1", b"2"])
    async with client(server, NO_CIRCUIT) as requester:
        async with requester.request_stream(idempotent=idempotent) as items:
            if idempotent:
                assert [each.data async for each in items] == [b"1", b"2"]
            else:
                with pytest.raises(Canceled):
                    await anext(items)
    assert len(server.times) == tries


async def test_never_after_the_first_item(autojump_clock):
    """The items before the error are the reader's, and so is the error."""
    server = Server([b"1", Rejected("x")], [b"1"])
    got = []
    async with client(server, NO_CIRCUIT) as requester:
        async with requester.request_stream(idempotent=True) as items:
            with pytest.raises(Rejected):
                async for each in items:
                    got.append(each.data)
    assert got == [b"1"]
    assert len(server.times) == 1


@pytest.mark.parametrize("reconnect", [None, Reconnect()])
async def test_any_number_of_tries_of_a_stream_needs_no_more(reconnect, autojump_clock):
    """Of the streams that have failed only the last one is kept."""
    server = Server(*[[Canceled("x")]] * 100, [b"1"])
    repeats = Repeats(retry=Retry(max_delay=1), circuit=None, budget=Budget(per_second=100))
    async with client(server, repeats, reconnect=reconnect) as requester:
        async with requester.request_stream(idempotent=True) as items:
            assert (await anext(items)).data == b"1"
            gc.collect()
            inboxes = [each for each in gc.get_objects() if isinstance(each, PayloadInbox)]
            assert len(inboxes) <= 3
            with pytest.raises(StopAsyncIteration):
                await anext(items)
    assert len(server.times) == 101


async def test_a_reader_that_comes_again(autojump_clock):
    """Its timeout ends a read, and not the decision: the stream is opened once."""
    server = Server([Rejected("retry after 1 s")], [b"1"])
    async with client(server, NO_CIRCUIT) as requester:
        async with requester.request_stream() as items:
            for _ in range(3):
                with trio.move_on_after(0.3) as scope:
                    await anext(items)
                assert scope.cancelled_caught
            assert (await anext(items)).data == b"1"
    assert server.times == times(0, 1)


class Ticking(Server):
    """Its streams have an item each second, without an end."""

    async def request_stream(self, payload, /):
        while True:
            await trio.sleep(1)
            yield Payload(b"tick")


async def test_a_stream_has_succeeded_with_its_first_item(autojump_clock):
    """Readers with a deadline do not open the circuit, and one that goes on for hours closes it."""
    server = Ticking(*[Canceled("x")] * 5)
    async with client(server, Repeats(retry=QUICK)) as requester:
        for _ in range(6):
            with trio.move_on_after(2.5):
                async with requester.request_stream() as items:
                    async for _ in items:
                        pass
        for _ in range(5):
            with pytest.raises(Canceled):
                await ask(requester)
        with pytest.raises(CircuitOpen):
            await ask(requester)
        await trio.sleep(5)
        async with requester.request_stream() as items:
            for _ in range(3):  # a reader that is cancelled comes again
                with trio.move_on_after(0.3):
                    await anext(items)
            with pytest.raises(CircuitOpen):
                await ask(requester)
            await anext(items)
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(ask, requester)


async def test_what_a_reader_does_besides_is_not_of_the_stream(autojump_clock):
    """Errors of another connection, and its own deadlines, say nothing about this server."""
    async with client(Ticking(), Repeats(retry=QUICK)) as requester:
        for _ in range(6):
            with pytest.raises(ConnectionClosed):
                async with requester.request_stream():
                    raise ConnectionClosed("another one")
            with trio.move_on_after(0.5):
                async with requester.request_stream() as items:
                    await anext(items)
        assert await ask(requester) == b"ok"


# -- the budget ---------------------------------------------------------------------------------


async def test_a_total_outage_gets_little_more(autojump_clock):
    """100 requests a second for 15 s, and none succeeds: 1.2 times as many at most, and 3/s."""
    server = Server(*[Rejected("busy")] * 20_000)
    async with client(server, Repeats(retry=Retry(jitter=1), circuit=None)) as requester:

        async def one():
            with trio.move_on_after(1), pytest.raises(Rejected):
                await ask(requester)

        async with trio.open_nursery() as nursery:
            for _ in range(1500):
                nursery.start_soon(one)
                await trio.sleep(0.01)
    extra = len(server.times) - 1500
    assert 40 <= extra <= 3 * 17


async def test_successes_pay_for_repeats(autojump_clock):
    """With one failure in ten all are repeated, which no rate alone would allow."""
    server = Server()
    async with client(server, NO_CIRCUIT) as requester:
        for number in range(3000):
            server.script = [Rejected("busy")] if number % 10 == 9 else []
            server.script and server.script.append(b"ok")
            assert await ask(requester) == b"ok"
            await trio.sleep(0.001)
    assert len(server.times) == 3300


async def test_each_route_has_its_own_budget(autojump_clock):
    """A route that fails always uses up nothing of another one."""
    server = Server(*[Rejected("busy")] * 50)
    async with client(server, Repeats(retry=QUICK, circuit=None)) as requester:
        for _ in range(10):
            with pytest.raises(Rejected):
                await ask(requester, route="bad")
        server.script = [Rejected("busy")] * 2
        assert await ask(requester, route="good") == b"ok"


async def test_budgets_are_bounded_in_number(autojump_clock):
    """Routes beyond 256, as those with a variable, share one."""
    server = Server()
    repeats = Repeats(retry=QUICK, circuit=None, budget=Budget(ratio=0, per_second=1))
    async with client(server, repeats) as requester:
        for number in range(300):
            await ask(requester, route=f"user/{number}")
        server.script = [Rejected("busy")]
        assert await ask(requester, route="user/298") == b"ok"
        server.script = [Rejected("busy")]
        with pytest.raises(Rejected):
            await ask(requester, route="user/299")


# -- hedging ------------------------------------------------------------------------------------


async def test_a_hedge_wins_and_the_loser_is_cancelled(autojump_clock):
    """The peer gets a CANCEL for the first request."""
    ours, theirs = memory_transport_pair()
    peer = FramePeer(theirs)

    async def answer():
        await peer.accept()
        first = await peer.receive(RequestResponseFrame)
        second = await peer.receive(RequestResponseFrame)
        assert trio.current_time() == pytest.approx(0.05)
        await peer.send(answer_to(second.stream_id, b"quick"))
        assert (await peer.receive(CancelFrame)).stream_id == first.stream_id

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        async with connect(ours, repeats=Repeats(hedge=Hedge(after=0.05))) as requester:
            assert await ask(requester, idempotent=True) == b"quick"
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("idempotent", [True, False])
async def test_only_what_is_idempotent_is_hedged(idempotent, autojump_clock):
    """A hedge may be processed twice."""
    server = Server(0.5)
    async with client(server, Repeats(hedge=Hedge(after=0.05))) as requester:
        assert await ask(requester, idempotent=idempotent) == (b"ok" if idempotent else b"late")
    assert len(server.times) == (2 if idempotent else 1)
    assert server.cancelled == (1 if idempotent else 0)


async def test_a_hedge_by_what_was_measured(autojump_clock):
    """Only once 20 requests of the route were answered, and after their 95th percentile."""
    server = Server(*[0.1] * 18, *[0.2] * 2, None)
    async with client(server, Repeats(hedge=Hedge())) as requester:
        for _ in range(20):
            assert await ask(requester, idempotent=True) == b"late"
        assert len(server.times) == 20
        began = trio.current_time()
        assert await ask(requester, idempotent=True) == b"ok"
        assert server.times[20:] == times(began, began + 0.2)


async def test_a_hedge_is_paid_from_the_budget(autojump_clock):
    """A server that is slow for all gets no second load."""
    server = Server(*[0.5] * 100)
    repeats = Repeats(hedge=Hedge(after=0.1), budget=Budget(ratio=0, per_second=3), retry=QUICK)
    async with client(server, repeats) as requester:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(partial(ask, requester, idempotent=True))
    assert len(server.times) == 23


async def test_both_fail(autojump_clock):
    """The first error is raised as it is, in no group, and says what is true of both."""
    server = Server(0.2, ApplicationError("second"))

    async def fail(payload):
        await trio.sleep(0.2)
        raise ApplicationError("first")

    async with client(server, Repeats(hedge=Hedge(after=0.05))) as requester:
        assert await ask(requester, idempotent=True) == b"late"
        server.script = [ApplicationError("first"), ApplicationError("second")]
        with pytest.raises(ApplicationError, match="first"):
            await ask(requester, idempotent=True)
    assert len(server.times) == 3


async def test_cancelling_hedged_requests(autojump_clock):
    """Both are cancelled at the peer."""
    server = Server(None, None)
    async with client(server, Repeats(hedge=Hedge(after=0.05))) as requester:
        with trio.move_on_after(1) as scope:
            await ask(requester, idempotent=True)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert server.cancelled == 2


async def test_deadlines_of_hedged_requests_tell(autojump_clock):
    """Two cancellations come as a group; they are the deadline of one request all the same."""
    server = Server(*[None] * 20)
    repeats = Repeats(hedge=Hedge(after=0.05), budget=Budget(per_second=100))
    async with client(server, repeats) as requester:
        for _ in range(5):
            with trio.move_on_after(1) as scope:
                await ask(requester, idempotent=True)
            assert scope.cancelled_caught
        with pytest.raises(CircuitOpen):
            await ask(requester)


@pytest.mark.parametrize("after", [0.05, 0.5])
async def test_an_interrupt_of_a_hedged_request_is_in_no_group(after, autojump_clock):
    """Whatever the other one has ended with."""
    repeating = Repeating(Repeats(hedge=Hedge(after=after)), lambda: False)
    ends = [KeyboardInterrupt(), ApplicationError("no")]

    async def send():
        end = ends.pop()
        await trio.sleep(0.1)
        raise end

    with pytest.raises(ApplicationError if after > 0.1 else KeyboardInterrupt):
        await repeating.answer(None, send, idempotent=True)
    if ends:
        with pytest.raises(KeyboardInterrupt):
            await repeating.answer(None, send, idempotent=True)


# -- the circuit --------------------------------------------------------------------------------

ONCE = Repeats(retry=QUICK, budget=Budget(ratio=0, per_second=0))


@pytest.mark.parametrize("kind", ["answers", "silence", "silence of two tasks"])
async def test_a_server_that_fails_is_left_alone(kind, autojump_clock):
    """After five failures all fail at once; after 5 s one tests the server, and lets all in."""
    server = Server(*[Canceled("broken") if kind == "answers" else None] * 5)
    repeats = attrs.evolve(ONCE, hedge=Hedge(after=0.5) if "tasks" in kind else None)
    async with client(server, repeats) as requester:
        for _ in range(5):
            with trio.move_on_after(1) as scope:
                with pytest.raises(Canceled):
                    await ask(requester, idempotent=True)
            assert scope.cancelled_caught == (kind != "answers")
        now = trio.current_time()
        with pytest.raises(CircuitOpen) as caught:
            await ask(requester)
        assert trio.current_time() == now
        assert caught.value.retry_after == pytest.approx(5)
        assert not caught.value.sent
        assert caught.value.unprocessed
        assert ("broken" in str(caught.value)) == (kind == "answers")
        for call in (requester.fire_and_forget, requester.request_stream):
            with pytest.raises(CircuitOpen):
                if call == requester.request_stream:
                    async with call():
                        raise AssertionError
                else:
                    await call()
        assert len(server.times) == 5
        await trio.sleep(5)
        server.script = [0.5]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(CircuitOpen):
                await ask(requester)
        assert await ask(requester) == b"ok"


@pytest.mark.parametrize("error", [ApplicationError("no"), Rejected("busy"), Forbidden("no")])
async def test_answers_are_no_failures(error, autojump_clock):
    """A server that says no is well."""
    server = Server(*[error] * 20)
    async with client(server, ONCE) as requester:
        for _ in range(20):
            with pytest.raises(type(error)):
                await ask(requester)


async def test_a_caller_that_leaves_is_no_failure(autojump_clock):
    """Only a deadline is; a test whose caller leaves is followed by another."""
    server = Server(*[None] * 20)
    async with client(server, ONCE) as requester:
        for _ in range(20):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, requester)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
        assert await ask(requester) == b"ok"


async def test_a_request_that_was_sent_does_not_say_that_none_was(autojump_clock):
    """A repeat that finds the circuit open raises the error of its first try."""
    server = Server(*[Canceled("broken")] * 20)
    repeats = Repeats(retry=QUICK, circuit=Circuit(failures=3))
    errors = []

    async def one(requester):
        try:
            await ask(requester, idempotent=True)
        except RSocketError as error:
            errors.append(error)

    async with client(server, repeats) as requester:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(one, requester)
    assert [type(each) for each in errors] == [Canceled] * 2
    assert all(each.sent for each in errors)


async def test_a_stream_tells_too(autojump_clock):
    """Streams that fail at their beginning open the circuit; one that ends well closes it."""
    server = Server(*[[Canceled("broken")]] * 5)
    async with client(server, ONCE) as requester:
        for _ in range(5):
            async with requester.request_stream() as items:
                with pytest.raises(Canceled):
                    await anext(items)
        with pytest.raises(CircuitOpen):
            await ask(requester)
        await trio.sleep(5)
        async with requester.request_stream() as items:
            await anext(items)
        assert await ask(requester) == b"ok"


# -- with sessions that end ---------------------------------------------------------------------


async def test_what_is_free_stays_free(autojump_clock):
    """A request that a dying session has refused goes to the next one without a budget."""
    none = Repeats(budget=Budget(ratio=0, per_second=0))
    peers, arrived = trio.open_memory_channel(10)

    @asynccontextmanager
    async def dial():
        ours, theirs = memory_transport_pair()
        peers.send_nowait(FramePeer(theirs))
        async with ours:
            yield ours

    async def play():
        peer = await arrived.receive()
        await peer.accept()
        await peer.receive(RequestResponseFrame)
        close = ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"stopping")
        await peer.send(close, ErrorFrame(1, ErrorCode.REJECTED, b"stopping"))
        await peer.aclose()
        peer = await arrived.receive()
        await peer.accept()
        await peer.receive(RequestResponseFrame)
        await peer.send(answer_to(1, b"pong"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play)
        async with connect(dial, repeats=none, reconnect=Reconnect()) as requester:
            assert await ask(requester) == b"pong"


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    faults=st.lists(
        st.sampled_from(["ok", "reject", "cancel", "lose", "lose later", "silent", "goodbye"]),
        max_size=12,
    ),
    hedged=st.booleans(),
)
def test_what_is_not_idempotent_is_done_once(faults, hedged):
    """Whatever goes wrong, in any order: no effect of a request happens twice, on one session or
    over several, unless its caller allowed that; and what is idempotent succeeds in the end."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(partial(_played, faults, hedged=hedged), clock=clock)


async def _played(faults, *, hedged):
    faults = iter(faults)
    done = Counter()
    ends = {}
    links = []

    class Faulty(Responder):
        async def request_response(self, payload, /):
            fault = next(faults, "ok")
            if fault == "reject":
                raise Rejected("busy")
            done[payload.data] += 1
            if fault == "cancel":
                raise Canceled("over")
            if fault.startswith("lose"):
                await trio.sleep(0.2 if "later" in fault else 0)
                await links[-1].aclose()
            if fault == "silent":
                await trio.sleep(3)
            return Payload(b"ok")

    async with trio.open_nursery() as nursery:

        @asynccontextmanager
        async def dial():
            ours, theirs = memory_transport_pair()
            links.append(theirs)
            nursery.start_soon(partial(serve_transport, Faulty(), theirs))
            async with ours:
                yield ours

        repeats = Repeats(
            retry=Retry(initial_delay=0.1),
            budget=Budget(per_second=1000),
            hedge=Hedge(after=0.05) if hedged else None,
            circuit=None,
        )
        async with connect(dial, repeats=repeats, reconnect=Reconnect(spread=0.1)) as requester:

            async def one(name, *, idempotent):
                try:
                    await requester.request_response(Payload(name), idempotent=idempotent)
                except RSocketError as error:
                    ends[name] = error
                else:
                    ends[name] = None

            async with trio.open_nursery() as calls:
                for number in range(6):
                    name = b"%d" % number
                    calls.start_soon(partial(one, name, idempotent=number % 2 == 0))
                    await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    for number in range(6):
        name = b"%d" % number
        error = ends[name]
        assert done[name] or error is not None
        assert not (done[name] and error is not None and error.unprocessed)
        assert done[name] <= 1 if number % 2 else error is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"retry": 3},
        {"budget": 0.2},
        {"hedge": 0.1},
        {"circuit": 5},
        {"also": [ApplicationError]},
        {"also": (ValueError,)},
        {"also": (ConnectFailed("x"),)},
    ],
)
def test_wrong_policies_are_refused(wrong):
    """Where they are made."""
    with pytest.raises(TypeError):
        Repeats(**wrong)


async def test_a_policy_of_a_wrong_type():
    """`connect` says so before it dials."""
    with pytest.raises(TypeError, match="repeats must be of type Repeats"):
        async with connect("tcp://127.0.0.1:1", repeats=3):
            raise AssertionError
