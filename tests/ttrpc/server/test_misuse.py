"""Handlers that misuse scopes, nurseries, context variables and errors harm their own call only."""

from __future__ import annotations

import contextvars

import pytest
import trio
import trio.testing

from rsocket_trio.ttrpc import Method, MethodKind, Service, StatusCode, serve_stream
from tests import misuses
from tests.misuses import assert_clean
from tests.ttrpc.scenes import SERVICE, Stranger, data, pair, request, stranger_to

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of abandoned generators
KINDS = pytest.mark.parametrize("kind", MethodKind)
SEEN = contextvars.ContextVar("SEEN", default="clean")


class Unusual(BaseException):
    """Not an `Exception`, as the cancellations of other frameworks."""


def service_of(kind: MethodKind, misuse) -> Service:
    """``Bad`` misuses something, and ``Echo`` answers, after a wait if it is asked to."""
    service = Service(SERVICE)

    async def echo(request):
        assert SEEN.get() == "clean"
        assert_clean()
        if b"wait" in request:
            await trio.sleep(1)
        return request

    async def bad(_request):
        await misuse()
        return b"done"

    async def bad_stream(_request):
        await misuse()
        yield b"done"

    service.add(Method.raw(SERVICE, "Echo"), echo)
    service.add(Method.raw(SERVICE, "Bad", kind), bad_stream if kind.receives_stream else bad)
    return service


async def raise_stray_cancelled():
    kept = []
    with trio.move_on_after(0):
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            kept.append(error)
            raise
    raise kept[0]


async def raise_unusual():
    raise Unusual


async def raise_unusual_after_a_wait():
    await trio.lowlevel.checkpoint()
    raise Unusual


async def raise_a_group():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_unusual)
        nursery.start_soon(trio.sleep_forever)


async def raise_stop_iteration():
    raise StopIteration("x")


async def raise_generator_exit():
    raise GeneratorExit


async def change_context():
    SEEN.set("dirty")


async def change_context_and_wait():
    SEEN.set("dirty")
    await trio.lowlevel.checkpoint()


MISUSES = [
    *misuses.MISUSES,
    raise_stray_cancelled,
    raise_unusual,
    raise_unusual_after_a_wait,
    raise_a_group,
    raise_stop_iteration,
    raise_generator_exit,
    change_context,
    change_context_and_wait,
]


@KINDS
@BOTH
@pytest.mark.parametrize("misuse", MISUSES)
async def test_other_calls_are_answered(kind, misuse, over, autojump_clock, caplog):
    """Calls before, beside and behind it; its own call has one last frame at most."""
    async with stranger_to(service_of(kind, misuse), over=over) as stranger:
        stream_id = 1
        for _ in range(3):
            expected = []
            timeout = 0
            for data_of in (b"wait a", b"b", None, b"c", None, b"wait d"):
                if data_of is None:
                    flags = 0x01 if kind.sends_stream else 0
                    await stranger.send(request(stream_id, "Bad", timeout=timeout, flags=flags))
                    timeout = 5 * 10**9  # so the next one runs in one more scope
                else:
                    await stranger.send(request(stream_id, "Echo", data_of))
                    expected.append((stream_id, data_of))
                stream_id += 2
            await trio.sleep(3)
            frames = await stranger.drain()
            echoes = [each for each in frames if each.kind == 2 and not each.code and each.body]
            answers = [(each.stream_id, each.payload) for each in echoes]
            assert sorted(each for each in answers if each[1] != b"done") == expected
            ids = [each.stream_id for each in frames if each.is_last]
            assert len(ids) == len(set(ids)) == 6
        assert not stranger.ended
    assert "please report" not in caplog.text


