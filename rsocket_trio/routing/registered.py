"""A registered handler with its settings and its layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..codecs import Codecs
from ..responder import Setup
from ..tracing import Tracing
from .kinds import Kind
from .parameters import unpacked
from .signature import Signature

if TYPE_CHECKING:
    from .declarations import Declared, Errors
    from .layers import Layer
    from .plans import Chain

__all__ = ["Explain", "Registered", "Registrations", "Settings"]

Explain: TypeAlias = bool | Callable[[Setup], bool]


@attrs.frozen(eq=False)
class Settings:
    """The settings of a router for its handlers; see `rsocket_trio.Router`.

    A setting that is ``None`` is that of the router around this one.

    Attributes:
        codecs: The codecs.
        explain: Decides which peers learn why data were refused.
        tracing: Makes the trace of a request current.
        providers: The providers of the router, and of those around it.
    """

    codecs: Codecs | None = None
    explain: Explain | None = None
    tracing: Tracing | None = None
    providers: Chain = ()

    def within(self, outer: Settings) -> Settings:
        """Return these settings in a router that is included in one with the ``outer`` ones."""
        return Settings(
            outer.codecs if self.codecs is None else self.codecs,
            outer.explain if self.explain is None else self.explain,
            outer.tracing if self.tracing is None else self.tracing,
            self.providers + outer.providers,
        )


@attrs.frozen
class Registered:
    """A handler with its layers and its settings.

    Attributes:
        signature: The handler.
        settings: The settings of the router on which it was registered.
        layers: The layers of the routers from which it was included, the outermost first, and its
            own. The layer of the router that has it now is not among them.
        declared: What it implements; ``None`` if it was registered by itself.
    """

    signature: Signature
    settings: Settings
    layers: tuple[Layer, ...] = ()
    declared: Declared | None = attrs.field(default=None, eq=False)

    @property
    def errors(self) -> Errors:
        """The classes of errors that its declaration names, by their codes."""
        return {} if self.declared is None else self.declared.errors

    @property
    def idempotent(self) -> bool:
        """Whether its declaration says that a request may be handled twice."""
        return self.declared is not None and self.declared.idempotent

    @property
    def doc(self) -> str:
        """The docstring of the handler, or that of its declaration; empty if there is none."""
        function, _ = unpacked(self.signature.function)
        own = inspect.getdoc(function)
        if own is None and self.declared is not None:
            own = inspect.getdoc(self.declared.function)
        return own or ""

    @property
    def key(self) -> str | None:
        """What it is found by: `Template.key`; ``None`` for requests without a route."""
        template = self.signature.template
        return None if template is None else template.key

    @property
    def route(self) -> str | None:
        """The route with its variables; ``None`` for requests without one."""
        template = self.signature.template
        return None if template is None else template.text


Registrations: TypeAlias = dict[Kind, dict[str | None, Registered]]
"""Handlers by interaction and `Template.key`; ``None`` is for requests without a route."""
