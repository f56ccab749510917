"""The plugin of NRI, with a runtime in Python: it is the other end of each call."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import ttrpc

pytest.importorskip("google.protobuf", reason="pip install 'rsocket-trio[ttrpc]'")

NOTE = "cpu-boost.example.org/original-shares"


def boosted(nri, name, note):
    """A container that has a boost of 10 seconds, and such a note about its shares before."""
    return nri.Container(id=name, annotations={"cpu-boost.example.org": "10", NOTE: note})


@pytest.fixture
def generated(examples, monkeypatch):
    """The generated modules ``nri_pb2`` and ``nri_ttrpc``."""
    monkeypatch.syspath_prepend(examples / "nri")
    monkeypatch.delitem(sys.modules, "plugin", raising=False)
    return importlib.import_module("nri_pb2"), importlib.import_module("nri_ttrpc")


class Runtime:
    """A runtime with one plugin.

    Attributes:
        plugin: For calls to the plugin.
        registered: Receives the names under which plugins register.
        updates: Receives the updates that they want.
    """

    def __init__(self, generated):
        nri, stubs = generated
        self._messages = nri
        self._stubs = stubs
        self.plugin = None
        self._put_name, self.registered = trio.open_memory_channel(10)
        self._put_update, self.updates = trio.open_memory_channel(10)

    def service(self):
        """The service that the plugin calls."""
        nri = self._messages
        runtime = self

        class Service(self._stubs.RuntimeBase):
            async def register_plugin(self, request, call):
                runtime._put_name.send_nowait(f"{request.plugin_idx}-{request.plugin_name}")
                return nri.Empty()

            async def update_containers(self, request, call):
                runtime._put_update.send_nowait(list(request.update))
                return nri.UpdateContainersResponse()

        return Service()

    async def connected(self, stream):
        """Serve one plugin until it goes."""
        async with ttrpc.multiplexed(stream) as trunk:
            calls_to_us = trunk.open(ttrpc.RUNTIME_SERVICE)
            calls_by_us = trunk.open(ttrpc.PLUGIN_SERVICE)
            async with ttrpc.connect(calls_by_us) as client, trio.open_nursery() as nursery:
                self.plugin = self._stubs.PluginClient(client)
                nursery.start_soon(ttrpc.serve_stream, self.service(), calls_to_us)
                await client.wait_closed()
                nursery.cancel_scope.cancel(reason="the plugin is gone")


@pytest.fixture
def runtime(generated, examples, environment, tmp_path):
    """``async with runtime() as there``: a runtime, and the example as its plugin."""

    @asynccontextmanager
    async def run():
        there = Runtime(generated)
        path = tmp_path / "nri.sock"
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(str(path))
        listening.listen()
        program = [sys.executable, str(examples / "nri/plugin.py"), f"--socket={path}"]
        async with trio.open_nursery() as nursery:
            listeners = [trio.SocketListener(listening)]
            await nursery.start(trio.serve_listeners, there.connected, listeners)
            process = await trio.lowlevel.open_process(
                program, stdout=subprocess.DEVNULL, env=environment
            )
            try:
                assert await there.registered.receive() == "10-cpu-boost"
                yield there
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
                nursery.cancel_scope.cancel(reason="the test is over")

    return run


async def test_a_boost_begins_and_ends(runtime, generated):
    """The plugin adjusts a container, and updates it when the time is over."""
    nri, _ = generated
    async with runtime() as there:
        plugin = there.plugin
        configured = await plugin.configure(nri.ConfigureRequest(config="factor = 3"))
        wanted = (nri.CREATE_CONTAINER, nri.POST_START_CONTAINER, nri.REMOVE_CONTAINER)
        assert configured.events == sum(1 << (event - 1) for event in wanted)

        container = nri.Container(id="web", annotations={"cpu-boost.example.org": "0.05"})
        created = await plugin.create_container(nri.CreateContainerRequest(container=container))
        assert dict(created.adjust.annotations) == {NOTE: "1024"}
        assert created.adjust.linux.resources.cpu.shares.value == 3072

        container.annotations.update(created.adjust.annotations)
        started = nri.PostStartContainerRequest(container=container)
        assert await plugin.post_start_container(started) == nri.PostStartContainerResponse()
        (update,) = await there.updates.receive()
        assert update.container_id == "web"
        assert update.linux.resources.cpu.shares.value == 1024


async def test_boosts_that_another_plugin_has_left(runtime, generated):
    """They are taken back with the last part of the synchronisation."""
    nri, _ = generated
    async with runtime() as there:
        first, last = boosted(nri, "web", "512"), boosted(nri, "db", "2")
        request = nri.SynchronizeRequest(containers=[first, nri.Container(id="x")], more=True)
        answer = await there.plugin.synchronize(request)
        assert (answer.more, list(answer.update)) == (True, [])
        answer = await there.plugin.synchronize(nri.SynchronizeRequest(containers=[last]))
        taken_back = [
            (update.container_id, update.linux.resources.cpu.shares.value)
            for update in answer.update
        ]
        assert taken_back == [("web", 512), ("db", 2)]


@pytest.mark.parametrize("note", ["many", "", "-1", "1", "262145", "9" * 5000, "²"])
async def test_annotations_of_a_stranger_harm_nobody(runtime, generated, note):
    """Who makes a container may write anything: it is no note, and no error of the plugin."""
    nri, _ = generated
    async with runtime() as there:
        container = boosted(nri, "web", note)
        containers = nri.SynchronizeRequest(containers=[container])
        assert list((await there.plugin.synchronize(containers)).update) == []
        started = nri.PostStartContainerRequest(container=container)
        await there.plugin.post_start_container(started)
        container.linux.resources.cpu.shares.value = 2**64 - 1
        created = await there.plugin.create_container(
            nri.CreateContainerRequest(container=container)
        )
        assert created.adjust.linux.resources.cpu.shares.value == 262144


async def test_a_runtime_that_goes_before_the_registration(generated, examples, environment):
    """The plugin comes back."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/s"
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(path)
        listening.listen()
        program = [sys.executable, str(examples / "nri/plugin.py"), f"--socket={path}"]
        process = await trio.lowlevel.open_process(
            program, stdout=subprocess.DEVNULL, env=environment
        )
        try:
            with trio.fail_after(30), listening:
                for _ in range(2):
                    plugin, _ = await listening.accept()
                    plugin.close()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def test_a_container_that_is_removed_gets_no_update(generated, autojump_clock):
    """The boost of one container ends with it, that of the other in its time."""
    nri, _ = generated
    updates = []

    class Recorder:
        async def update_containers(self, request):
            updates.extend((each.container_id, trio.current_time()) for each in request.update)
            return nri.UpdateContainersResponse()

    async with trio.open_nursery() as nursery:
        plugin = importlib.import_module("plugin").CpuBoost(Recorder(), nursery)
        begun = trio.current_time()
        for name in ("gone", "there"):
            container = boosted(nri, name, "1024")
            await plugin.post_start_container(
                nri.PostStartContainerRequest(container=container), None
            )
        await trio.sleep(5)
        gone = nri.Container(id="gone")
        await plugin.remove_container(nri.RemoveContainerRequest(container=gone), None)
    assert updates == [("there", begun + 10)]


