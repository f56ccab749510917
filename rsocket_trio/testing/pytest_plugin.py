"""Fixtures for pytest with pytest-trio.

Register them in the top ``conftest.py``::

    pytest_plugins = ["rsocket_trio.testing.pytest_plugin"]

Each fixture is a function that returns an async context manager. The test passes the responder::

    async def test_greeting(rsocket_pair):
        async with rsocket_pair(router) as requester:
            reply = await requester.request_response(Payload(b"..."), route="greet")
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

try:
    import pytest
except ImportError as missing:  # pragma: no cover: the test environment has pytest
    raise ImportError(
        "rsocket_trio.testing.pytest_plugin needs pytest: pip install 'rsocket-trio[test]'"
    ) from missing

from ..requester import Requester
from ..server import Server
from .frame_peer import FramePeer
from .in_memory import connected_pair
from .in_memory import frame_peer_client as _frame_peer_client
from .in_memory import frame_peer_server as _frame_peer_server
from .programs import Program, started
from .serving import serving

__all__ = ["frame_peer_client", "frame_peer_server", "program", "rsocket_app", "rsocket_pair"]


@pytest.fixture
def rsocket_pair() -> Callable[..., AbstractAsyncContextManager[Requester]]:
    """`rsocket_trio.testing.in_memory.connected_pair`: a requester connected to a responder."""
    return connected_pair


@pytest.fixture
def frame_peer_client() -> Callable[..., AbstractAsyncContextManager[FramePeer]]:
    """`rsocket_trio.testing.in_memory.frame_peer_client`: a scripted client of a responder."""
    return _frame_peer_client


@pytest.fixture
def frame_peer_server() -> Callable[..., AbstractAsyncContextManager[tuple[FramePeer, Requester]]]:
    """`rsocket_trio.testing.in_memory.frame_peer_server`: a client of a scripted server."""
    return _frame_peer_server


@pytest.fixture
def rsocket_app() -> Callable[..., AbstractAsyncContextManager[Server]]:
    """`rsocket_trio.testing.serving.serving`: an application on a free port, with its lifespan."""
    return serving


@pytest.fixture
def program() -> Callable[..., AbstractAsyncContextManager[Program]]:
    """`rsocket_trio.testing.programs.started`: any program, until the end of the block."""
    return started
