"""Keep the errors of a handler within its stream, and those of a connection within the connection.

A handler may raise any error, and misuse cancel scopes in any way; this ends only its own stream.
So any error is the outcome of its stream, also a `trio.Cancelled` without a cancelled scope. There
are two exceptions: the cancellation of the connection, which the caller checks first, and errors
that end the whole program (`KeyboardInterrupt`, `SystemExit`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from ..errors import InternalError
from ..log_policy import logger

if TYPE_CHECKING:
    from ..sockets.byte_stream import TransportInfo

__all__ = [
    "being_cancelled",
    "cancellation_of",
    "contained",
    "crash",
    "crashed",
    "failure_of",
    "hidden_by_scope",
    "outcome_of",
    "parted",
    "split",
]

_ENDS_THE_PROGRAM: Final = (KeyboardInterrupt, SystemExit)


def outcome_of(error: BaseException) -> Exception:
    """Return the error with which a stream ends, because its handler or source raised ``error``.

    Call this only if no surrounding cancel scope is cancelled, or if ``error`` was raised without
    a wait: then a `trio.Cancelled` in it belongs to no scope.

    Raises:
        KeyboardInterrupt: Or `SystemExit`: if ``error`` is one, or a group with one.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, BaseExceptionGroup):
        urgent, rest = split(error, _ENDS_THE_PROGRAM)
        if urgent is not None:
            raise urgent
        if rest is not None:
            failures, _ = split(rest, Exception)
            if isinstance(failures, Exception):
                return failures
    elif isinstance(error, _ENDS_THE_PROGRAM):
        raise error
    what = "a cancellation" if isinstance(error, trio.Cancelled) else type(error).__name__
    stray = RuntimeError(
        f"a handler or source raised {what} that belongs to no scope around it; a cancel scope "
        "must absorb its own cancellation, and code must not keep one to raise it later"
    )
    stray.__cause__ = error
    return stray


def failure_of(error: BaseException) -> Exception:
    """Do the same as `outcome_of` for a function of the application that may have waited.

    Raises:
        BaseException: ``error`` itself, if a surrounding cancel scope is cancelled.
        KeyboardInterrupt: Or `SystemExit`: if ``error`` is one, or a group with one.
    """
    if not isinstance(error, Exception) and being_cancelled():
        raise error
    return outcome_of(error)


def hidden_by_scope(error: BaseException) -> BaseException:
    """Return what a scope has hidden: trio raises an error of its own if one in it is still open.

    Only what may have to end the program is looked for; for all else ``error`` says enough.

    Args:
        error: Raised by the end of a scope around a function that deals with each `Exception`.
    """
    hidden = error.__context__
    if isinstance(error, RuntimeError) and not isinstance(
        hidden, Exception | trio.Cancelled | None
    ):
        return hidden
    return error


def split(
    error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]
) -> tuple[BaseException | None, BaseException | None]:
    """Split an error, or a group of errors, into the part of these kinds and the rest."""
    if not isinstance(error, BaseExceptionGroup):
        return (error, None) if isinstance(error, kinds) else (None, error)
    try:
        return error.split(kinds)
    except Exception:  # of a subclass whose own `split` or `derive` fails
        return None, error


def cancellation_of(error: BaseException | None) -> trio.Cancelled | None:
    """Return the cancellation that an error is: a nursery on the way has put it into a group.

    Args:
        error: The error.

    Returns:
        One of the cancellations; ``None`` if there is none, or another error beside it.
    """
    while isinstance(error, BaseExceptionGroup) and split(error, trio.Cancelled)[1] is None:
        error = error.exceptions[0]
    return error if isinstance(error, trio.Cancelled) else None


def parted(error: BaseException) -> tuple[BaseException | None, Exception | None]:
    """Split what a function of the application raised in a task of its own.

    Returns:
        The cancellation of the calling task, to be raised again after all else is done; and what
        the function has failed with. One of the two, or both.

    Raises:
        KeyboardInterrupt: Or `SystemExit`: if ``error`` is one, or a group with one.
    """
    cancelled, rest = split(error, trio.Cancelled) if being_cancelled() else (None, error)
    return cancelled, None if rest is None else outcome_of(rest)


@contextmanager
def contained(info: TransportInfo, carrier: object) -> Iterator[None]:
    """Log the errors that come out of one connection, so that they do not end the others.

    Args:
        info: Facts about the connection.
        carrier: The transport or stream that it runs over, which may be the application's.

    Raises:
        trio.Cancelled: The server is being cancelled.
        KeyboardInterrupt: Also `SystemExit`: they end the program.
    """
    try:
        yield
    except BaseException as error:  # `parted` re-raises those that end the program
        cancelled, failure = parted(error)
        if failure is not None:
            peer = info.peer or info.scheme
            logger.error("the connection to %s %s", peer, crash(failure, carrier), exc_info=failure)
        if cancelled is not None:
            raise cancelled from None


def crash(error: BaseException, carrier: object) -> str:
    """Say whose fault an unexpected error is: ours, or that of an object of the application.

    Args:
        error: The error.
        carrier: The transport or stream of the connection.
    """
    place = _place_of_others(error)
    if place:
        return f"crashed at {place}, which is not in rsocket_trio"
    kind = type(carrier)
    if not _is_ours(kind.__module__):
        return (
            f"crashed: check first what its {kind.__module__}.{kind.__qualname__} does and "
            "returns; if that is right, please report this with the traceback"
        )
    return "crashed; please report this with the traceback"


def crashed(group: BaseException, what: str, carrier: object) -> InternalError | None:
    """Return what a block raises whose tasks have crashed.

    Args:
        group: What its nursery raised; a cancellation beside a crash does not matter.
        what: What has crashed, for the text.
        carrier: As for `crash`.

    Returns:
        The error; ``None`` if it is only a cancellation, or ends the program.
    """
    failure = split(group, trio.Cancelled)[1]
    if not isinstance(failure, Exception):
        return None
    return InternalError(f"{what} {crash(failure, carrier)}")


_OURS: Final = frozenset(
    (
        "attr",
        "attrs",
        "cbor2",
        "h11",
        "outcome",
        "rsocket_trio",
        "trio",
        "trio_websocket",
        "wsproto",
    )
)
"""This package and what it depends on; an error in there is ours to look at first."""


def _is_ours(module: str) -> bool:
    top = module.partition(".")[0]
    return top in _OURS or top in sys.stdlib_module_names


def _place_of_others(error: BaseException) -> str:
    """Return the innermost place in a traceback that is not in this package; empty if none is."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_place_of_others, error.exceptions)), "")
    found = ""
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if not _is_ours(str(place.tb_frame.f_globals.get("__name__"))):
            found = f"line {place.tb_lineno} of {code.co_filename}"
        place = place.tb_next
    return found


def being_cancelled() -> bool:
    """Whether a cancel scope around this task is cancelled, so it gets a `trio.Cancelled`."""
    return trio.current_effective_deadline() == -float("inf")