@pytest.mark.parametrize("config", ["factor = ", "factor = 'many'", "factor = inf", "factor = -1"])
async def test_a_wrong_configuration_is_refused(runtime, generated, config):
    nri, _ = generated
    async with runtime() as there:
        with pytest.raises(ttrpc.InvalidArgument, match="configuration"):
            await there.plugin.configure(nri.ConfigureRequest(config=config))
        with pytest.raises(ttrpc.Unimplemented):
            await there.plugin.update_container(nri.UpdateContainerRequest())


def test_the_generated_code_is_current(examples, environment, tmp_path):
    """`nri_ttrpc.py` is what our plugin of protoc writes for `nri.proto`."""
    pytest.importorskip("grpc_tools", reason="pip install grpcio-tools")
    compiler = tmp_path / "protoc-gen-trio-ttrpc"
    module = "rsocket_trio.ttrpc.codegen.plugin"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
    compiler.chmod(0o755)
    shutil.copy(examples / "nri/nri.proto", tmp_path)
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}"),
            *(f"--plugin={compiler}", f"--trio-ttrpc_out={tmp_path}", "nri.proto"),
        ],
        env=environment,
        check=True,
        timeout=60,
    )
    for name in ("nri_ttrpc.py", "nri_ttrpc.pyi"):
        assert (tmp_path / name).read_text() == (examples / "nri" / name).read_text()
