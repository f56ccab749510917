"""Connections in a trio that is a guest of another loop: the host may use them too."""

import asyncio

import pytest
import trio

from rsocket_trio import Payload, Responder, connect, serve


class Numbers(Responder):
    async def request_response(self, payload):
        return payload

    async def request_stream(self, payload):
        try:
            for number in range(100_000):
                yield Payload(b"%d" % number)
        finally:
            self.ended.set()


def as_guest(async_fn, *args):
    """Run a trio function in an asyncio loop."""

    async def host():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            async_fn,
            *args,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=done.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        (await done).unwrap()

    asyncio.run(host())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_requests_and_streams(scheme):
    """All frames leave and arrive as in a loop of trio's own."""

    async def main():
        numbers = Numbers()
        numbers.ended = trio.Event()
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, numbers, f"{scheme}://127.0.0.1:0")
            async with connect(server.uris[0]) as requester:

                async def ask(size):
                    response = await requester.request_response(Payload(bytes(size)))
                    assert len(response.data) == size

                async with trio.open_nursery() as asking:
                    for size in range(0, 2_000_000, 50_000):
                        asking.start_soon(ask, size)
                async with requester.request_stream(prefetch=8) as items:
                    for number in range(1000):
                        assert (await items.receive()).data == b"%d" % number
                await numbers.ended.wait()
            nursery.cancel_scope.cancel()

    as_guest(main)


@pytest.mark.parametrize("call", ["request_n", "close"])
def test_a_call_from_the_host(call):
    """A frame that the host's code queues leaves although trio's loop already waits for I/O."""

    async def main():
        numbers = Numbers()
        numbers.ended = trio.Event()
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, numbers, "tcp://127.0.0.1:0")
            async with connect(server.uris[0]) as requester:
                async with requester.request_stream(prefetch=0) as items:
                    await items.receive()
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    # The host runs this behind the turn that trio begins with the next await.
                    loop = asyncio.get_running_loop()
                    loop.call_soon(items.close if call == "close" else lambda: items.request_n(1))
                    with trio.fail_after(20):
                        if call == "close":
                            await numbers.ended.wait()
                        else:
                            assert (await items.receive()).data == b"1"
            nursery.cancel_scope.cancel()

    as_guest(main)
