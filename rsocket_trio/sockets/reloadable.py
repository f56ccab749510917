"""TLS whose certificates are read again while connections are served: `ReloadableContext`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import Any, Self

__all__ = ["ReloadableContext"]


class ReloadableContext(ssl.SSLContext):
    """A TLS context that another one takes the place of: `reload` loads its certificates again.

    ``serve(app, "tls://...", ssl_context=ReloadableContext(load))``, where ``load()`` makes an
    `ssl.SSLContext` from files. Each connection has the context of its handshake for good, so new
    certificates count for new connections, and those that are open go on.

    A new context, and not the files loaded into the old one: `ssl` cannot take an authority or a
    key of another kind out of a context, and one in which a load has failed is of no use.

    Args:
        load: Makes the context, and sets all of it: settings of the `ReloadableContext` itself
            have no effect.

    Raises:
        TypeError: ``load`` returned something else.
        Exception: What ``load`` raises.
    """

    _load: Callable[[], ssl.SSLContext]
    _current: ssl.SSLContext
    _alpn: list[str] | None

    def __new__(cls, load: Callable[[], ssl.SSLContext]) -> Self:
        """Load the first context; the protocol of `ssl` is made here, so all of it is."""
        first = _checked(load())
        self = super().__new__(cls, first.protocol)
        self._load = load
        self._current = first
        self._alpn = None
        return self

    def reload(self) -> None:
        """Load again, for the handshakes from now on. In any thread.

        Raises:
            TypeError: ``load`` returned something else than before.
            Exception: What ``load`` raises. Then the context stays as it was.
        """
        context = _checked(self._load())
        if context.protocol != self.protocol:
            raise TypeError(f"load returned a context of {context.protocol!r}, not as before")
        if self._alpn is not None:
            context.set_alpn_protocols(self._alpn)
        self._current = context

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """See `ssl.SSLContext.set_alpn_protocols`; they stay when it loads again."""
        self._alpn = list(alpn_protocols)
        self._current.set_alpn_protocols(self._alpn)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`."""
        return self._current.wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """See `ssl.SSLContext.wrap_socket`."""
        return self._current.wrap_socket(*args, **options)


def _checked(context: object) -> ssl.SSLContext:
    if not isinstance(context, ssl.SSLContext) or isinstance(context, ReloadableContext):
        raise TypeError(f"load must return an ssl.SSLContext, not {type(context).__name__}")
    return context
