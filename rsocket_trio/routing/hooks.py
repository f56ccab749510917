"""Call the functions of an application that admit connections and requests.

A failure of one of them refuses the connection or the request. The log names the function, and the
peer learns nothing about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from types import CoroutineType, GeneratorType, NotImplementedType
from typing import Any, Final

from ..codecs.mismatch import UNAWAITED, kind_of, unawaited
from ..errors import (
    RejectedResume,
    SetupError,
    StreamError,
    addressed,
)
from ..log_policy import logger
from .parameters import name_of

__all__ = ["NOT_ADMITTED", "Refusal", "ask", "check_answer", "check_hook", "failed", "said"]

Refusal = SetupError | StreamError | RejectedResume

_NO_ANSWERS: Final = (Awaitable, GeneratorType)
_DOUBTFUL: Final = (*_NO_ANSWERS, *UNAWAITED, NotImplementedType, BaseException, type)

NOT_ADMITTED: Final = b"this connection was not admitted"
"""The text for the peer if a hook fails."""


def check_hook(option: str, function: object, *, is_async: bool = True) -> None:
    """Refuse an object that cannot be a hook of a router, before a connection depends on it.

    Raises:
        TypeError: The object cannot be called, or it is async and must not be.
    """
    if function is None:
        return
    if not callable(function):
        kind = kind_of(function)
        raise TypeError(f"{option}= takes {'an async' if is_async else 'a'} function, not {kind}")
    if not is_async and iscoroutinefunction(function):
        raise TypeError(
            f"{option}= takes a function that is not async, and {name_of(function)} is: write `def`"
        )


async def ask(option: str, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
    """Call a hook.

    Args:
        option: The parameter of `rsocket_trio.Router` that has the hook.
        function: The hook.
        arguments: The arguments of the hook.

    Returns:
        The principal, of ``authenticate``.

    Raises:
        TypeError: Its result has no meaning, for example because an ``await`` is missing.
            Without this check, every peer would be admitted.
        Exception: The hook refuses or fails.

    Checkpoint: as the hook does.
    If cancelled: as the hook does.
    """
    waiting: Any = function(*arguments)
    if type(waiting) is not CoroutineType and not isinstance(waiting, Awaitable):
        raise TypeError(f"{name_of(function)} is not async: write `async def`, and no `yield`")
    result = await waiting
    check_answer(function, result)
    if option == "authenticate":
        if result is False:
            raise TypeError(f"{name_of(function)} returned False: to refuse, raise Rejected")
    elif result is not None:
        raise TypeError(
            f"{name_of(function)} returned {kind_of(result)}, but its result is not used: "
            "to refuse, raise an error"
        )
    return result


def check_answer(function: object, answer: Any) -> None:
    """Refuse what is no answer of a hook, and would be taken for a yes.

    Raises:
        TypeError: An ``await`` or a ``raise`` is missing; or the hook has a ``yield``.
    """
    kind: Any = type(answer)
    if not _is_doubtful(kind):
        return
    if isinstance(answer, UNAWAITED):
        raise TypeError(f"{name_of(function)} returned {unawaited(answer)}")
    if isinstance(answer, _NO_ANSWERS) or answer is NotImplemented:
        raise TypeError(f"{name_of(function)} returned {kind_of(answer)}, which is no answer")
    if isinstance(answer, BaseException) or (
        isinstance(answer, type) and issubclass(answer, BaseException)
    ):
        raise TypeError(f"{name_of(function)} returned an error: to refuse, raise it")


@lru_cache(maxsize=64)
def _is_doubtful(kind: type) -> bool:
    """Whether an object of a type may be no answer; each guarded request asks."""
    return issubclass(kind, _DOUBTFUL)


def said(error: Exception, *refusals: type[Refusal]) -> bytes | None:
    """Return the text of a refusal, also if it is alone in a group; ``None`` for other errors.

    A refusal that the hook itself has met, e.g. of the server of tokens that it asks, is another
    error: the hook has failed.

    The text and not the exception: an exception in a variable of a frame in its own traceback
    would keep that frame, with all that a peer has sent, until the garbage collector runs.
    """
    refusal = addressed(error, *refusals)
    if refusal is None:
        return None
    # It may be one object that is raised each time. (A frozen class would refuse an assignment.)
    refusal.with_traceback(None)
    error.with_traceback(None)
    return refusal.data


def failed(option: str, function: object, refused: str) -> None:
    """Log the failure of a hook that is being handled; ``refused`` names what was refused."""
    logger.exception(
        "%s= of a Router failed, so %s was refused: fix %s", option, refused, name_of(function)
    )
