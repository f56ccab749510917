"""A wrapper has the capabilities of its inner transport, and of later additions."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import attrs
import pytest
import trio

import rsocket_trio
from rsocket_trio import ConnectionConfig, Limits
from rsocket_trio.connection.resumable_link import ResumableLink
from rsocket_trio.reactivesocket import ReactiveSocketTransport
from rsocket_trio.testing.faulty import FaultyTransport
from rsocket_trio.testing.frame_log import FrameLog, _Noting
from rsocket_trio.transports import Capabilities, FrameTransport, TransportInfo, TransportWrapper

UNLIKE = Capabilities(
    max_frame_size=1000,
    frame_overhead=7,
    fragmented_requests=False,
    uncredited_requests=True,
    subscriptions=True,
    resumable=True,
    byte_stream=True,
    translates_frames=True,
)

WRAPPERS = {
    TransportWrapper: TransportWrapper,
    FaultyTransport: FaultyTransport,
    ReactiveSocketTransport: lambda inner: ReactiveSocketTransport(inner, client=True),
    ResumableLink: lambda inner: ResumableLink(inner, 1, interval=None, max_lifetime=1),
    _Noting: lambda inner: _Noting(inner, FrameLog(), 1),
}

OWN = {
    ReactiveSocketTransport: {
        "fragmented_requests": False,
        "uncredited_requests": True,
        "subscriptions": True,
        "translates_frames": True,
    },
    ResumableLink: {"resumable": True},
}
"""The capabilities that each wrapper has itself."""


class Inner(FrameTransport):
    """Notes which methods are called."""

    sends_nowait = True
    receives_nowait = True

    def __init__(self, capabilities):
        self.info = TransportInfo(scheme="memory", peer="inner")
        self.capabilities = capabilities
        self.calls = []
        self.event = trio.Event()

    async def send_frames(self, frames):
        self.calls.append(("send_frames", list(frames)))

    def send_frames_nowait(self, frames):
        self.calls.append(("send_frames_nowait", list(frames)))
        return True

    async def receive_frames(self):
        self.calls.append(("receive_frames",))
        return [b"frame"]

    def wait_received(self):
        self.calls.append(("wait_received",))
        return trio.lowlevel.checkpoint()

    def receive_frames_nowait(self):
        self.calls.append(("receive_frames_nowait",))
        return [b"now"]

    async def wait_connected(self):
        self.calls.append(("wait_connected",))
        return self.event

    async def close_sending(self):
        self.calls.append(("close_sending",))
        return True

    async def aclose(self):
        self.calls.append(("aclose",))


def test_every_field_differs_from_its_default():
    """A new capability needs a value above that is not its default."""
    for field in attrs.fields(Capabilities):
        assert getattr(UNLIKE, field.name) != field.default, field.name


def all_transports():
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if not module.name.endswith("__main__"):
            for name, each in vars(importlib.import_module(module.name)).items():
                if isinstance(each, type) and issubclass(each, FrameTransport):
                    yield name, each


def test_every_wrapper_is_in_the_table():
    """A transport of the package that is made with another one is in the table above."""
    wrappers = {
        each
        for _, each in all_transports()
        if each is not FrameTransport
        and "FrameTransport"
        in str([p.annotation for p in inspect.signature(each.__init__).parameters.values()])
    }
    assert wrappers == set(WRAPPERS)


@pytest.mark.parametrize("unlike", [field.name for field in attrs.fields(Capabilities)])
@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda each: each.__name__)
async def test_a_wrapper_passes_on_every_capability(wrapper, unlike):
    """Each alone has the inner transport's value, unless the wrapper adds to it."""
    for inside in (Capabilities(), Capabilities(**{unlike: getattr(UNLIKE, unlike)})):
        passed = WRAPPERS[wrapper](Inner(inside)).capabilities
        expected = attrs.evolve(inside, **OWN.get(wrapper, {}))
        if wrapper is ReactiveSocketTransport:
            expected = attrs.evolve(expected, frame_overhead=20 + inside.frame_overhead)
        assert passed == expected


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda each: each.__name__)
async def test_a_wrapper_passes_on_the_rest(wrapper):
    """Facts, and whether it can send at once."""
    inner = Inner(Capabilities())
    transport = WRAPPERS[wrapper](inner)
    # What notes frames in `send_frames` alone is not passed by at once.
    assert transport.sends_nowait is (wrapper is not _Noting)
    assert transport.info.peer == "inner"
    inner.sends_nowait = False
    assert not WRAPPERS[wrapper](inner).sends_nowait


