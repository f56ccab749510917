"""The types in public signatures can be imported, by their names, from where users import."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import typing
from collections.abc import Coroutine
from functools import cache
from pathlib import Path

import rsocket_trio
from rsocket_trio.sealed import Sealed
from tests.rules.sources import FILES, ROOT, none_of, tree_of

INTERNAL = {"connection", "interactions", "protocol", "sockets", "cli"}
PUBLIC = ["rsocket_trio"] + [
    name
    for _, name, is_package in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio.")
    if is_package
    and name.split(".")[1] not in INTERNAL
    # Users import from the package of the protocol.
    and not name.startswith(
        ("rsocket_trio.lumberjack.", "rsocket_trio.rsio.", "rsocket_trio.ttrpc.")
    )
]


def exported():
    """Yield (package, name, thing) of all that users import."""
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            yield package, name, getattr(module, name)


NAMES = {name for _, name, _ in exported()}
THINGS = {id(thing) for _, _, thing in exported()}


def source_of(module: str) -> ast.Module:
    return tree_of(Path(sys.modules[module].__file__).relative_to(ROOT))


@cache
def namespace(module: str) -> dict[str, object]:
    """The names of a module, with those that it imports for annotations only."""
    names = dict(vars(sys.modules[module]))
    for node in ast.walk(source_of(module)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            block = ast.Module(node.body, type_ignores=[])
            exec(compile(block, f"<{module}>", "exec"), names)
    return names


@cache
def aliases() -> frozenset[str]:
    """The type aliases that this package defines."""
    return frozenset(
        node.target.id
        for file in FILES
        for node in tree_of(file).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
    )


def functions_of(thing):
    """A function; or the constructor, the methods and the properties of a class, as functions."""
    if inspect.isfunction(thing):
        yield thing
    if not inspect.isclass(thing):
        return
    for name, member in vars(thing).items():
        if name.startswith("_") and name not in {"__init__", "__call__", "__aenter__"}:
            continue
        if name == "__init__" and isinstance(thing, Sealed):
            continue  # no user calls it
        for each in (
            [member.fget] if isinstance(member, property) else [getattr(member, "__func__", member)]
        ):
            if inspect.isfunction(each) and each.__module__.startswith("rsocket_trio"):
                yield inspect.unwrap(each)


def parts(hint):
    """A type, and all types it is made of."""
    yield hint
    for argument in typing.get_args(hint):
        for each in argument if isinstance(argument, list) else [argument]:
            yield from parts(each)


def hints_of(thing):
    """The types in the signatures of a thing, or those it is an alias for."""
    for function in functions_of(thing):
        names = namespace(function.__module__)
        for hint in typing.get_type_hints(function, names, names, include_extras=True).values():
            yield from parts(hint)
    if inspect.isclass(thing):
        for base in thing.__mro__:
            if base.__module__.startswith("rsocket_trio."):
                names = namespace(base.__module__)
                fields = vars(base).get("__annotations__", {})
                own = type(base.__name__, (), {"__annotations__": fields})
                for name, hint in typing.get_type_hints(own, names, names).items():
                    if not name.startswith("_"):
                        yield from parts(hint)
    elif not inspect.isfunction(thing):
        yield from parts(thing)


def words_of(thing):
    """The names in the annotations of a thing, as they are written."""
    for function in functions_of(thing):
        for annotation in function.__annotations__.values():
            for node in ast.walk(ast.parse(str(annotation), mode="eval")):
                if isinstance(node, ast.Name):
                    yield node.id


def hidden_types(package, name, thing):
    hidden = {
        f"{hint.__module__}.{hint.__qualname__}"
        for hint in hints_of(thing)
        if inspect.isclass(hint)
        and hint.__module__.startswith("rsocket_trio")
        and id(hint) not in THINGS
    }
    hidden |= set(words_of(thing)) & aliases() - NAMES
    if hidden:
        yield f"{package}.{name} speaks of {sorted(hidden)}"


def test_types_in_signatures_can_be_imported():
    """Each type of ours in a signature, and each alias, is in an ``__all__``."""
    none_of(fault for each in exported() for fault in hidden_types(*each))


def test_all_parts_of_a_signature_are_checked():
    """Arguments, results, properties, attributes, type arguments and names are checked."""
    assert {rsocket_trio.RouteDescription, rsocket_trio.Codecs, rsocket_trio.Setup} <= set(
        hints_of(rsocket_trio.Router)
    )
    assert rsocket_trio.Requester in hints_of(rsocket_trio.connect)
    assert rsocket_trio.ConnectionLeases in hints_of(rsocket_trio.Requester)
    assert rsocket_trio.Interaction in hints_of(rsocket_trio.RequestFacts)
    assert rsocket_trio.CustomAuthentication in hints_of(rsocket_trio.Authenticate)
    assert "LeaseSource" in words_of(rsocket_trio.LeaseOptions)
    assert "Authenticate" in words_of(rsocket_trio.Router)
    assert {"Authenticate", "AnyPayload", "Dial", "MakePair"} <= aliases()


def test_users_get_no_any():
    """Type checkers know all that applications give and get: no signature has `Any`.

    Other than in the signatures of Python's own that are taken over, and in a coroutine's first two
    types, which nobody sees.
    """
    none_of(
        fault
        for package, _, thing in exported()
        if package in {"rsocket_trio", "rsocket_trio.testing"}
        and thing is not rsocket_trio.ReloadableContext
        for fault in untyped(thing)
    )


def untyped(thing):
    if is_untyped(thing):
        yield f"{thing} is an alias"
    for function in functions_of(thing):
        for seen in typing.get_overloads(function) or [function]:
            names = namespace(seen.__module__)
            hints = typing.get_type_hints(seen, names, names, include_extras=True)
            yield from (
                f"{seen.__qualname__} has {hint} for {name}"
                for name, hint in hints.items()
                if is_untyped(hint)
            )


def is_untyped(hint):
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is Coroutine:
        arguments = arguments[2:]
    flat = (each for one in arguments for each in (one if isinstance(one, list) else [one]))
    return hint is typing.Any or any(map(is_untyped, flat))
