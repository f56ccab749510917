"""NRI plugins in Python, driven by containerd's own runtime side of NRI.

Most tests run the example `examples/nri/plugin.py`, as a program of its own.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import rsocket_trio
from rsocket_trio import ttrpc

pytestmark = pytest.mark.interop

EXAMPLE = Path(__file__).parents[3] / "examples/nri"
ROOT = Path(rsocket_trio.__file__).parents[1]
BOOST = "cpu-boost.example.org"
NOTE = "cpu-boost.example.org/original-shares"


def shares(message):
    """The CPU shares in an adjustment or an update; ``None`` without any."""
    for key in ("linux", "resources", "cpu", "shares", "value"):
        message = (message or {}).get(key)
    return message


@pytest.fixture(scope="session")
def nri(installed):
    """The module ``../support/nri.py``."""
    pytest.importorskip("google.protobuf", reason="pip install 'rsocket-trio[ttrpc]'")
    installed.require("NRI")
    return importlib.import_module("interop_support.nri")


@pytest.fixture(params=["0.10.0", "0.12.5"])
def version(request):
    """Until 0.10 most events are one method, StateChange; since then each has its own."""
    return request.param


@pytest.fixture
def runtime(nri, directory, version):
    """``async with runtime(**flags) as there``."""
    return lambda **flags: nri.runtime(directory / "nri.sock", version, **flags)


@pytest.fixture
def plugin(programs):
    """``async with plugin(socket) as here``: the example, which registers itself."""

    @asynccontextmanager
    async def run(socket):
        argv = [sys.executable, str(EXAMPLE / "plugin.py"), "--socket", str(socket)]
        async with programs.running(programs.ends_with_stdin(argv)) as peer:
            assert await peer.line() == "registers as 10-cpu-boost"
            yield peer

    return run


async def test_registration_configuration_and_synchronisation(runtime, plugin):
    """The plugin is configured, and hears what runs already."""
    async with runtime(pods=3) as there, plugin(there.socket) as here:
        assert await here.line() == "configured by interop: factor 2"
        assert await here.line() == "3 containers are there"
        assert (await there.said("synchronized")) == {"synchronized": [], "error": ""}
        await there.logged('plugin "10-cpu-boost" connected and synchronized')


async def test_the_runtime_has_nothing_to_complain_about(runtime, plugin, version):
    """It knows the plugin's version of NRI, and tells events by the methods of today."""
    async with runtime() as there, plugin(there.socket):
        await there.said("synchronized")
        await there.run_container("web", {BOOST: "3600"})
        removed = await there.do("remove", pod="pod-of-web", container="web")
        assert removed["error"] == ""
        if version != "0.10.0":
            await there.logged("(with NRI version v0.12.5)")
        assert not [line for line in there.log if "deprecated" in line]


async def test_an_adjustment_arrives_and_is_taken_back(runtime, plugin):
    """The runtime gets the adjustment, and later an update that it has not asked for."""
    async with runtime() as there, plugin(there.socket) as here:
        await there.said("synchronized")
        created = await there.run_container("web", {BOOST: "0.2"})
        assert created["error"] == ""
        assert created["adjust"]["annotations"] == {NOTE: "512"}
        assert shares(created["adjust"]) == "1024"
        (update,) = (await there.said("unsolicited"))["unsolicited"]
        assert (update["container_id"], shares(update)) == ("web", "512")
        for _ in range(2):
            await here.line()
        assert await here.line() == "web starts with 1024 shares instead of 512"
        assert await here.line() == "web has 512 shares again"
        stopped = await there.do("stop", pod="pod-of-web", container="web")
        assert (stopped["updates"], stopped["error"]) == ([], "")


async def test_other_containers_are_left_alone(runtime, plugin):
    """Without the annotation, or with one that is no number, nothing is adjusted."""
    async with runtime() as there, plugin(there.socket):
        await there.said("synchronized")
        for name, annotations in (("plain", {}), ("odd", {BOOST: "soon"}), ("old", {BOOST: "-1"})):
            created = await there.run_container(name, annotations)
            assert shares(created["adjust"]) is None
            assert created["error"] == ""


async def test_what_does_not_fit_in_a_message_comes_in_parts(runtime, plugin):
    """50 containers with 200 KB each: containerd sends several messages of up to 4 MiB."""
    async with runtime(pods=50, padding=200_000, request="20s") as there:
        async with plugin(there.socket) as here:
            assert (await there.said("synchronized")) == {"synchronized": [], "error": ""}
            await here.line()
            parts = []
            while sum(parts) < 50:
                parts.append(int((await here.line()).partition(" ")[0]))
            assert sum(parts) == 50
            assert len(parts) > 2


async def test_a_plugin_that_is_killed_and_comes_back(runtime, plugin):
    """The runtime goes on without it; the next one takes back what the first one cannot."""
    async with runtime() as there:
        async with plugin(there.socket) as here:
            await there.said("synchronized")
            await there.run_container("web", {BOOST: "3600"})
            await here.kill()
            await there.logged('connection to plugin "10-cpu-boost" closed')
        created = await there.run_container("alone", {BOOST: "3600"})
        assert shares(created["adjust"]) is None
        async with plugin(there.socket):
            (update,) = (await there.said("synchronized"))["synchronized"]
            assert (update["container_id"], shares(update)) == ("web", "512")
            created = await there.run_container("new", {BOOST: "3600"})
            assert shares(created["adjust"]) == "1024"


async def test_a_runtime_that_is_killed_and_comes_back(runtime, plugin):
    """The plugin registers again."""
    async with runtime() as first, plugin(first.socket) as here:
        await first.said("synchronized")
        await first.kill()
        while await here.line() != "the runtime is gone":
            pass
        async with runtime() as second:
            await second.said("synchronized")
            while await here.line() != "registers as 10-cpu-boost":
                pass
            await second.logged('plugin "10-cpu-boost" connected and synchronized')
            created = await second.run_container("web", {BOOST: "3600"})
            assert shares(created["adjust"]) == "1024"