async def test_every_member_is_passed_on():
    """The wrapper passes on every method and attribute of `FrameTransport`."""
    inner = Inner(UNLIKE)
    transport = TransportWrapper(inner)
    public = {name for name in vars(FrameTransport) if not name.startswith("_")}
    public |= set(FrameTransport.__annotations__)
    for name in sorted(public):
        assert name in vars(TransportWrapper), name
        value = getattr(transport, name)
        if not callable(value):
            assert value is getattr(inner, name)
    await transport.send_frames([b"a"])
    assert transport.send_frames_nowait([b"b"])
    assert await transport.receive_frames() == [b"frame"]
    await transport.wait_received()
    assert transport.receive_frames_nowait() == [b"now"]
    assert await transport.wait_connected() is inner.event
    assert await transport.close_sending()
    await transport.aclose()
    assert [call[0] for call in inner.calls] == [
        "send_frames",
        "send_frames_nowait",
        "receive_frames",
        "wait_received",
        "receive_frames_nowait",
        "wait_connected",
        "close_sending",
        "aclose",
    ]
    for hook in ("wake_writer", "on_lost"):
        called = []
        setattr(transport, hook, lambda called=called: called.append(True))
        getattr(inner, hook)()
        assert called == [True]
        assert getattr(transport, hook) is getattr(inner, hook)


async def test_received_frames_do_not_bypass_a_wrapper():
    """A wrapper that inspects received frames sees those of every receive method."""

    class Looks(TransportWrapper):
        async def receive_frames(self):
            return await super().receive_frames()

    class Both(Looks):
        async def receive_frames(self):
            return await super().receive_frames()

        def receive_frames_nowait(self):
            return super().receive_frames_nowait()

    inner = Inner(UNLIKE)
    assert TransportWrapper(inner).receives_nowait
    assert not Looks(inner).receives_nowait
    assert Both(inner).receives_nowait
    inner.receives_nowait = False
    assert not TransportWrapper(inner).receives_nowait


async def test_sent_frames_do_not_bypass_a_wrapper():
    """A wrapper that inspects sent frames sends with tasks, unless it overrides that too."""

    class Looks(TransportWrapper):
        async def send_frames(self, frames):
            await super().send_frames(frames)

    class Derived(Looks):
        pass

    class LooksTwice(Looks):
        def send_frames_nowait(self, frames):
            return super().send_frames_nowait(frames)

        async def send_frames(self, frames):
            await super().send_frames(frames)

    class Mixin:
        async def send_frames(self, frames):
            await super().send_frames(frames)

        async def receive_frames(self):
            return await super().receive_frames()

    class Mixed(Mixin, TransportWrapper):
        pass

    inner = Inner(Capabilities())
    assert not Mixed(inner).sends_nowait
    assert not Mixed(inner).receives_nowait
    assert not Looks(inner).sends_nowait
    assert not Derived(inner).sends_nowait
    assert LooksTwice(inner).sends_nowait


@pytest.mark.parametrize(
    ("capabilities", "largest", "fragment"),
    [
        (Capabilities(), 5000, 4000),
        (Capabilities(frame_overhead=20), 4980, 4000),
        (Capabilities(max_frame_size=300), 300, 300),
        (Capabilities(max_frame_size=4990, frame_overhead=20), 4980, 4000),
        (Capabilities(max_frame_size=10), 64, 64),
    ],
)
def test_settings_fit_the_transport(capabilities, largest, fragment):
    """Frames are no longer than the transport carries, and the settings still fit the limits."""
    config = ConnectionConfig(limits=Limits(max_frame_size=5000), fragment_size=4000, prefetch=3)
    fitted = capabilities.limit_config(config)
    assert (fitted.limits.max_frame_size, fitted.fragment_size) == (largest, fragment)
    assert (fitted.prefetch, fitted.limits.max_active_requests) == (
        3,
        config.limits.max_active_requests,
    )
