"""How to test a service of another stack: start it, connect to it, check its answers.

Run ``npm ci --ignore-scripts`` in this directory to install the packages of the service, then
``pytest examples/other_stack``. Without Node or the packages the tests are skipped. With
``INTEROP=required`` in the environment they fail instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from rsocket_trio import ApplicationError, Payload, Requester, connect

SERVICE = Path(__file__).with_name("service.js")


def pack(value: object) -> Payload:
    return Payload(json.dumps(value).encode())


def unpack(payload: Payload | None) -> Any:
    assert payload is not None, "completed without a value"
    return json.loads(payload.data)


@pytest.fixture
def node() -> str:
    """The path of Node. The service must find rsocket-js (NODE_PATH may name its directory)."""
    node = shutil.which("node")
    if node is not None:
        check = [node, "--eval", "require('rsocket-core'); require('rsocket-tcp-server')"]
        if subprocess.run(check, cwd=SERVICE.parent, capture_output=True).returncode == 0:
            return node
    missing = "Node" if node is None else f"rsocket-js (npm ci in {SERVICE.parent})"
    if os.environ.get("INTEROP") == "required":
        pytest.fail(f"not installed: {missing}", pytrace=False)
    pytest.skip(f"not installed: {missing}")


@pytest.fixture
def uri(node: str) -> Iterator[str]:
    """The address of the service. Each test gets a new process."""
    with subprocess.Popen([node, SERVICE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.strip().removeprefix("listening on ")
        process.kill()


@pytest.fixture
async def requester(uri: str) -> AsyncIterator[Requester]:
    # If the service does not answer, the deadline fails the test.
    with trio.fail_after(10):
        async with connect(uri, data_mime_type="application/json") as requester:
            yield requester


async def test_taking_goods(requester: Requester) -> None:
    """The service subtracts the goods taken."""
    request = pack({"item": "apples", "count": 5})
    left = unpack(await requester.request_response(request, route="stock.take"))
    assert left == {"item": "apples", "left": 7}
    assert unpack(await requester.request_response(pack("apples"), route="stock.of")) == left


async def test_refusals(requester: Requester) -> None:
    """Each refusal has a reason, and the connection stays open."""
    with pytest.raises(ApplicationError, match="there are only 3 pears"):
        await requester.request_response(pack({"item": "pears", "count": 4}), route="stock.take")
    with pytest.raises(ApplicationError, match="there have never been plums"):
        await requester.request_response(pack("plums"), route="stock.of")
    answer = await requester.request_response(pack("pears"), route="stock.of")
    assert unpack(answer)["left"] == 3


async def test_delivery(requester: Requester) -> None:
    """A delivery has no response. Later requests on the same connection see its effect."""
    await requester.fire_and_forget(pack({"item": "plums", "count": 2}), route="stock.deliver")
    answer = await requester.request_response(pack("plums"), route="stock.of")
    assert unpack(answer)["left"] == 2


async def test_ledger(requester: Requester) -> None:
    """The ledger arrives in order and follows the demand. Leaving it ends it at the service."""
    await requester.fire_and_forget(pack({"item": "plums", "count": 2}), route="stock.deliver")
    async with requester.request_stream(prefetch=0, initial_request_n=3) as entries:
        assert [unpack(await entries.receive())["number"] for _ in range(3)] == [0, 1, 2]
        # Three entries were requested. A fourth would have arrived before this answer.
        assert unpack(await requester.request_response(pack(0), route="ledger.readers")) == 1
        with pytest.raises(trio.WouldBlock):
            entries.receive_nowait()
        entries.request_n(1)
        assert unpack(await entries.receive())["number"] == 3
    assert unpack(await requester.request_response(pack(0), route="ledger.readers")) == 0