@pytest.mark.parametrize(
    ("configuration", "expected"), [("factor = 4", "2048"), ("factor = 'x'", None)]
)
async def test_a_plugin_that_the_runtime_starts(runtime, tmp_path, configuration, expected):
    """It gets an open socket and its configuration; a configuration that is wrong is refused."""
    plugins, configs = tmp_path / "plugins", tmp_path / "configs"
    for path in (plugins, configs):
        path.mkdir()
    (configs / "10-cpu-boost.conf").write_text(configuration)
    launcher = plugins / "10-cpu-boost"
    path = ":".join([str(ROOT), *(each for each in sys.path if "site-packages" in each)])
    launcher.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={path}\nexec {sys.executable} {EXAMPLE / 'plugin.py'} "
        f">{tmp_path}/said 2>&1\n"
    )
    launcher.chmod(0o755)
    flags = {"plugins": plugins, "configs": configs, "registration": "20s"}
    async with runtime(**flags) as there:
        created = await there.run_container("web", {BOOST: "3600"})
    said = (tmp_path / "said").read_text()
    if expected is None:
        assert shares(created["adjust"]) is None
        assert "configured" not in said
    else:
        assert "configured by interop: factor 4" in said
        assert shares(created["adjust"]) == expected


async def test_the_plugin_of_the_page(runtime, programs, from_page, tmp_path):
    """What docs/howto/ttrpc-nri.md says, followed to the letter."""
    from_page("ttrpc-nri.md", "nri.proto", "plugin.py")
    async with runtime() as there:
        argv = [sys.executable, "-u", str(tmp_path / "plugin.py"), str(there.socket)]
        async with programs.running(programs.ends_with_stdin(argv)) as here:
            assert await here.line() == "configured by interop"
            assert await here.line() == "1 containers are there"
            await there.said("synchronized")
            created = await there.run_container("web", {})
            (added,) = created["adjust"]["env"]
            assert added["key"] == "HOST_NAME"
            assert await here.line() == "a new container: web"


class Slow:
    """A plugin that does not answer in time.

    At the deadline it is cancelled, and the runtime gives up: either may be first. So that the
    answer "deadline exceeded" never comes before the runtime has given up, it cleans up slowly.

    Attributes:
        cancelled: Set when the handler has been cancelled.
        dropped: To be set when the runtime has given up.
    """

    def __init__(self, messages):
        self.service = ttrpc.Service("nri.pkg.api.v1alpha1.Plugin")
        self.cancelled = trio.Event()
        self.dropped = trio.Event()
        self._messages = messages
        self.service.method("Configure")(self.configure)
        self.service.method("Synchronize")(self.synchronize)
        self.service.method("CreateContainer")(self.create)

    async def configure(self, request: bytes) -> bytes:
        return self._messages.ConfigureResponse(events=1 << 3).SerializeToString()

    async def synchronize(self, request: bytes) -> bytes:
        return b""

    async def create(self, request: bytes, call: ttrpc.Call) -> bytes:
        assert call.deadline < trio.current_time() + 20
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.set()
            with trio.CancelScope(shield=True):
                await self.dropped.wait()
        return b""


@pytest.fixture
def messages(monkeypatch):
    """The module ``examples/nri/nri_pb2.py``."""
    pytest.importorskip("google.protobuf", reason="pip install 'rsocket-trio[ttrpc]'")
    monkeypatch.syspath_prepend(EXAMPLE)
    return importlib.import_module("nri_pb2")


async def test_a_plugin_that_is_too_slow(runtime, messages):
    """The runtime drops it and creates the container; our handler ends with the deadline."""
    slow = Slow(messages)
    async with (
        runtime(request="300ms") as there,
        ttrpc.multiplexed(f"unix://{there.socket}") as trunk,
        trio.open_nursery() as nursery,
    ):
        calls_to_us = trunk.open(ttrpc.PLUGIN_SERVICE)
        calls_by_us = trunk.open(ttrpc.RUNTIME_SERVICE)
        nursery.start_soon(ttrpc.serve_stream, slow.service, calls_to_us)
        async with ttrpc.connect(calls_by_us) as client:
            request = messages.RegisterPluginRequest(plugin_name="slow", plugin_idx="20")
            register = ttrpc.Method.raw("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin")
            await client.unary(register, request.SerializeToString())
            await there.said("synchronized")
            try:
                created = await there.run_container("web", {})
                assert created["error"] == ""
                assert any("closing plugin 20-slow" in line for line in there.log)
                await slow.cancelled.wait()
            finally:
                slow.dropped.set()
            await client.wait_closed()


async def test_a_plugin_that_does_not_register(runtime, messages):
    """The runtime closes the connection when its time is over, and serves the next plugin."""
    async with runtime(registration="300ms") as there:
        async with ttrpc.multiplexed(f"unix://{there.socket}") as trunk:
            stream = trunk.open(ttrpc.RUNTIME_SERVICE)
            assert await stream.receive_some() == b""
        await there.logged("plugin registration timed out")
        async with (
            ttrpc.multiplexed(f"unix://{there.socket}") as trunk,
            ttrpc.connect(trunk.open(ttrpc.RUNTIME_SERVICE)) as client,
        ):
            request = messages.RegisterPluginRequest(plugin_name="x", plugin_idx="not two digits")
            register = ttrpc.Method.raw("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin")
            with pytest.raises(ttrpc.Unknown, match="invalid plugin index"):
                await client.unary(register, request.SerializeToString())
