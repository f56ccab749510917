"""An application on a free port, with its lifespan, and with other dependencies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import pytest

from rsocket_trio import Caller, Provided, Router, connect
from rsocket_trio.testing.serving import serving

Name = str


async def test_its_lifespan_is_around_it_and_a_fake_inside():
    """The lifespan is left with the block, also after an error in it."""
    events = []

    async def lifespan() -> AsyncIterator[None]:
        events.append("begins")
        yield
        events.append("ends")

    router = Router(lifespan=lifespan)
    router.provide(dict, lambda: {"name": "real"})

    @router.request_response("name")
    async def name(names: Annotated[dict, Provided]) -> str:
        return names["name"]

    for override, expected in [(None, "real"), ({dict: {"name": "fake"}}, "fake")]:
        with pytest.raises(KeyError):
            async with serving(router, override=override) as server:
                async with connect(server.uris[0]) as requester:
                    assert await Caller(requester).request_response("name", returns=str) == expected
                raise KeyError
    assert events == ["begins", "ends"] * 2


async def test_override_is_for_a_router():
    """The text says so."""
    with pytest.raises(TypeError, match="override= is for a Router"):
        async with serving(None, override={dict: {}}):
            pass
