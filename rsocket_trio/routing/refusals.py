"""The texts for peer and log about requests that are refused, or whose handler fails.

The log names interaction, route, handler and peer, and places and types in the data. There are no
values in either: values come from the peer, and may be long or secret.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Final

from ..codecs.registry import CodecError, NoCodec, annotation_name, explain
from ..errors import Invalid, MetadataError, MetadataTooLarge, StreamError, addressed
from ..log_policy import logger
from ..log_text import Block

if TYPE_CHECKING:
    from .handler import Context
    from .kinds import Kind
    from .parameters import Parameter, Route
    from .signature import Signature

__all__ = [
    "answer_refused",
    "data_refused",
    "named",
    "noted",
    "shown",
    "unreadable",
    "variable_refused",
    "why",
]

_MAX_SHOWN: Final = 64
"""Characters of a text of the peer that we send back."""
_MAX_REASON: Final = 1000
"""Characters that say where and why data were refused."""


def shown(text: str) -> str:
    """Return a text of the peer, escaped and cut, to be sent back."""
    return ascii(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!a}..."


def named(
    context: Context, interaction: Kind, route: Route, signature: Signature | None = None
) -> str:
    """Return the name of a request for the log."""
    asked = f"{interaction.value} {shown(route.name)}" if route.name else interaction.value
    handler = "" if signature is None else f" ({signature.name})"
    transport = context.setup.transport
    return f"{asked}{handler} from {transport.peer or transport.scheme}"


def data_refused(
    context: Context,
    signature: Signature,
    parameter: Parameter,
    route: Route,
    mime_type: str,
    error: CodecError,
) -> Invalid:
    """Log data that cannot be converted, and return the answer."""
    where = _where(route)
    if isinstance(error, NoCodec):
        logger.info(
            "data refused: %s: %s", named(context, signature.interaction, route, signature), error
        )
        return Invalid(f"{where} cannot read these data: {error}")
    text = f"{where} expects {annotation_name(parameter.annotation)} as {shown(mime_type)}"
    reason = why(error, parameter.name)
    request = named(context, signature.interaction, route, signature)
    logger.info("data refused: %s, as %s: %s", request, shown(mime_type), reason)
    # Tracebacks only at level DEBUG: a peer must not be able to fill the log.
    if logger.enabled_for(logging.DEBUG):
        logger.debug("data refused: %s\n%s", request, Block(_places(error)))
    return Invalid(f"{text}: {reason}" if context.explains else text)


def variable_refused(
    context: Context, signature: Signature, parameter: Parameter, error: CodecError
) -> Invalid:
    """Log a variable of a route that cannot be converted, without its value; return the answer."""
    template = "" if signature.template is None else signature.template.text
    expected = annotation_name(parameter.annotation)
    text = f"route {template!a} expects {expected} for its variable {parameter.name!r}"
    explained = f"{text}: {why(error, parameter.name)}"
    transport = context.setup.transport
    logger.info("request refused from %s: %s", transport.peer or transport.scheme, explained)
    return Invalid(explained if context.explains else text)


def why(error: CodecError, root: str) -> str:
    """Return where and why data were refused, without values; the place begins with ``root``."""
    reason = explain(error, root)
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}..."


def answer_refused(
    context: Context, signature: Signature, route: Route, error: CodecError
) -> Invalid:
    """Log a request whose answer cannot be written in its MIME type, and return the refusal."""
    request = named(context, signature.interaction, route, signature)
    logger.info("request refused: %s: the answer cannot be written: %s", request, error)
    return Invalid(f"{_where(route)} cannot be answered: {error}")


def _where(route: Route) -> str:
    return f"route {shown(route.name)}" if route.name else "this request"


def _places(error: BaseException | None) -> str:
    """Return the tracebacks of an error and its causes, without texts, which may show values."""
    lines: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # an error can be its own cause
        seen.add(id(error))
        lines[:0] = [
            "Traceback, without values (most recent call last):\n",
            *traceback.format_list(traceback.extract_tb(error.__traceback__)),
            f"{type(error).__name__}\n",
        ]
        error = error.__cause__
    return "".join(lines)


def unreadable(error: MetadataError, request: str) -> Invalid:
    """Log metadata that are damaged or too large, and return the answer."""
    logger.info("metadata refused: %s: %s", request, error)
    if isinstance(error, MetadataTooLarge):
        return Invalid(str(error))
    return Invalid("the metadata of this request cannot be read")


def noted(
    error: Exception,
    context: Context,
    interaction: Kind,
    route: Route,
    signature: Signature | None,
) -> None:
    """Add a note with the request to an error: the log shows it with the traceback."""
    if addressed(error, StreamError) is not None:
        return  # it is for the peer, and is not logged
    notes = getattr(error, "__notes__", [])
    if not any(
        note.startswith(_NOTE) for note in notes
    ):  # the same object may be raised several times
        error.add_note(f"{_NOTE}{named(context, interaction, route, signature)}")


_NOTE: Final = "while answering "