@BOTH
@pytest.mark.parametrize("kind", [MethodKind.SERVER_STREAM, MethodKind.BIDI_STREAM])
async def test_a_timeout_around_a_yield(kind, over, autojump_clock):
    """An item that waits too long is given up, and the generator goes on."""
    service = Service(SERVICE)
    given_up = []

    async def numbers(_request):
        for number in range(6):
            with trio.move_on_after(1) as scope:
                yield bytes([number]) * 2**18
            if scope.cancelled_caught:
                given_up.append(number)

    service.add(Method.raw(SERVICE, "Count", kind), numbers)
    async with stranger_to(service, over="lockstep" if over == "memory" else over) as stranger:
        stranger.pause()
        await stranger.send(request(1, "Count", flags=0x02 if kind.sends_stream else 0x01))
        await trio.sleep(20)
        stranger.resume()
        frames = await stranger.drain()
        sent = [each.body[0] for each in frames if each.body]
        assert given_up
        assert sorted(sent + given_up) == list(range(6))
        assert frames[-1].is_last


@KINDS
async def test_a_finally_that_awaits(kind, autojump_clock):
    """It has its time, at a normal end and at a cancellation, and its call is answered before."""
    ended = []

    async def answer(_request):
        try:
            await trio.sleep(1)
            return b"x"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            ended.append(trio.current_time())

    async def stream(request):
        try:
            yield b"x"
            await trio.sleep(1)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            ended.append(trio.current_time())

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo", kind), stream if kind.receives_stream else answer)
    flags = 0x02 if kind.sends_stream else 0
    async with stranger_to(service) as stranger:
        await stranger.send(request(1, flags=flags))
        await stranger.send(request(3, timeout=5 * 10**8, flags=flags))
        await trio.sleep(5)
        codes = {
            each.stream_id: each.code if each.kind == 2 else 0
            for each in await stranger.drain()
            if each.is_last
        }
        assert codes == {1: 0, 3: StatusCode.DEADLINE_EXCEEDED}
        assert ended == [pytest.approx(1.5), pytest.approx(2)]


@pytest.mark.parametrize("wait", [False, True])
@KINDS
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_errors_that_end_the_program(error, kind, wait):
    """They are not swallowed."""

    async def misuse():
        if wait:
            await trio.lowlevel.checkpoint()
        raise error

    async def main():
        here, there = pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, service_of(kind, misuse), there)
            stranger = Stranger(here)
            nursery.start_soon(stranger.read)
            await stranger.send(request(1, "Bad", flags=0x02 if kind.sends_stream else 0))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main)
    assert caught.value.subgroup(error) is not None


@BOTH
async def test_a_shielded_scope_left_open_while_a_stream_is_held(over):
    """The end of the connection reaches the task that waits for room in an inbox."""
    from rsocket_trio.ttrpc import TtrpcConfig, TtrpcLimits

    scopes = []

    async def shields(_request):
        scope = trio.CancelScope(shield=True)
        scope.__enter__()
        scopes.append(scope)
        return b""

    async def never_reads(messages):
        await trio.sleep_forever()

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Bad"), shields)
    service.add(Method.raw(SERVICE, "Join", MethodKind.CLIENT_STREAM), never_reads)
    config = TtrpcConfig(overflow="pause", limits=TtrpcLimits(max_stream_size=100))
    here, there = pair(over)
    async with here, trio.open_nursery() as nursery:
        stranger = Stranger(here)
        nursery.start_soon(stranger.read)
        serving = trio.CancelScope()
        ended = trio.Event()

        async def serve():
            with serving:
                await serve_stream(service, there, config=config)
            ended.set()

        nursery.start_soon(serve)
        for number in range(1, 400, 2):
            await stranger.send(request(number, "Bad"))
        await stranger.drain()
        await stranger.send(request(501, "Join", flags=2), *[data(501, bytes(60))] * 5)
        await trio.testing.wait_all_tasks_blocked()
        serving.cancel()
        with trio.move_on_after(5):
            await ended.wait()
        in_time = ended.is_set()
        for scope in scopes:
            scope.shield = False  # or a failing test would never end
        nursery.cancel_scope.cancel()
    assert in_time
