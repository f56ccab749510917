"""A plugin of NRI for containerd or CRI-O: new containers get more CPU while they start.

Many programs work hardest while they start. A container with the annotation
``cpu-boost.example.org`` gets twice its CPU shares for that many seconds:

- The runtime asks before it creates the container, and the answer adjusts it.
- The runtime tells that it has started. When the time is over, the plugin takes the shares back,
  which is an update that nobody asked for.
- If the plugin is stopped in the meantime, it finds the container when it comes back: the
  adjustment has left a note in the annotations.

Runtime and plugin are both client and server, over one socket:

    python examples/nri/plugin.py --socket /var/run/nri/nri.sock

The runtime also starts it itself, if a script /opt/nri/plugins/10-cpu-boost runs this file: then it
inherits a socket that is open. It needs ``pip install 'rsocket-trio[ttrpc]'``.
"""

from __future__ import annotations

import argparse
import math
import os
import tomllib

import nri_pb2 as nri
import trio
from nri_ttrpc import PluginBase, RuntimeClient

from rsocket_trio import ConnectFailed, ConnectionClosed, ttrpc

NRI_VERSION = "v0.12.5"  # What this is written for. It works with runtimes since 0.10.
SECONDS = "cpu-boost.example.org"
NOTE = "cpu-boost.example.org/original-shares"
DEFAULT_SHARES = 1024
SHARES = range(2, 262145)  # What the kernel takes.
LONGEST = 3600.0
EVENTS = (nri.CREATE_CONTAINER, nri.POST_START_CONTAINER, nri.REMOVE_CONTAINER)


class CpuBoost(PluginBase):
    """The plugin. The runtime calls the methods whose names protoc has made from those of NRI.

    Args:
        runtime: For calls to the runtime.
        nursery: Runs what waits until a boost is over.
    """

    def __init__(self, runtime: RuntimeClient, nursery: trio.Nursery) -> None:
        self._runtime = runtime
        self._nursery = nursery
        self._factor = 2.0
        self._boosts: dict[str, trio.CancelScope] = {}
        self._noted: dict[str, int] = {}

    async def configure(
        self, request: nri.ConfigureRequest, call: ttrpc.Call
    ) -> nri.ConfigureResponse:
        """Read the configuration, which is TOML, and say which events are wanted."""
        try:
            factor = float(tomllib.loads(request.config).get("factor", self._factor))
            if not 0 < factor < math.inf:
                raise ValueError(f"the factor is {factor}")
        except (ValueError, TypeError) as error:
            raise ttrpc.InvalidArgument(f"the configuration cannot be used: {error}") from error
        self._factor = factor
        print(f"configured by {request.runtime_name}: factor {self._factor:g}", flush=True)
        return nri.ConfigureResponse(events=sum(1 << (event - 1) for event in EVENTS))

    async def synchronize(
        self, request: nri.SynchronizeRequest, call: ttrpc.Call
    ) -> nri.SynchronizeResponse:
        """See what runs. Boosts of a plugin before this one are taken back."""
        print(f"{len(request.containers)} containers are there", flush=True)
        for container in request.containers:
            if (shares := noted_in(container)) is not None:
                self._noted[container.id] = shares
        if request.more:
            # There are more than fit in a message. Updates go with the last one.
            return nri.SynchronizeResponse(more=True)
        noted, self._noted = self._noted, {}
        return nri.SynchronizeResponse(update=[update(*each) for each in noted.items()])

    async def create_container(
        self, request: nri.CreateContainerRequest, call: ttrpc.Call
    ) -> nri.CreateContainerResponse:
        """Adjust a container before it is created."""
        container = request.container
        if seconds_of(container) is None:
            return nri.CreateContainerResponse()
        shares = container.linux.resources.cpu.shares.value or DEFAULT_SHARES
        shares = min(shares, SHARES[-1])
        boosted = int(min(max(shares * self._factor, SHARES[0]), SHARES[-1]))
        print(f"{container.id} starts with {boosted} shares instead of {shares}", flush=True)
        linux = nri.LinuxContainerAdjustment(resources=resources(boosted))
        adjust = nri.ContainerAdjustment(annotations={NOTE: str(shares)}, linux=linux)
        return nri.CreateContainerResponse(adjust=adjust)

    async def post_start_container(
        self, request: nri.PostStartContainerRequest, call: ttrpc.Call
    ) -> nri.PostStartContainerResponse:
        """Begin to wait when a container has started."""
        self._started(request.container)
        return nri.PostStartContainerResponse()

    async def remove_container(
        self, request: nri.RemoveContainerRequest, call: ttrpc.Call
    ) -> nri.RemoveContainerResponse:
        """Do not wait for a container that is gone."""
        self._removed(request.container)
        return nri.RemoveContainerResponse()

    async def state_change(self, request: nri.StateChangeEvent, call: ttrpc.Call) -> nri.Empty:
        """Both of them, as runtimes until NRI 0.10 tell them."""
        if request.event == nri.REMOVE_CONTAINER:
            self._removed(request.container)
        else:
            self._started(request.container)
        return nri.Empty()

    async def shutdown(self, request: nri.Empty, call: ttrpc.Call) -> nri.Empty:
        """The runtime is going to end; `stay` sees that by itself."""
        return nri.Empty()

    def _started(self, container: nri.Container) -> None:
        # Not here: the runtime does nothing else until it has its answer, and would not take an
        # update from us either.
        seconds, shares = seconds_of(container), noted_in(container)
        if seconds is not None and shares is not None:
            scope = self._boosts[container.id] = trio.CancelScope()
            self._nursery.start_soon(self._take_back, scope, container.id, seconds, shares)

    def _removed(self, container: nri.Container) -> None:
        if (scope := self._boosts.pop(container.id, None)) is not None:
            scope.cancel()

    async def _take_back(
        self, scope: trio.CancelScope, container: str, seconds: float, shares: int
    ) -> None:
        with scope:
            await trio.sleep(seconds)
            request = nri.UpdateContainersRequest(update=[update(container, shares)])
            try:
                answer = await self._runtime.update_containers(request)
            except (ConnectionClosed, ttrpc.CallError) as error:
                print(f"{container} keeps its shares: {error}", flush=True)
                return
            finally:
                self._boosts.pop(container, None)
            failed = " in vain" if answer.failed else ""
            print(f"{container} has {shares} shares again{failed}", flush=True)


