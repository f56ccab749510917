"""An included router keeps its settings, and is alive: what it gets later is served."""

import gc
import itertools
import re
import weakref
from types import SimpleNamespace
from typing import Annotated, Any

import attrs
import pytest

from rsocket_trio import (
    Metadata,
    Payload,
    Principal,
    Router,
    Setup,
    Tracing,
    ZipkinTrace,
    current_trace,
    declaration,
)
from rsocket_trio.codecs import Codecs
from rsocket_trio.errors import ApplicationError, Invalid
from rsocket_trio.routing.table import MAX_NESTED
from rsocket_trio.testing.in_memory import connected_pair

TRACE = ZipkinTrace(trace_id=bytes(8), span_id=bytes(8))


class Plain:
    def __init__(self, x):
        self.x = x


class PlainCodec:
    def encode(self, value, annotation):
        return str(value.x).encode()

    def decode(self, data, annotation):
        return annotation(int(data))


@attrs.frozen
class Item:
    quantity: int


def asked(route, data=b"21"):
    return Payload(data, Metadata(route=route).encode())


async def double(plain: Plain) -> Plain:
    return Plain(2 * plain.x)


async def one() -> int:
    return 1


async def take(item: Item) -> None: ...


async def test_codecs_are_kept(bind):
    """A handler is answered by the codecs of its own router, in a router of any others."""
    inner, middle, outer = Router(codecs=Codecs({"x/plain": PlainCodec()})), Router(), Router()
    inner.request_response("double")(double)
    middle.include(inner, "b.")
    outer.include(middle, "a.")
    bound = await bind(outer, data="x/plain")
    assert await bound.request_response(asked("a.b.double")) == Payload(b"42")
    inner.request_response("later")(double)
    bound = await bind(outer, data="x/plain")
    assert await bound.request_response(asked("a.b.later")) == Payload(b"42")


async def test_codecs_of_the_router_around_serve_where_there_are_no_others(bind):
    outer, inner = Router(codecs=Codecs({"x/plain": PlainCodec()})), Router()

    @inner.request_response("length")
    async def length(text: str) -> Any:
        return Plain(len(text))

    class Text(PlainCodec):
        def decode(self, data, annotation):
            return data.decode()

    outer = Router(codecs=Codecs({"x/plain": Text()}))
    outer.include(inner)
    bound = await bind(outer, data="x/plain")
    assert await bound.request_response(asked("length", b"abc")) == Payload(b"3")


def test_the_codecs_of_the_router_around_must_convert():
    class Picky(PlainCodec):
        def check_encode(self, annotation):
            raise TypeError("only on Sundays")

    inner = Router()
    inner.request_response("one")(one)
    codecs = Codecs(dict.fromkeys(Codecs().mime_types, Picky()))
    outer = Router(codecs=codecs)
    with pytest.raises(TypeError, match=r"one cannot be .* cannot be written: only on Sundays"):
        outer.include(inner)
    assert outer.describe() == ()
    own = Router(codecs=Codecs())
    own.request_response("one")(one)
    outer.include(own)
    assert [route.route for route in outer.describe()] == ["one"]


@pytest.mark.parametrize("own", [None, False, True])
@pytest.mark.parametrize("around", [None, False, True])
async def test_explain_is_kept(bind, own, around):
    outer, inner = Router(explain=around), Router(explain=own)
    inner.request_response("take")(take)
    outer.include(inner)
    bound = await bind(outer)
    with pytest.raises(Invalid) as caught:
        await bound.request_response(asked("take", b'{"quantity":"x"}'))
    told = around if own is None else own
    assert ("expected int, got str" in str(caught.value)) is bool(told)


async def test_explain_is_asked_about_the_principal_of_its_own_router(bind):
    """And so is a handler that takes the SETUP: as if its router were served alone."""

    async def inside(auth, facts):
        return "inside"

    async def outside(auth, facts):
        return "outside"

    seen = []
    inner = Router(authenticate=inside, explain=lambda setup: seen.append(setup.principal))
    inner.request_response("take")(take)

    @inner.request_response("who")
    async def who(setup: Setup, user: Annotated[str, Principal]) -> list[str]:
        return [setup.principal, user]

    outer = Router(authenticate=outside)
    outer.include(inner)
    outer.request_response("who out")(who)
    bound = await bind(outer)
    for _ in range(2):
        with pytest.raises(Invalid):
            await bound.request_response(asked("take", b"[]"))
    assert seen == ["inside"]
    assert (await bound.request_response(asked("who", b""))).data == b'["inside","inside"]'
    assert (await bound.request_response(asked("who out", b""))).data == b'["outside","outside"]'


