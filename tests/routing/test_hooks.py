"""A mistake in a hook of a router refuses, and the log says which hook it was."""

import re

import pytest

from rsocket_trio import Rejected, RequestFacts, Router
from rsocket_trio.errors import (
    ApplicationError,
    RejectedResume,
    RejectedSetup,
    RSocketError,
)
from rsocket_trio.responder import ResumeFacts
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.transports.base import TransportInfo

from .conftest import make_setup

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


async def good(*_) -> None: ...


async def answer() -> None: ...


async def fails(*_):
    raise KeyError("secret")


async def forgot(*_):
    return good()


async def false(*_):
    return False


def not_async(*_):
    return None


async def returned(*_):
    return Rejected("secret")


async def returned_class(*_):
    return Rejected


async def generator(*_):
    return (each for each in ())


async def not_implemented(*_):
    return NotImplemented


MISTAKES = [
    (fails, "KeyError: 'secret'"),
    (forgot, "forgot returned a coroutine: an `await` is missing before the call of good"),
    (false, "false returned (False: to refuse, raise Rejected|bool, but its result is not used)"),
    (not_async, "not_async is not async: write `async def`"),
    (returned, "returned returned an error: to refuse, raise it"),
    (returned_class, "returned_class returned an error: to refuse, raise it"),
    (generator, "generator returned generator, which is no answer"),
    (not_implemented, "not_implemented returned NotImplementedType, which is no answer"),
]


def check(caplog, option, hook, text):
    assert caplog.text.count("Traceback") >= 1
    assert f"{option}= of a Router failed, so " in caplog.text
    assert re.search(rf" was refused: fix .*{hook.__name__}\n", caplog.text)
    assert re.search(text, caplog.text)


@pytest.mark.parametrize("option", ["authenticate", "on_setup"])
@pytest.mark.parametrize(("hook", "text"), MISTAKES)
@pytest.mark.parametrize("included", [False, True])
async def test_a_mistake_about_a_connection(option, hook, text, included, caplog):
    router = Router(**{option: hook})
    router.request_response("x")(answer)
    if included:
        outer = Router()
        outer.include(router)
        router = outer
    with pytest.raises(RSocketError) as caught:
        async with connected_pair(router) as requester:
            assert included
            await requester.request_response(route="x")
    assert isinstance(caught.value, Rejected if included else RejectedSetup)
    assert caught.value.message == "this connection was not admitted"
    assert "the acceptor failed" not in caplog.text
    check(caplog, option, hook, text)


@pytest.mark.parametrize(("hook", "text"), MISTAKES)
async def test_a_mistake_about_a_request(hook, text, caplog):
    called = []

    def authenticate(auth, facts):
        return hook() if isinstance(facts, RequestFacts) else good()

    authenticate.__name__ = authenticate.__qualname__ = hook.__name__
    router = Router(authenticate=authenticate)

    @router.request_response("x")
    async def x() -> None:
        called.append(1)

    async with connected_pair(router) as requester:
        with pytest.raises(ApplicationError) as caught:
            await requester.request_response(route="x")
    assert caught.value.message == "this request was not admitted"
    assert not called
    assert "so request_response 'x' from memory was refused" in caplog.text
    check(caplog, "authenticate", hook, text)


@pytest.mark.parametrize("option", ["authenticate", "on_resume"])
@pytest.mark.parametrize(("hook", "text"), MISTAKES)
async def test_a_mistake_about_a_resumption(option, hook, text, caplog, bind):
    def about_resume(*arguments):
        return hook() if isinstance(arguments[-1], ResumeFacts) else good()

    about_resume.__name__ = about_resume.__qualname__ = hook.__name__
    bound = await bind(Router(**{option: about_resume}))
    facts = ResumeFacts(setup=make_setup(), transport=TransportInfo(scheme="memory"))
    with pytest.raises(RejectedResume, match="this connection was not admitted"):
        await bound.accept_resume(facts)
    check(caplog, option, hook, text)


@pytest.mark.parametrize("option", ["authenticate", "on_setup"])
@pytest.mark.parametrize("error", [Rejected("go away"), RejectedSetup("go away")])
async def test_a_refusal_is_no_mistake(option, error, caplog):
    """Both hooks may raise the refusal of a request about a connection."""

    async def refuse(*_):
        raise error

    with pytest.raises(RejectedSetup, match="go away"):
        async with connected_pair(Router(**{option: refuse})):
            raise AssertionError("connected")
    assert not caplog.records


@pytest.mark.parametrize("option", ["authenticate", "on_setup", "on_resume", "explain"])
def test_what_can_be_no_hook(option):
    with pytest.raises(TypeError, match=f"{option}= takes .* function, not str"):
        Router(**{option: "password"})


def test_other_settings_of_a_wrong_type():
    with pytest.raises(TypeError, match=r"explain= takes a function that is not async, and .*good"):
        Router(explain=good)
    with pytest.raises(TypeError, match="codecs= takes a Codecs, not dict"):
        Router(codecs={})
    with pytest.raises(TypeError, match="tracing= takes a Tracing, not bool"):
        Router(tracing=True)
