"""Import what a server serves: ``package.module:name`` or ``path/file.py:name``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from rsocket_trio import Router
from rsocket_trio.responder import Responder, lifespan_of

from .exits import USAGE, Failure

__all__ = ["check_provided", "load_object", "load_target", "router_in"]

T = TypeVar("T")

DEFAULT_NAMES: Final = ("app", "router")


def load_target(target: str, *, rsocket: bool = True, rsio: bool = False) -> Any:
    """Import what a server of these protocols can serve, once for both.

    That is a Responder; for RSocket alone also an acceptor function, and for rsio alone a mapping
    of publishers or a resolver function.

    Raises:
        Failure: As for `load_object`.
    """

    def check(found: object, name: str) -> object:
        if rsocket:
            _check(found, name)
        if rsio:
            _check_published(found, name)
        check_provided(found, name)
        return found

    return load_object(target, check)


def check_provided(found: object, name: str) -> None:
    """Refuse a router whose handlers need something that nobody provides.

    Raises:
        Failure: It is such a router.
    """
    try:
        lifespan_of(found)
    except TypeError as error:
        raise Failure(f"{name!r} cannot be served: {error}", USAGE) from error


def load_object(target: str, check: Callable[[object, str], T]) -> T:
    """Import the object that ``target`` names.

    Python looks for a module in the working directory first, as ``python -m`` does. It looks for
    the imports of a file in the directory of that file first, as ``python file.py`` does.

    Args:
        target: ``package.module[:name]`` or ``path/file.py[:name]``.
        check: Returns the object, or raises `Failure` if it cannot be served. It also gets the
            name, for the message.

    Raises:
        Failure: There is no such module, file or name; the import failed (``__cause__`` is its
            error); or the object cannot be served.
    """
    where, name = _split(target)
    module = _load_file(where) if _is_path(where) else _load_module(where)
    if name is not None:
        return check(_find(module, where, name), target)
    for default in DEFAULT_NAMES:
        if hasattr(module, default):
            return check(getattr(module, default), f"{where}:{default}")
    text = f"{where!r} has neither 'app' nor 'router'; name the object to serve: {where}:NAME"
    raise Failure(text, USAGE)


def router_in(found: object, name: str) -> Router:
    """Return a router that has been imported; for `load_object`.

    Raises:
        Failure: It is something else.
    """
    if not isinstance(found, Router):
        raise Failure(f"{name!r} is no Router, but a {type(found).__name__!r}", USAGE)
    return found


def _split(target: str) -> tuple[str, str | None]:
    where, colon, name = target.rpartition(":")
    if not colon:
        return target, None
    if not where or not all(part.isidentifier() for part in name.split(".")):
        raise Failure(f"{target!r} is not MODULE:NAME or FILE.py:NAME", USAGE)
    return where, name


def _is_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Failure(f"{name!r} is neither a module name nor the path of a .py file", USAGE)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The target itself is missing, not a module that it imports.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise Failure(f"there is no module named {error.name!r}", USAGE) from error
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise _import_failed(name, error) from error


def _load_file(name: str) -> ModuleType:
    path = Path(name).absolute()
    if not path.is_file():
        raise Failure(f"there is no file {name!r}", USAGE)
    # Its own name if that is free. It must be in ``sys.modules`` to resolve annotations.
    module_name = path.stem if path.stem not in sys.modules else f"{path.stem}_target"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise Failure(f"{name!r} is not a Python file", USAGE)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        del sys.modules[module_name]
        raise _import_failed(name, error) from error
    return module


def _import_failed(where: str, error: BaseException) -> Failure:
    text = str(error).strip().partition("\n")[0]
    what = type(error).__name__ + (f": {text}" if text else "")
    return Failure(f"cannot import {where!r}: {what} (--verbose shows the traceback)", USAGE)


def _find(module: ModuleType, where: str, name: str) -> object:
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise Failure(f"there is no {name!r} in {where!r}", USAGE) from error
    return found


def _check(found: object, target: str) -> None:
    if isinstance(found, Responder):
        return
    if isinstance(found, type) and issubclass(found, Responder):
        raise Failure(f"{target!r} is a class; name an instance of that class", USAGE)
    if not callable(found):
        text = f"{target!r} is neither a Responder nor an acceptor function"
        raise Failure(f"{text}, but an object of type {type(found).__name__!r}", USAGE)
    if not _takes_two_arguments(found):
        text = f"{target!r} is not an acceptor function: it must take two arguments"
        raise Failure(f"{text}, the setup and the requester", USAGE)


def _check_published(found: object, target: str) -> None:
    # Importing it takes time, which the other commands do not need.
    from rsocket_trio.rsio.targets import check_served

    try:
        check_served(found)
    except TypeError as error:
        raise Failure(f"{target!r}: {error}", USAGE) from error


def _takes_two_arguments(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        pass
    return True
