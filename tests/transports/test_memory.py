"""The in-memory pair: bounds and ends."""

import pytest
import trio
import trio.testing

from rsocket_trio.transports.memory import memory_transport_pair


async def test_frames_arrive_in_order() -> None:
    """All waiting frames arrive at once, in both directions."""
    a, b = memory_transport_pair()
    await a.send_frames([b"1", b"2"])
    await a.send_frames([b"3"])
    await b.send_frames([b"back"])
    assert await b.receive_frames() == [b"1", b"2", b"3"]
    assert await a.receive_frames() == [b"back"]


@pytest.mark.parametrize("frame", [b"x" * 7, b""])
async def test_a_reader_that_does_not_read_stops_the_sender(
    nursery: trio.Nursery, frame: bytes
) -> None:
    """A direction holds a limited number of bytes, also if frames are empty."""
    a, b = memory_transport_pair(max_bytes=30)
    nursery.start_soon(a.send_frames, [frame] * 1000)
    await trio.testing.wait_all_tasks_blocked()
    assert len(await b.receive_frames()) == 30 // (len(frame) + 3)
    nursery.cancel_scope.cancel()


async def test_room_wakes_the_sender(nursery: trio.Nursery) -> None:
    """A sender that waits goes on once the other end has read."""
    a, b = memory_transport_pair(max_bytes=1)
    nursery.start_soon(a.send_frames, [b"1", b"2", b"3"])
    received = []
    while len(received) < 3:
        received += await b.receive_frames()
    assert received == [b"1", b"2", b"3"]


async def test_closing_ends_both_directions() -> None:
    """The other end reads the sent frames, then the clean end; its own sends fail."""
    a, b = memory_transport_pair()
    await a.send_frames([b"last"])
    await a.aclose()
    assert await b.receive_frames() == [b"last"]
    assert await b.receive_frames() == await b.receive_frames() == []
    with pytest.raises(trio.BrokenResourceError):
        await b.send_frames([b"late"])
    with pytest.raises(trio.ClosedResourceError):
        await a.receive_frames()
    with pytest.raises(trio.ClosedResourceError):
        await a.send_frames([])


@pytest.mark.parametrize("closer", ["sender", "receiver"])
async def test_closing_wakes_a_waiting_sender(nursery: trio.Nursery, closer: str) -> None:
    """A sender that waits for room is woken by the close of either end."""
    a, b = memory_transport_pair(max_bytes=1)
    expected = trio.ClosedResourceError if closer == "sender" else trio.BrokenResourceError

    async def clogged() -> None:
        with pytest.raises(expected):
            await a.send_frames([b"1", b"2"])

    nursery.start_soon(clogged)
    await trio.testing.wait_all_tasks_blocked()
    await (a if closer == "sender" else b).aclose()


def test_the_capacity_of_a_pair_is_positive() -> None:
    """With a bound below one byte no frame could pass."""
    memory_transport_pair(max_bytes=1)
    with pytest.raises(ValueError, match="at least 1"):
        memory_transport_pair(max_bytes=0)
