"""``errors=``: which error of the application the requester gets for which exception."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    Caller,
    CustomError,
    Forbidden,
    Invalid,
    Rejected,
    Router,
    StreamError,
    Unauthenticated,
    ttrpc,
)
from rsocket_trio.errors import stream_error
from rsocket_trio.testing import connected_pair
from rsocket_trio.ttrpc.server.outcomes import status_of


class OutOfStock(LookupError):
    """An exception with its own facts."""

    def __init__(self, item):
        super().__init__(item)
        self.item = item


RAISED = {
    "key": KeyError("a secret"),
    "index": IndexError(),
    "stock": OutOfStock("tea"),
    "value": ValueError(),
    "group": ExceptionGroup("", [OutOfStock("cups")]),
    "rejected": Rejected("later"),
    "forbidden": Forbidden("never"),
}


def application(**options):
    router = Router(**options)

    @router.request_response("one")
    async def one(what: str) -> str:
        raise RAISED[what]

    @router.request_stream("many")
    async def many(what: str) -> AsyncIterator[str]:
        yield what
        raise RAISED[what]

    return router


async def answer(requester, route, what):
    """Return the type and the text of the error."""
    with pytest.raises(StreamError) as caught:
        if route.endswith("one"):
            await Caller(requester).request_response(route, what, returns=str)
        async with Caller(requester).request_stream(route, what, returns=str) as items:
            async for _ in items:
                pass
    return type(caught.value), caught.value.message


ERRORS = {
    LookupError: Invalid("no such thing"),
    OutOfStock: lambda error: Rejected(f"no {error.item} left"),
    Forbidden: Invalid("hidden"),
}


@pytest.mark.parametrize("route", ["one", "many"])
async def test_the_nearest_class_counts(route):
    """Functions get the exception, also out of a group; what is not named stays as it was."""
    async with connected_pair(application(errors=ERRORS)) as requester:
        for what, expected in {
            "key": (Invalid, "no such thing"),
            "index": (Invalid, "no such thing"),
            "stock": (Rejected, "no tea left"),
            "group": (Rejected, "no cups left"),
            "value": (ApplicationError, "the handler failed"),
            "rejected": (Rejected, "later"),
            "forbidden": (Invalid, "hidden"),
        }.items():
            assert await answer(requester, route, what) == expected


async def test_the_nearest_router_counts():
    """Inner middleware sees the exception, that around the map what it was made of."""
    seen = []

    async def look(call):
        try:
            yield
        except Exception as error:
            seen.append(type(error))
            raise

    inner = application(errors={KeyError: Rejected("inner")}, middleware=[look])
    outer = Router(errors={LookupError: Invalid("outer"), Exception: Rejected("all")})
    outer.include(inner, "in.")
    outer.include(application(middleware=[look]), "bare.")
    async with connected_pair(outer) as requester:
        assert await answer(requester, "in.one", "key") == (Rejected, "inner")
        assert await answer(requester, "in.one", "index") == (Invalid, "outer")
        assert await answer(requester, "bare.one", "value") == (Rejected, "all")
        assert await answer(requester, "bare.one", "forbidden") == (Forbidden, "never")
    assert seen == [Rejected, IndexError, ValueError, Forbidden]


async def test_one_error_object_serves_many_requests():
    """It keeps no traceback of a request: each gets a copy."""
    invalid = Invalid("no such thing")
    async with connected_pair(application(errors={KeyError: invalid})) as requester:
        for _ in range(3):
            await answer(requester, "one", "key")
    assert invalid.__traceback__ is None
    assert invalid.__cause__ is None


async def test_a_function_that_returns_something_else(caplog):
    """The request fails, and the log names the function."""

    def wrong(error):
        return "no"

    async with connected_pair(application(errors={KeyError: wrong})) as requester:
        assert await answer(requester, "one", "key") == (ApplicationError, "the handler failed")
    assert "wrong in errors= returned" in caplog.text


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([KeyError], "errors= takes a dict, not list"),
        ({"KeyError": Invalid("x")}, "takes classes of exceptions as keys, not str"),
        ({trio.Cancelled: Invalid("x")}, "takes classes of exceptions as keys"),
        ({KeyError: Invalid}, r"is a class: write Invalid\('a text"),
        ({KeyError: ValueError()}, "takes a StreamError, or a function"),
    ],
)
def test_what_is_no_map_is_refused(errors, text):
    """Where it is given, not at the first failure."""
    with pytest.raises(TypeError, match=text):
        Router(errors=errors)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (Unauthenticated("who?"), 4401, ttrpc.StatusCode.UNAUTHENTICATED),
        (Forbidden("no"), 4403, ttrpc.StatusCode.PERMISSION_DENIED),
    ],
)
def test_refused_for_good(error, code, status):
    """They have codes of the application, which the other end reads back, and ttrpc's own."""
    assert isinstance(error, CustomError)
    assert not isinstance(error, Rejected)
    assert error.code == code
    assert type(stream_error(code, b"text")) is type(error)
    assert status_of(error, "path").code == status
