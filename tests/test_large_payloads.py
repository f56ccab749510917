"""Payloads far larger than the memory they may use."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import environment

MIB = 2**20

PROGRAM = """
import sys
from pathlib import Path

import trio

from rsocket_trio import PayloadBody, Router, StreamedPayload, connect, serve

SIZE = 200 * 2**20
CHUNK = bytes(range(256)) * 1024

def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

async def chunks():
    for _ in range(SIZE // len(CHUNK)):
        yield CHUNK

async def count(body):
    size, total = 0, 0
    async for chunk in body:
        size += len(chunk)
        total += chunk.count(7)
    assert total == SIZE // 256
    return size

router = Router()

@router.request_response("up")
async def up(body: PayloadBody) -> int:
    return await count(body)

@router.request_response("down")
async def down() -> StreamedPayload:
    return StreamedPayload(chunks())

async def main():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, sys.argv[1])
        async with connect(server.uris[0]) as requester:
            before = peak()
            if sys.argv[2] == "down":
                async with requester.request_response_streamed(route="down") as body:
                    assert await count(body) == SIZE
            else:
                answer = await requester.request_response(StreamedPayload(chunks()), route="up")
                assert answer.data == bytes.fromhex("1a0c800000")
            print(peak() - before)
        await server.aclose(grace=0)

trio.run(main)
"""


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("uri", ["tcp://127.0.0.1:0", "ws://127.0.0.1:0"])
def test_two_hundred_mebibytes(direction, uri):
    """200 MiB are one payload, and cost less than 32 MiB: both ends are in this process."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri, direction],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 * MIB