def seconds_of(container: nri.Container) -> float | None:
    """How long the boost of a container is; ``None`` without a boost."""
    try:
        seconds = float(container.annotations.get(SECONDS, "nan"))
    except ValueError:
        return None
    return seconds if 0 < seconds <= LONGEST else None


def noted_in(container: nri.Container) -> int | None:
    """The shares that a container had before its boost; ``None`` if this plugin gave it none.

    Whoever makes a container may write anything into its annotations.
    """
    note = container.annotations.get(NOTE, "")
    if seconds_of(container) is None or not (note.isdecimal() and len(note) < 7):
        return None
    shares = int(note)
    return shares if shares in SHARES else None


def resources(shares: int) -> nri.LinuxResources:
    """The resources of a container, as far as they change."""
    return nri.LinuxResources(cpu=nri.LinuxCPU(shares=nri.OptionalUInt64(value=shares)))


def update(container: str, shares: int) -> nri.ContainerUpdate:
    """A change of a container that is there."""
    linux = nri.LinuxContainerUpdate(resources=resources(shares))
    return nri.ContainerUpdate(container_id=container, linux=linux, ignore_failure=True)


async def stay(target: str, name: str, index: str) -> None:
    """Be a plugin of the runtime until the connection is over.

    Raises:
        ConnectFailed: Nobody listens there.
        ConnectionClosed: The runtime has closed the connection before we were registered.
        CallError: The runtime refuses this plugin.
    """
    async with ttrpc.multiplexed(target) as trunk:
        calls_to_us, calls_by_us = (
            trunk.open(ttrpc.PLUGIN_SERVICE),
            trunk.open(ttrpc.RUNTIME_SERVICE),
        )
        async with ttrpc.connect(calls_by_us) as client, trio.open_nursery() as nursery:
            runtime = RuntimeClient(client)
            nursery.start_soon(ttrpc.serve_stream, CpuBoost(runtime, nursery), calls_to_us)
            request = nri.RegisterPluginRequest(
                plugin_name=name, plugin_idx=index, NRI_version=NRI_VERSION
            )
            print(f"registers as {index}-{name}", flush=True)
            await runtime.register_plugin(request)
            await client.wait_closed()
            nursery.cancel_scope.cancel()


async def main() -> None:
    """Be a plugin of a runtime, again when it comes back; or once, if it has started this."""
    arguments = argparse.ArgumentParser(description="A plugin of NRI: CPU boost at start.")
    arguments.add_argument("--socket", default="/var/run/nri/nri.sock")
    arguments.add_argument("--name", default="cpu-boost")
    arguments.add_argument("--index", default="10", help="two digits: the place among the plugins")
    options = arguments.parse_args()
    if descriptor := os.environ.get("NRI_PLUGIN_SOCKET"):
        name, index = os.environ["NRI_PLUGIN_NAME"], os.environ["NRI_PLUGIN_IDX"]
        await stay(f"fd://{descriptor}", name, index)
        return
    while True:
        try:
            await stay(f"unix://{options.socket}", options.name, options.index)
            print("the runtime is gone", flush=True)
        except* (ConnectFailed, ConnectionClosed) as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            print(f"no runtime: {error}", flush=True)
        await trio.sleep(1)


if __name__ == "__main__":
    trio.run(main)
