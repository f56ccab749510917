"""Public things have docstrings, and async ones say how they wait.

Public is everything that users can import by a name of the documentation, wherever it is defined.
Internal modules keep to no form: their docstrings say what their reader needs.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import rsocket_trio
from tests.rules.sources import none_of

PUBLIC = [
    "rsocket_trio",
    "rsocket_trio.codecs",
    "rsocket_trio.collector",
    "rsocket_trio.errors",
    "rsocket_trio.frames",
    "rsocket_trio.lumberjack",
    "rsocket_trio.metadata",
    "rsocket_trio.pool",
    "rsocket_trio.reactive_streams",
    "rsocket_trio.reactive_streams.operators",
    "rsocket_trio.reactivesocket",
    "rsocket_trio.reactivesocket.frames",
    "rsocket_trio.reactive_streams.tck",
    "rsocket_trio.routing",
    "rsocket_trio.rsio",
    "rsocket_trio.spark",
    "rsocket_trio.spark.replay",
    "rsocket_trio.spool",
    "rsocket_trio.testing",
    "rsocket_trio.testing.cancel_everywhere",
    "rsocket_trio.testing.fault_proxy",
    "rsocket_trio.testing.faulty",
    "rsocket_trio.testing.frame_log",
    "rsocket_trio.testing.frame_peer",
    "rsocket_trio.testing.in_memory",
    "rsocket_trio.testing.leaks",
    "rsocket_trio.testing.memory",
    "rsocket_trio.testing.peer",
    "rsocket_trio.testing.programs",
    "rsocket_trio.testing.pytest_plugin",
    "rsocket_trio.testing.serving",
    "rsocket_trio.testing.strategies",
    "rsocket_trio.testing.transport_suite",
    "rsocket_trio.transports",
    "rsocket_trio.ttrpc",
    "rsocket_trio.uri",
    "rsocket_trio.workers",
]
"""The modules that the documentation names."""

# Contracts that the application implements: how its handlers wait is its own decision.
WRITTEN_BY_USERS = (
    "Responder",
    "BodyResponder",
    "Router",
    "KnownAnswers",
    "ReplaySource",
    "PublisherVerification",
    "SubscriberVerification",
    "ProcessorVerification",
    "Verification",
)


def members(cls: type):
    """The (name, function) of the public methods of a class, and of those inherited from us."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = inspect.unwrap(getattr(member, "__func__", member))
        ours = (getattr(function, "__module__", None) or "").startswith("rsocket_trio")
        if ours and inspect.isfunction(function) and not name.startswith("_"):
            yield name, function


def public_things():
    """name -> (thing, its docstring, the class it is a method of) of everything public."""
    things = {}
    seen = set()
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            thing = getattr(module, name)
            ours = (getattr(thing, "__module__", None) or "").startswith("rsocket_trio")
            if id(thing) in seen or not ours or not callable(thing):
                continue
            seen.add(id(thing))
            if inspect.isclass(thing):
                things[f"{module.__name__}.{name}"] = thing, thing.__doc__, None
                for method, function in members(thing):
                    # The base of an overriding method may have the whole docstring.
                    doc = inspect.getdoc(getattr(thing, method))
                    things[f"{module.__name__}.{name}.{method}"] = function, doc, thing
            elif inspect.isfunction(thing):
                things[f"{module.__name__}.{name}"] = inspect.unwrap(thing), thing.__doc__, None
    return things


def waits(thing: object) -> bool:
    """Return whether it is awaited or entered, also where a plain function returns an awaitable."""
    if not inspect.isfunction(thing):
        return False
    returned = str(thing.__annotations__.get("return", ""))
    return (
        inspect.iscoroutinefunction(thing)
        or inspect.isasyncgenfunction(thing)
        or returned.startswith(("Coroutine", "AbstractAsyncContextManager"))
    )


THINGS = public_things()
FUNCTIONS = [name for name, (thing, _, _) in THINGS.items() if inspect.isfunction(thing)]
ASYNC = [
    name
    for name, (thing, _, cls) in THINGS.items()
    if waits(thing) and not (cls is not None and cls.__name__ in WRITTEN_BY_USERS)
]


def test_public_things_have_docstrings():
    """Every public thing says what it is, or its base does."""
    none_of(name for name, (_, doc, _) in THINGS.items() if not (doc or "").strip())


def missing_promises(name: str):
    text = inspect.cleandoc(THINGS[name][1] or "")
    checkpoint, cancelled = text.rfind("Checkpoint:"), text.rfind("If cancelled:")
    if not 0 <= checkpoint < cancelled:
        yield f"{name} does not say how it waits"
    elif "\n\n" in text[checkpoint:].strip():
        yield f"{name} goes on behind its promises"


def test_async_callables_say_how_they_wait():
    """The last two paragraphs are "Checkpoint:" and "If cancelled:", in that order."""
    none_of(fault for name in ASYNC for fault in missing_promises(name))


def wrong_arguments(name: str):
    function, doc, _ = THINGS[name]
    _, found, rest = inspect.cleandoc(doc or "").partition("\nArgs:\n")
    section = rest.split("\n\n")[0]
    told = re.findall(r"^    \*{0,2}(\w+): ", section, re.MULTILINE)
    parameters = inspect.signature(function).parameters
    real = [each for each in parameters if each not in {"self", "cls"}]
    if found and told != real:
        yield f"{name} describes {told}, and has {real}"


def test_documented_arguments_are_the_real_ones():
    """A docstring that describes arguments describes all of them, and no others."""
    none_of(fault for name in FUNCTIONS for fault in wrong_arguments(name))


def test_every_public_thing_is_checked():
    """Every documented module is checked, and inherited methods, and waiting plain functions."""
    pages = (Path(rsocket_trio.__file__).parents[1] / "docs/reference").glob("*.md")
    named = {
        module
        for page in pages
        for module in re.findall(r"(?:auto|current)module:: ([\w.]+)", page.read_text())
    }
    assert named <= {*PUBLIC}
    assert "rsocket_trio.PayloadStream.aclose" in THINGS
    assert {"rsocket_trio.connect", "rsocket_trio.Requester.request_response"} <= {*ASYNC}
