"""The telemetry service, in this process: its answers agree with the machine."""

import json
import platform
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio import Invalid, Payload, connect, serve_transport
from rsocket_trio.transports.memory import memory_transport_pair


@pytest.fixture
def app(load):
    return load("host_telemetry.py")


@pytest.fixture
async def requester(app, nursery):
    client, server = memory_transport_pair()
    nursery.start_soon(serve_transport, app.router, server)
    async with connect(client, data_mime_type="application/json") as requester:
        yield requester


def pack(value):
    return Payload(json.dumps(value).encode())


def unpack(payload):
    return json.loads(payload.data)


async def ask(requester, route, value=None):
    payload = Payload() if value is None else pack(value)
    return unpack(await requester.request_response(payload, route=route))


async def read(requester, route, value):
    async with requester.request_stream(pack(value), route=route) as stream:
        return [unpack(payload) async for payload in stream]


async def search(requester, *wanted):
    items = [pack({"file": file, "pattern": pattern}) for file, pattern in wanted]
    async with requester.request_channel(items, route="file.grep") as matches:
        return [unpack(payload) async for payload in matches]


async def test_facts_agree_with_the_machine(requester):
    """The facts are those of /proc and of the platform."""
    facts = await ask(requester, "host.facts")
    total = Path("/proc/meminfo").read_text().split()[1]
    assert facts["memory_total"] == int(total) * 1024
    assert facts["kernel"].endswith(platform.release())
    assert 0 < facts["uptime"] <= float(Path("/proc/uptime").read_text().split()[0])


async def test_load_at_an_interval(requester, autojump_clock):
    """Samples come at the requested interval, with a share for each CPU."""
    began = trio.current_time()
    async with requester.request_stream(pack({"every": 2.5}), route="host.load") as samples:
        sample = [unpack(await samples.receive()) for _ in range(4)][-1]
    assert trio.current_time() - began == pytest.approx(10)
    cpus = Path("/proc/stat").read_text().count("\ncpu")
    assert len(sample["cpus"]) == cpus
    assert all(0 <= share <= 1 for share in (sample["busy"], *sample["cpus"]))


async def test_load_without_demand(requester, autojump_clock):
    """There are no samples for a client that grants no credit."""
    async with requester.request_stream(
        pack({"every": 1.0}), route="host.load", prefetch=0, initial_request_n=2
    ) as samples:
        await trio.sleep(100)
        assert samples.statistics().received == 2
        samples.request_n(1)
        await trio.sleep(100)
        assert samples.statistics().received == 3


@pytest.mark.parametrize("every", [0, 0.049, -1, 3600.5, 1e300])
async def test_intervals_out_of_bounds(requester, every):
    """An interval that is too short or too long is Invalid, and the answer has the bounds."""
    with pytest.raises(Invalid, match=r"0\.05 to 3600"):
        await read(requester, "host.load", {"every": every})


async def test_a_file_arrives_whole(app, requester):
    """A file arrives whole and in order, also with thousands of lines."""
    name = max(await ask(requester, "file.names"), key=lambda name: app.FILES[name].stat().st_size)
    lines = await read(requester, "file.lines", name)
    assert len(lines) > 1000
    assert lines == app.FILES[name].read_text().rstrip("\n").split("\n")


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "", ".", "typing.py\0", "./typing.py", "email/message.py",
     "..\\typing.py", "typing.py/../typing.py", "file:///etc/passwd", "x" * 100_000],
    ids=lambda name: name[:24],
)  # fmt: skip
async def test_hostile_paths(requester, name):
    """Only names on the list are files; others are Invalid, in lines and in grep."""
    with pytest.raises(Invalid, match="no such file is available"):
        await read(requester, "file.lines", name)
    with pytest.raises(Invalid, match="no such file is available"):
        await search(requester, (name, "root"))


async def test_grep_finds_each_pattern(app, requester):
    """Each pattern finds its lines, with their numbers, pattern by pattern."""
    found = await search(requester, ("abc.py", "import "), ("typing.py", "import re"))
    abc = sum(match["file"] == "abc.py" for match in found)
    assert [match["file"] for match in found] == [
        *["abc.py"] * abc,
        *["typing.py"] * (len(found) - abc),
    ]
    assert 0 < abc < len(found)
    for match in found:
        line = app.FILES[match["file"]].read_text().split("\n")[match["number"] - 1]
        assert match["line"] == line
        assert match["pattern"] in line


async def test_grep_while_patterns_come(requester):
    """Matches arrive before the last pattern has been sent."""
    send, receive = trio.open_memory_channel[Payload](0)
    with send:
        async with requester.request_channel(receive, route="file.grep") as matches:
            await send.send(pack({"file": "this.py", "pattern": "Gur Mra"}))
            assert unpack(await matches.receive())["number"] == 1
            await send.send(pack({"file": "this.py", "pattern": "d = {}"}))
            assert unpack(await matches.receive())["pattern"] == "d = {}"


async def test_notes_are_counted(requester):
    """Notes and metadata pushes are counted; the latest notes can be read, shortened."""
    for text in ("all is well", "x" * 5000):
        await requester.fire_and_forget(pack(text), route="note")
    await requester.metadata_push(b"anything")
    await trio.testing.wait_all_tasks_blocked()
    notes = await ask(requester, "notes")
    assert (notes["received"], notes["metadata_pushes"]) == (2, 1)
    assert [note["text"] for note in notes["latest"]] == ["all is well", "x" * 1000]
