"""Callers cancelled at every point, on each side: nothing is left, and the connection works."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair

SMALL = ConnectionConfig(fragment_size=64, limits=Limits(max_outbox_size=100))


class Handlers(Responder):
    """Each handler waits a few times, and counts what began and what ended."""

    def __init__(self):
        self.begun = 0
        self.ended = 0

    async def request_response(self, payload):
        self.begun += 1
        try:
            await trio.lowlevel.checkpoint()
            return payload
        finally:
            self.ended += 1

    async def fire_and_forget(self, payload):
        await self.request_response(payload)

    async def request_stream(self, payload):
        self.begun += 1
        try:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                yield payload
        finally:
            self.ended += 1

    async def request_channel(self, _payload, payloads):
        self.begun += 1
        try:
            async for payload in payloads:
                await trio.lowlevel.checkpoint()
                yield payload
        finally:
            self.ended += 1

    async def metadata_push(self, metadata):
        await self.request_response(Payload(metadata))


async def response(requester, payload):
    assert await requester.request_response(payload) == payload


async def fire(requester, payload):
    await requester.fire_and_forget(payload)


async def push(requester, payload):
    await requester.metadata_push(payload.data[:40])


async def stream(requester, payload):
    async with requester.request_stream(payload, prefetch=2) as items:
        assert [item async for item in items] == [payload] * 3


async def channel(requester, payload):
    async def source():
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            yield payload

    async with requester.request_channel(source(), prefetch=2) as replies:
        assert [reply async for reply in replies] == [payload] * 3


async def channel_of_a_list(requester, payload):
    async with requester.request_channel([payload] * 3) as replies:
        assert [reply async for reply in replies] == [payload] * 3


OPERATIONS = [response, fire, push, stream, channel, channel_of_a_list]


@pytest.mark.parametrize("every_task", [False, True], ids=["own-steps", "all-steps"])
@pytest.mark.parametrize("config", [ConnectionConfig(), SMALL], ids=["whole", "fragments"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("from_server", [False, True], ids=["client-asks", "server-asks"])
async def test_callers_may_be_cancelled_at_any_point(operation, config, every_task, from_server):
    """After each cancellation both sides forget the stream and every handler ends."""
    handlers = Handlers()
    servers = []

    async def accept(_setup, requester):
        servers.append(requester)
        return handlers

    payload = Payload(b"x" * (200 if config is SMALL else 5), b"m")
    async with connected_pair(accept, client_responder=handlers, config=config) as client:
        asking = servers[0] if from_server else client

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            for side in (client, servers[0]):
                numbers = side.statistics()
                assert numbers.open_streams == 0
                assert numbers.active_requests == 0
                assert numbers.unread_size == 0
                assert numbers.queued_size == 0
            assert handlers.begun == handlers.ended
            with trio.fail_after(30):
                await response(asking, payload)

        places = await cancel_everywhere(
            lambda: operation(asking, payload), check, every_task=every_task
        )
        assert places >= 1


@pytest.mark.parametrize("kind", ["response", "fire", "push", "stream", "channel"])
async def test_a_handler_cancelled_by_the_end_of_the_connection(kind):
    """When the client leaves, every kind of handler is cancelled, in its own task, and ends."""
    log = []

    class Waits(Responder):
        async def request_response(self, _payload):
            task = trio.lowlevel.current_task()
            log.append("begun")
            try:
                await trio.sleep_forever()
            finally:
                log.append(trio.lowlevel.current_task() is task)

        async def fire_and_forget(self, payload):
            await self.request_response(payload)

        async def metadata_push(self, _metadata):
            await self.request_response(Payload())

        async def request_stream(self, _payload):
            await self.request_response(Payload())
            yield Payload()

        async def request_channel(self, _payload, payloads):
            await self.request_response(Payload())
            async for payload in payloads:
                yield payload

    async with connected_pair(Waits()) as client, trio.open_nursery() as nursery:
        payload = Payload(b"x")
        match kind:
            case "response":
                nursery.start_soon(client.request_response, payload)
            case "fire":
                nursery.start_soon(client.fire_and_forget, payload)
            case "push":
                nursery.start_soon(client.metadata_push, b"x")
            case "stream":
                nursery.start_soon(stream, client, payload)
            case "channel":
                nursery.start_soon(channel, client, payload)
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["begun"]
        nursery.cancel_scope.cancel()
    assert log == ["begun", True]


@pytest.mark.parametrize("kind", ["response", "stream", "channel"])
async def test_a_timeout_of_a_call_cancels_its_handler(kind, autojump_clock):
    """A deadline around one call affects no other call."""
    ended = []

    class Slow(Responder):
        async def request_response(self, payload):
            try:
                await trio.sleep(float(payload.data))
            except trio.Cancelled:
                ended.append(trio.current_time())
                raise
            return payload

        async def request_stream(self, payload):
            await self.request_response(payload)
            yield payload

        async def request_channel(self, payload, _payloads):
            await self.request_response(payload)
            yield payload

    async def call(requester, payload):
        if kind == "response":
            await requester.request_response(payload)
        elif kind == "stream":
            async with requester.request_stream(payload) as items:
                await items.receive()
        else:
            async with requester.request_channel([payload]) as replies:
                await replies.receive()

    async with connected_pair(Slow()) as client, trio.open_nursery() as nursery:
        begin = trio.current_time()
        nursery.start_soon(call, client, Payload(b"9"))
        with pytest.raises(trio.TooSlowError), trio.fail_after(3):
            await call(client, Payload(b"100"))
        await trio.testing.wait_all_tasks_blocked()
        assert [when - begin for when in ended] == [3]
        assert client.statistics().open_streams == 1
    assert trio.current_time() - begin >= 9
