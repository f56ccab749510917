"""Which error of the application the requester gets for which exception: `translating`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Never, TypeAlias

from ..codecs.mismatch import kind_of
from ..errors import StreamError, fresh_copy, single_error
from ..log_policy import logger
from .call import Call
from .middleware import Middleware
from .parameters import name_of

__all__ = ["ErrorMap", "translating"]

ErrorMap: TypeAlias = Mapping[type[Exception], StreamError | Callable[[Never], StreamError]]
"""For each class of exceptions the error that is sent, or a function that makes it."""


def translating(errors: ErrorMap) -> Middleware:
    """Return the middleware that raises the errors of a map in place of others.

    The nearest base class counts. A `StreamError` is looked for among the classes of stream errors
    only: an answer is no failure.

    Raises:
        TypeError: It is no such map. The text says what to change.
    """
    if not isinstance(errors, Mapping):
        raise TypeError(f"errors= takes a dict, not {kind_of(errors)}")
    table = dict(errors)
    for kind, answer in table.items():
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError(f"errors= takes classes of exceptions as keys, not {kind_of(kind)}")
        if isinstance(answer, type) and issubclass(answer, StreamError):
            raise TypeError(
                f"errors= for {kind.__name__} is a class: write {answer.__name__}('a text for the "
                "requester')"
            )
        if not isinstance(answer, StreamError) and not callable(answer):
            raise TypeError(
                f"errors= for {kind.__name__} takes a StreamError, or a function that makes one "
                f"from the exception, not {kind_of(answer)}"
            )

    async def translate(call: Call) -> AsyncIterator[None]:
        try:
            yield
        except Exception as error:  # those without an answer are raised again
            answer = _answer(table, single_error(error))
            if answer is None:
                raise
            logger.debug("%r: answered with %s", call, type(answer).__name__, exc_info=error)
            raise answer from error

    return translate


def _answer(table: dict[Any, Any], error: BaseException) -> StreamError | None:
    """Return the error to be raised; ``None`` if the map has none.

    Raises:
        TypeError: The function of the map returns something else.
    """
    bases = type(error).__mro__
    if isinstance(error, StreamError):
        bases = bases[: bases.index(StreamError) + 1]
    found = next((table[base] for base in bases if base in table), None)
    if found is None or isinstance(found, StreamError):
        return None if found is None else fresh_copy(found)
    made = found(error)
    if not isinstance(made, StreamError):
        raise TypeError(f"{name_of(found)} in errors= returned {kind_of(made)}, not a StreamError")
    return made
