"""What is said of a request that is refused, or whose handler fails: to the peer, and to the log.

The log names interaction, route, handler and peer; of data it names places and types. Values are in
neither: they are the peer's, and may be long or secret.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Final

from ..codecs.registry import CodecError, NoCodec, annotation_name
from ..errors import Invalid, MetadataError, MetadataTooLarge, StreamError
from ..log_policy import logger

if TYPE_CHECKING:
    from ..protocol.interaction import Interaction
    from .handler import Context
    from .signature import Parameter, Route, Signature

__all__ = ["answer_refused", "data_refused", "named", "noted", "shown", "unreadable"]

_MAX_SHOWN: Final = 64
"""Characters of a peer's own text that we send back to it."""
_MAX_REASON: Final = 300
"""Characters that say where and why data were refused."""


def shown(text: str) -> str:
    """What a peer sent, on its way back: escaped and short."""
    return ascii(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!a}..."


def named(
    context: Context, interaction: Interaction, route: Route, signature: Signature | None = None
) -> str:
    """A request, as the log names it."""
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
    """The answer to data that cannot be converted."""
    where = _where(route)
    if isinstance(error, NoCodec):
        logger.info(
            "data refused: %s: %s", named(context, signature.interaction, route, signature), error
        )
        return Invalid(f"{where} cannot read these data: {error}")
    text = f"{where} expects {annotation_name(parameter.annotation)} as {shown(mime_type)}"
    reason = error.explained(parameter.name)
    if len(reason) > _MAX_REASON:
        reason = f"{reason[:_MAX_REASON]}..."
    request = named(context, signature.interaction, route, signature)
    logger.info("data refused: %s, as %s: %s", request, shown(mime_type), reason)
    # What a peer sends must not fill the log: where it went wrong is for those who look.
    if logger.enabled_for(logging.DEBUG):
        logger.debug("data refused: %s\n%s", request, _places(error))
    return Invalid(f"{text}: {reason}" if context.explains else text)


def answer_refused(
    context: Context, signature: Signature, route: Route, error: CodecError
) -> Invalid:
    """The answer to a request whose answer cannot be written in the MIME type that is due."""
    request = named(context, signature.interaction, route, signature)
    logger.info("request refused: %s: the answer cannot be written: %s", request, error)
    return Invalid(f"{_where(route)} cannot be answered: {error}")


def _where(route: Route) -> str:
    return f"route {shown(route.name)}" if route.name else "this request"


def _places(error: BaseException | None) -> str:
    """The traceback of an error and its causes without their texts, which may show values."""
    lines: list[str] = []
    while error is not None:
        lines[:0] = [
            "Traceback, without values (most recent call last):\n",
            *traceback.format_list(traceback.extract_tb(error.__traceback__)),
            f"{type(error).__name__}\n",
        ]
        error = error.__cause__
    return "".join(lines)


def unreadable(error: MetadataError, request: str) -> Invalid:
    """The answer to metadata that are damaged, or more than is read; ``request`` as `named`."""
    logger.info("metadata refused: %s: %s", request, error)
    if isinstance(error, MetadataTooLarge):
        return Invalid(str(error))
    return Invalid("the metadata of this request cannot be read")


def noted(
    error: Exception,
    context: Context,
    interaction: Interaction,
    route: Route,
    signature: Signature | None,
) -> None:
    """Say in a failure which request it came of: the log shows that with the traceback."""
    if isinstance(error, StreamError):
        return  # it is meant for the peer, and not logged
    notes = getattr(error, "__notes__", [])
    if not any(note.startswith(_NOTE) for note in notes):  # it may be raised again and again
        error.add_note(f"{_NOTE}{named(context, interaction, route, signature)}")


_NOTE: Final = "while answering "
