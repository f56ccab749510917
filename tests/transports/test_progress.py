"""Large batches over streams that do not report progress, such as TLS."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.transports import ByteStreamTransport, TransportInfo
from rsocket_trio.transports.progress import send_in_parts

KIB = 2**10


class Recorder(trio.abc.SendStream):
    """Takes a second for each call, and keeps the lengths."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.lengths.append(len(data))
        await trio.sleep(1)

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("not needed")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (64 * KIB, [64 * KIB]),
        (64 * KIB + 1, [64 * KIB, 1]),
        (200 * KIB, [64 * KIB, 64 * KIB, 64 * KIB, 8 * KIB]),
    ],
)
async def test_each_part_is_a_sign_of_life(
    size: int, parts: list[int], autojump_clock: trio.testing.MockClock
) -> None:
    """At most 64 KiB are sent between two notes, so a slow peer that reads is not called dead."""
    stream = Recorder()
    transport = ByteStreamTransport(
        trio.StapledStream(stream, trio.testing.MemoryReceiveStream()),
        info=TransportInfo(scheme="tls"),
    )
    await send_in_parts(transport, stream, bytes(size))
    assert stream.lengths == parts
    if len(parts) > 1:
        assert transport.sent_at == trio.current_time()
