import pytest
import trio

from rsocket_trio.payload import Payload
from rsocket_trio.routing.converted_streams import DecodedChannel, EncodedItems


async def test_closing_a_stream_closes_the_generator_in_the_same_task():
    """The handler's finally runs in the task that iterates, before aclose returns."""
    tasks = []

    async def items():
        try:
            yield b"1"
            yield b"2"
        finally:
            tasks.append(trio.lowlevel.current_task())

    encoded = EncodedItems(items(), bytes)
    assert aiter(encoded) is encoded
    assert await anext(encoded) == Payload(b"1")
    await encoded.aclose()
    assert tasks == [trio.lowlevel.current_task()]
    with pytest.raises(StopAsyncIteration):
        await anext(encoded)


async def test_closing_a_stream_that_was_never_started():
    """A channel that was not iterated yet is closed too."""
    send, receive = trio.open_memory_channel(1)
    await EncodedItems(receive, bytes).aclose()
    with pytest.raises(trio.BrokenResourceError):
        send.send_nowait(b"")


async def test_iterators_without_aclose():
    """An iterator without aclose needs none."""

    class Once:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise StopAsyncIteration

    encoded = EncodedItems(Once(), bytes)
    assert [item async for item in encoded] == []
    await encoded.aclose()


async def test_a_decoded_channel_is_a_receive_channel():
    """It receives, iterates to the end, and closes its source."""
    send, receive = trio.open_memory_channel(3)
    for data in (b"1", b"2", b"3"):
        send.send_nowait(Payload(data))
    channel = DecodedChannel(receive, int)
    assert await channel.receive() == 1
    assert await anext(channel) == 2
    send.close()
    assert [item async for item in channel] == [3]
    with pytest.raises(trio.EndOfChannel):
        await channel.receive()
    async with channel:
        pass
    with pytest.raises(trio.ClosedResourceError):
        await channel.receive()


async def test_a_cancelled_receive_loses_nothing(autojump_clock):
    """An item that comes after the cancellation is returned by the next call."""
    send, receive = trio.open_memory_channel(1)
    channel = DecodedChannel(receive, int)
    with trio.move_on_after(1) as scope:
        await channel.receive()
    assert scope.cancelled_caught
    send.send_nowait(Payload(b"1"))
    assert await channel.receive() == 1
    send.close()
    receive.close()


async def test_a_conversion_error_is_raised_in_the_generator():
    """It is thrown at the yield; the item that the generator yields instead is converted."""

    async def items():
        try:
            yield b"1"
        except KeyError:
            yield b"2"
            yield Payload(b"3")

    encoded = EncodedItems(items(), bytes, b"name")
    await anext(encoded)
    assert await encoded.athrow(KeyError()) == Payload(b"2")
    assert await anext(encoded) == Payload(b"3")
    await encoded.aclose()
    send, receive = trio.open_memory_channel(1)
    with pytest.raises(KeyError):
        await EncodedItems(receive, bytes).athrow(KeyError())
    send.close()