async def nobody(setup):
    return True


class NoBool:
    def __bool__(self):
        raise OverflowError("neither true nor false")


def fails(setup):
    raise KeyError("secret")


@pytest.mark.parametrize(
    ("explain", "text"),
    [
        (fails, "explain= of a Router failed.* fix .*fails"),
        (lambda setup: nobody(setup), "returned a coroutine: an `await` is missing .* of nobody"),
        (lambda setup: (each for each in ()), "returned generator, which is no answer"),
        (lambda setup: Invalid("no"), "returned an error: to refuse, raise it"),
        (lambda setup: NoBool(), "OverflowError: neither true nor false"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
async def test_explain_that_fails_explains_nothing(bind, caplog, explain, text):
    router = Router(explain=explain)
    router.request_response("take")(take)
    bound = await bind(router)
    with pytest.raises(Invalid, match=r"expects Item as 'application/json'$"):
        await bound.request_response(asked("take", b"[]"))
    assert "explain= of a Router failed" in caplog.text
    assert re.search(text, caplog.text)


async def test_explain_that_fails_shows_no_values(bind, caplog):
    """The log has its traceback, and not that of the data that are to be explained."""

    @attrs.frozen
    class Picky:
        name: str = attrs.field()

        @name.validator
        def check(self, _, value):
            raise ValueError(f"{value} will not do")

    async def picky(item: Picky) -> None: ...

    router = Router(explain=fails)
    router.request_response("picky")(picky)
    bound = await bind(router)
    with pytest.raises(Invalid):
        await bound.request_response(asked("picky", b'{"name":"hunter2"}'))
    assert "KeyError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_an_error_that_is_its_own_cause(bind, caplog):
    caplog.set_level("DEBUG")

    @attrs.frozen
    class Looped:
        def __attrs_post_init__(self):
            error = ValueError()
            raise error from error

    async def looped(item: Looped) -> None: ...

    router = Router()
    router.request_response("looped")(looped)
    bound = await bind(router)
    with pytest.raises(Invalid):
        await bound.request_response(asked("looped", b"{}"))
    assert caplog.text.count("Traceback, without values") == 3


async def test_tracing_is_kept():
    """The handlers of a router with tracing have the trace; those around it have not."""

    async def seen() -> bool:
        return current_trace() is not None

    inner, outer = Router(tracing=Tracing()), Router()
    inner.request_response("in")(seen)
    outer.request_response("out")(seen)
    outer.include(inner)
    async with connected_pair(outer) as requester:
        for route, expected in (("in", b"\xf5"), ("out", b"\xf4")):
            metadata = Metadata(route=route, trace=TRACE)
            answer = await requester.request_response(metadata=metadata)
            assert answer.data == expected


async def test_later_handlers_are_served(bind):
    """They go to all routers around, and through several prefixes."""
    inner, a, b, top = Router(), Router(), Router(), Router()
    a.include(inner, "i.")
    b.include(inner, "j.")
    b.include(inner, "k.")
    top.include(a, "a.")
    top.include(b, "b.")
    inner.request_response("one")(one)
    routes = {"a.i.one", "b.j.one", "b.k.one"}
    assert {route.route for route in top.describe()} == routes
    bound = await bind(top)
    for route in routes:
        assert (await bound.request_response(asked(route, b""))).data == b"1"


@pytest.mark.parametrize("route", ["one", None])
def test_a_later_handler_whose_route_is_taken(route):
    """It is refused where it is registered, and goes nowhere."""
    inner, first, second = Router(), Router(), Router()
    first.include(inner)
    second.include(inner)
    second.request_response(route)(one)
    with pytest.raises(ValueError, match=r"a request_response handler already: .*one$"):
        inner.request_response(route)(one)
    assert inner.describe() == first.describe() == ()


def test_a_later_handler_that_would_come_twice():
    inner, a, b, top = Router(), Router(), Router(), Router()
    a.include(inner)
    b.include(inner)
    top.include(a)
    top.include(b)
    with pytest.raises(ValueError, match="route 'one' has a request_response handler already"):
        inner.request_response("one")(one)
    assert inner.describe() == top.describe() == ()
    inner, a, top = Router(), Router(), Router()
    a.include(inner, "x" * 250)
    with pytest.raises(ValueError, match="255 bytes"):
        inner.request_response("too long")(one)
    assert inner.describe() == ()


def test_what_cannot_be_included():
    a, b = Router(), Router()
    with pytest.raises(ValueError, match="cannot include itself"):
        a.include(a, "x.")
    a.include(b)
    with pytest.raises(ValueError, match="cannot include itself"):
        b.include(a)
    with pytest.raises(TypeError, match="include takes a Router, not str"):
        a.include("b")


def test_a_prefix_is_text_wherever_it_is_given():
    """Routers, inclusions and declarations say the same of one that is no text."""
    for give in (
        lambda: Router(prefix=None),
        lambda: Router().include(Router(), None),
        lambda: declaration(prefix=None),
    ):
        with pytest.raises(TypeError, match="a prefix is a str, not NoneType"):
            give()


def test_an_empty_router_is_included_once_with_a_prefix():
    """Included twice, it could never get a handler."""
    outer, inner = Router(), Router()
    outer.include(inner, "a.")
    with pytest.raises(ValueError, match=r"included with the prefix 'a\.' already"):
        outer.include(inner, "a.")
    outer.include(inner, "b.")
    inner.request_response("one")(one)
    assert [route.route for route in outer.describe()] == ["a.one", "b.one"]
    with pytest.raises(ValueError, match=r"route 'a\.one' has a request_response handler already"):
        outer.include(inner, "a.")


def nest(routers):
    """Include each router in the next one."""
    for inner, outer in itertools.pairwise(routers):
        outer.include(inner, "a")


@pytest.mark.parametrize("order", ["inside first", "outside first", "in the middle"])
async def test_routers_within_each_other(bind, order):
    """As many as are allowed are served; one more is an error at once, and changes nothing."""

    async def authenticate(auth, facts):
        return None

    routers = [Router(authenticate=authenticate, tracing=Tracing()) for _ in range(MAX_NESTED)]
    if order == "inside first":
        nest(routers)
    elif order == "outside first":
        for i in reversed(range(MAX_NESTED - 1)):
            routers[i + 1].include(routers[i], "a")
    else:
        nest(routers[:30])
        nest(routers[30:])
        routers[30].include(routers[29], "a")
    routers[0].request_response("one")(one)
    outer = Router()
    with pytest.raises(ValueError, match="at most 64 routers can be within each other, not 65"):
        outer.include(routers[-1])
    assert outer.describe() == ()
    with pytest.raises(ValueError, match="not 65"):
        routers[0].include(Router())
    routers[1].include(Router())
    bound = await bind(routers[-1], requester=SimpleNamespace())
    payload = asked("a" * (MAX_NESTED - 1) + "one", b"")
    assert (await bound.request_response(payload)).data == b"1"


def test_a_router_that_is_reached_in_many_ways():
    """Checking is quick, although the number of ways doubles with each level."""
    routers = [Router() for _ in range(40)]
    for inner, outer in itertools.pairwise(routers):
        outer.include(inner, "a")
        outer.include(inner, "b")
    with pytest.raises(ValueError, match="cannot include itself"):
        routers[0].include(routers[-1])


def test_a_router_for_each_connection_does_not_stay():
    """What is included does not keep the routers that include it."""
    common = Router()
    outer = Router()
    outer.include(common)
    gone = weakref.ref(outer)
    del outer
    gc.collect()
    assert gone() is None
    common.request_response("one")(one)


async def test_guarded_and_other_handlers_of_a_client():
    """A client's own SETUP is not authenticated, so both kinds of handlers see the same SETUP."""

    async def authenticate(auth, facts):
        return "server"

    async def who(user: Annotated[str | None, Principal]) -> str | None:
        return user

    inner, outer = Router(authenticate=authenticate), Router()
    inner.request_response("in")(who)
    outer.request_response("out")(who)
    outer.include(inner)

    async def accept(setup, requester):
        answers.append(requester)
        return Router()

    answers = []
    for routes in (("in", "out"), ("out", "in")):
        async with connected_pair(accept, client_responder=outer):
            for route in routes:
                if route == "in":
                    answer = await answers[-1].request_response(route=route)
                    assert answer.data.endswith(b"server")
                else:
                    with pytest.raises(ApplicationError, match="the handler failed"):
                        await answers[-1].request_response(route=route)
