"""Docstrings are promises: what is public has one, and what is async says how it waits."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import rsocket_trio

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio.")
    if not module.name.endswith("__main__")
)


def public_callables():
    """Yield (name, callable, overridden) of everything public, methods included."""
    seen = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if getattr(thing, "__module__", None) != module_name or id(thing) in seen:
                continue
            seen.add(id(thing))
            yield f"{module_name}.{name}", thing, False
            if inspect.isclass(thing):
                for attribute, member in vars(thing).items():
                    if inspect.isfunction(member) and not attribute.startswith("_"):
                        overridden = any(attribute in vars(base) for base in thing.__mro__[1:])
                        yield f"{module_name}.{name}.{attribute}", member, overridden


THINGS = list(public_callables())
ASYNC = [
    (name, thing)
    for name, thing, overridden in THINGS
    if inspect.iscoroutinefunction(thing) and not overridden
]
# Contracts of what the application writes: how its handlers wait is its own affair.
CALLED_BY_US = ("rsocket_trio.responder.Responder.",)
# The contract is stated once, in the base; D102 is off there for the same reason.
WITHIN = ("rsocket_trio.interactions.", "rsocket_trio.cli.")


@pytest.mark.parametrize("name", [name for name, thing, _ in THINGS if callable(thing)])
def test_public_things_have_docstrings(name):
    """Everything exported says what it is, except what its base has said."""
    thing, overridden = next((thing, over) for each, thing, over in THINGS if each == name)
    if (
        overridden
        or name.startswith(WITHIN)
        or not (inspect.isclass(thing) or inspect.isfunction(thing))
    ):
        return
    assert (thing.__doc__ or "").strip()


@pytest.mark.parametrize(
    "name",
    [name for name, _ in ASYNC if not name.startswith((*CALLED_BY_US, *WITHIN))],
)
def test_async_callables_say_how_they_wait(name):
    """The last two paragraphs are "Checkpoint:" and "If cancelled:", in that order."""
    thing = dict(ASYNC)[name]
    text = inspect.getdoc(thing) or ""
    checkpoint, cancelled = text.rfind("Checkpoint:"), text.rfind("If cancelled:")
    assert 0 <= checkpoint < cancelled, f"{name} does not say how it waits"
    assert "\n\n" not in text[checkpoint:].strip(), f"{name} goes on behind its promises"
